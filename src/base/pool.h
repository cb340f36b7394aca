/* A few threads that share loops over elements. A loop is cut into tasks that write to places of
 * their own, so results do not depend on how many threads there are. */
#ifndef TG_BASE_POOL_H
#define TG_BASE_POOL_H

#include "telegrad/base.h"

#define TG__POOL_MAX 256u /* threads */

typedef struct tg__pool tg__pool;

/* threads counts the caller of tg__pool_run: threads - 1 are started. 1: *pool_p is NULL, which all
 * functions take. Errors TG_E_ARG (0 or more than TG__POOL_MAX), TG_E_NOMEM */
TG_NODISCARD tg_status tg__pool_create(unsigned threads, tg__pool **pool_p);
void tg__pool_destroy(tg__pool *pool); /* nothing is running; NULL is fine */
unsigned tg__pool_threads(const tg__pool *pool);

/* fn(arg, i) for every i < tasks, each once, in any order, by the pool's threads and the caller's;
 * returns when all are done.
 * Threads  any: while the pool is at work for one of them (also from within fn), another does its
 *          tasks alone */
void tg__pool_run(tg__pool *pool, size_t tasks, void (*fn)(void *arg, size_t i), void *arg);

/* fn(arg, lo, hi) over [0, n) in pieces: lo is a multiple of `chunk`, hi too or n. A piece may hold
 * any number of chunks (all of them without a pool). Nothing is called for n = 0. */
void tg__pool_chunks(tg__pool *pool, size_t n, size_t chunk,
                     void (*fn)(void *arg, size_t lo, size_t hi), void *arg);

#endif

/* A pool of threads that share loops over elements. A loop is cut into tasks that write to separate
 * places, so results do not depend on the number of threads. */
#ifndef TG_BASE_POOL_H
#define TG_BASE_POOL_H

#include "telegrad/base.h"

#define TG__POOL_MAX 256u /* threads */

typedef struct tg__pool tg__pool;

/* Create a pool.
 * threads  1 to TG__POOL_MAX, including the caller of tg__pool_run; threads - 1 are started
 * pool_p   [out] NULL for 1 thread; all functions accept NULL
 * Errors   TG_E_ARG, TG_E_NOMEM */
TG_NODISCARD tg_status tg__pool_create(unsigned threads, tg__pool **pool_p);
void tg__pool_destroy(tg__pool *pool); /* nothing may be running; NULL is fine */
unsigned tg__pool_threads(const tg__pool *pool);

/* Call fn(arg, i) once for every i < tasks, in any order, on the pool's threads and the caller's.
 * Returns when all tasks are done.
 * Threads  any. While the pool works for one thread, another one (also within fn) runs its tasks
 *          alone */
void tg__pool_run(tg__pool *pool, size_t tasks, void (*fn)(void *arg, size_t i), void *arg);

/* Call fn(arg, lo, hi) for pieces that cover [0, n). lo is a multiple of `chunk`, and hi too, or n.
 * A piece may have any number of chunks (without a pool, all of them). For n = 0 fn is not
 * called. */
void tg__pool_chunks(tg__pool *pool, size_t n, size_t chunk,
                     void (*fn)(void *arg, size_t lo, size_t hi), void *arg);

#endif

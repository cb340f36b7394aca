/* Kernels over the cores of a pool, in pieces of whole chunks: the same bits as the kernel on one
 * core, for any number of threads (pool NULL: the calling one). */
#ifndef TG_KERNEL_PARALLEL_H
#define TG_KERNEL_PARALLEL_H

#include "base/pool.h"
#include "kernel/kernel.h"

void tg__parallel_add(tg__pool *pool, float *dst, const float *src, size_t n);
/* Whether all elements are finite. */
bool tg__parallel_finite(tg__pool *pool, const float *x, size_t n);
/* The same of dst afterwards, looked at while it is in the cache. */
bool tg__parallel_add_finite(tg__pool *pool, float *dst, const float *src, size_t n);
/* dst = a * dst + src (product rounded, then sum rounded) */
bool tg__parallel_scale_add_finite(tg__pool *pool, float *dst, float a, const float *src, size_t n);
/* p = r + g, and r = r + beta * g (product rounded, then sum rounded), 0 < beta <= 1: whether p is
 * finite; r is between its old value and p then */
bool tg__parallel_filter_finite(tg__pool *pool, float *p, float *r, float beta, const float *g,
                                size_t n);
/* dst = src, which may be dst: whether it is finite */
bool tg__parallel_copy_finite(tg__pool *pool, float *dst, const float *src, size_t n);
void tg__parallel_sub(tg__pool *pool, float *dst, const float *src, size_t n);
void tg__parallel_copy(tg__pool *pool, float *dst, const float *src, size_t n);
void tg__parallel_copy_stats(tg__pool *pool, float *dst, const float *src, size_t n,
                             tg__stats *stats);
/* dgc_select's arithmetic, nothing selected; whether v is finite afterwards. */
bool tg__parallel_dgc(tg__pool *pool, float *u, float *v, const float *g, size_t n, float m,
                      bool nesterov);

#endif

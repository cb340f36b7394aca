/* Kernels on the cores of a pool, in pieces of whole chunks. They give the same bits as the kernel
 * on one core, for any number of threads (pool NULL: the calling one). */
#ifndef TG_KERNEL_PARALLEL_H
#define TG_KERNEL_PARALLEL_H

#include "base/pool.h"
#include "kernel/kernel.h"

void tg__parallel_add(tg__pool *pool, float *dst, const float *src, size_t n);
/* Returns true if all elements are finite. */
bool tg__parallel_finite(tg__pool *pool, const float *x, size_t n);
/* dst += src; returns true if dst is finite, checked while it is cached. */
bool tg__parallel_add_finite(tg__pool *pool, float *dst, const float *src, size_t n);
/* dst = a * dst + src (product rounded, then sum rounded); returns true if dst is finite */
bool tg__parallel_scale_add_finite(tg__pool *pool, float *dst, float a, const float *src, size_t n);
/* p = r + g, and r = r + beta * g (product rounded, then sum rounded), 0 < beta <= 1. Returns true
 * if p is finite; r is then finite as well, because it is between its old value and p. */
bool tg__parallel_filter_finite(tg__pool *pool, float *p, float *r, float beta, const float *g,
                                size_t n);
/* dst = src, which may be dst; returns true if it is finite */
bool tg__parallel_copy_finite(tg__pool *pool, float *dst, const float *src, size_t n);
void tg__parallel_sub(tg__pool *pool, float *dst, const float *src, size_t n);
void tg__parallel_copy(tg__pool *pool, float *dst, const float *src, size_t n);
/* Words of 2 bytes to f32 and back, f16 or bf16 (brain). */
void tg__parallel_widen(tg__pool *pool, float *dst, const void *src, size_t n, bool brain);
void tg__parallel_narrow(tg__pool *pool, void *dst, const float *src, size_t n, bool brain);
void tg__parallel_copy_stats(tg__pool *pool, float *dst, const float *src, size_t n,
                             tg__stats *stats);
/* dgc_select's arithmetic with an empty selection; returns true if v is finite afterwards. */
bool tg__parallel_dgc(tg__pool *pool, float *u, float *v, const float *g, size_t n, float m,
                      bool nesterov);

#endif

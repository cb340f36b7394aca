/* Modified Gram-Schmidt on a few long columns, and random initial columns. */
#ifndef TG_ORTHONORMALIZE_H
#define TG_ORTHONORMALIZE_H

#include "telegrad/base.h"
#include "telegrad/random.h"

/* Make each column of a (count columns of n, one after another) orthogonal to those before it, with
 * length 1. A column becomes 0 if its norm falls below TG__DEPENDENT times its original norm, or is
 * 0, not finite, or below the normal numbers of f32. The bound is relative because gradients may be
 * small. If most of a column is removed, rounding leaves some of the removed part behind, so it is
 * removed a second time. Norms and products are summed in f64; columns stay f32. Source: Vogels et
 * al. 2019, arXiv:1905.13727, app. B (there an absolute epsilon) */
#define TG__DEPENDENT 1e-6
void tg__orthonormalize(float *a, size_t n, size_t count);

/* Draw the columns that are 0: element i of column k is number k * n + i of the key's stream,
 * uniform in [-1, 1). */
void tg__draw_zero_columns(float *a, size_t n, size_t count, const tg_rng_key *key);

#endif

/* The atoms of one matrix, and a random choice of them: M = sum of s_i u_i v_i^T. Atom i is kept
 * with probability p_i and then scaled by 1 / p_i, so that the mean is M. */
#ifndef TG_CODEC_ATOMO_MATRIX_H
#define TG_CODEC_ATOMO_MATRIX_H

#include "codec/codec_impl.h"
#include "codec/lowrank/eigen.h"
#include "telegrad/random.h"

/* An atom; atoms are sorted by size, largest first. */
typedef struct tg__atom {
    double s, p;
    size_t at; /* its index in the eigendecomposition */
} tg__atom;

/* Scratch of a codec, zeroed at first. From draw to the last call of atom it holds the matrix's
 * atoms. */
typedef struct tg__atomo {
    tg__eigen eigen;
    double *slab, *narrow, *wide;
    tg__atom *atom; /* (kept) after a draw */
    const float *x;
    size_t rows, cols;
} tg__atomo;

/* Decompose x (rows, cols), which is borrowed until the last tg__atomo_atom, and draw. Atom i, in
 * order of decreasing size, uses number first + i of the stream.
 * c       owns the scratch
 * kept_p  [out] the number of atoms drawn; SIZE_MAX: for any draw, this matrix has no usable
 *         decomposition in f32 (its values are too large)
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__atomo_draw(tg_codec *c, tg__atomo *a, const float *x, size_t rows,
                                      size_t cols, double rank, const tg_rng_key *key,
                                      uint64_t first, size_t *kept_p);
/* Atom i < kept as u (rows) v (cols)^T, scaled. */
void tg__atomo_atom(tg__atomo *a, size_t i, float *u, float *v);

/* Compute the probabilities p of atom (n, s descending and >= 0): proportional to s, at most 1,
 * with sum min(rank, number of atoms that are not 0). Returns the sum of s. */
double tg__atomo_probabilities(tg__atom *atom, size_t n, double rank);

#endif

/* The atoms of one matrix and a random choice of them: M = sum of s_i u_i v_i^T, atom i kept with
 * probability p_i and then scaled by 1 / p_i, so that the mean is M. */
#ifndef TG_CODEC_ATOMO_MATRIX_H
#define TG_CODEC_ATOMO_MATRIX_H

#include "codec/lowrank/eigen.h"
#include "telegrad/random.h"

/* An atom by size: largest first. */
typedef struct tg__atom {
    double s, p;
    size_t at; /* its number in the eigen-decomposition */
} tg__atom;

/* Scratch that grows, zeroed at first; between draw and atom it holds the matrix's atoms. */
typedef struct tg__atomo {
    tg__eigen eigen;
    double *slab, *narrow, *wide;
    tg__atom *atom; /* (kept) after a draw */
    size_t slab_cap, narrow_cap, wide_cap, atom_cap;
    const float *x;
    size_t rows, cols;
} tg__atomo;

void tg__atomo_free(tg__atomo *a);

/* Decompose x (rows, cols), borrowed until the last tg__atomo_atom, and draw: atom number i, by
 * falling size, takes the stream's number first + i. *kept_p: how many were drawn; SIZE_MAX: this
 * matrix has no usable decomposition in f32 (its values are too large), whatever is drawn.
 * Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__atomo_draw(tg__atomo *a, const float *x, size_t rows, size_t cols,
                                      double rank, const tg_rng_key *key, uint64_t first,
                                      size_t *kept_p);
/* Atom i < kept as u (rows) v (cols)^T, scaled. */
void tg__atomo_atom(tg__atomo *a, size_t i, float *u, float *v);

/* The probabilities p of atom (n, s falling and >= 0): in proportion to s, at most 1, with sum
 * min(rank, atoms that are not 0). Returns the sum of s. */
double tg__atomo_probabilities(tg__atom *atom, size_t n, double rank);

#endif

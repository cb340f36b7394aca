/* Eigenvalues of a symmetric matrix in f64, and an orthonormal set of eigenvectors, of which only
 * those requested are formed: the rotations of the QL steps are stored and applied in reverse to a
 * unit vector. So a few vectors of a matrix of n rows cost O(n^2) each, after the O(n^3)
 * tridiagonalisation. */
#ifndef TG_CODEC_EIGEN_H
#define TG_CODEC_EIGEN_H

#include "base/owned.h"

/* A plane rotation of rows `at` and `at` + 1. */
typedef struct tg__rotation {
    double c, s;
    size_t at;
} tg__rotation;

/* Scratch that grows; zeroed at first. */
typedef struct tg__eigen {
    size_t n;
    double *a;          /* (n, n) the caller writes the lower triangle, row by row */
    double *value;      /* (n) eigenvalues, not sorted */
    double *below;      /* (n) off-diagonal entries of the tridiagonal matrix */
    double *norm;       /* (n) half the squared norm of each Householder vector; 0: no reflection */
    tg__rotation *turn; /* (turns) in the order in which they were made */
    size_t turns;
    size_t turn_cap;
    tg__owned owned; /* all but turn */
} tg__eigen;

/* Allocate memory for a matrix of n rows.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__eigen_reserve(tg__eigen *e, size_t n);
void tg__eigen_free(tg__eigen *e);

/* Decompose the symmetric matrix whose lower triangle is in e->a, which is overwritten.
 * ok_p    [out] false: the iteration did not converge (no finite matrix is known for which this
 *         happens)
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__eigen_decompose(tg__eigen *e, bool *ok_p);
/* v (n) = eigenvector i of the last matrix, with norm 1. Different i give orthogonal vectors, even
 * if eigenvalues are equal. */
void tg__eigen_vector(const tg__eigen *e, size_t i, double *v);

#endif

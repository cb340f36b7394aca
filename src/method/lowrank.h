/* The matrices of a bucket that are exchanged as products of two skinny factors, and the memory
 * that each keeps between steps (PowerSGD):
 *
 *     m      (rows, cols) the sum of residual and gradient, before left right^T is subtracted
 *     left   (rows, rank) the factor that the ranks agreed on in the last step: orthonormal, or 0
 *     right  (cols, rank) this rank's m^T left
 *     basis  (cols, rank) the mean of right over the ranks, from which the next step starts
 *
 * The residual is m - left right^T. It is formed in the pass that adds the next gradient. Factors
 * are stored column by column. */
#ifndef TG_LOWRANK_H
#define TG_LOWRANK_H

#include "method/method.h"

typedef struct tg__lowrank_matrix {
    size_t tensor; /* index of the tensor in the bucket */
    size_t at;     /* its first element in the bucket */
    size_t rows, cols;
    size_t m_at, left_at, right_at; /* offsets in the slots; right_at also in basis and start */
    uint32_t name;                  /* hash of the name, for its random numbers */
} tg__lowrank_matrix;

/* A piece of work: some rows, or columns, of a matrix. */
typedef struct tg__lowrank_piece {
    size_t matrix, lo, hi;
} tg__lowrank_piece;

typedef struct tg__lowrank {
    size_t rank, count;
    bool large;                 /* the bucket does not fit into a core's caches */
    tg__lowrank_matrix *matrix; /* (count) */
    size_t nleft, nright;       /* elements of all left and all right factors */
    float *m, *left, *right, *basis;
    float *start;  /* (nright) the orthonormalised basis, for this step */
    float *before; /* (nright) basis before this step */
    float *row;    /* scratch, the longest row */
    tg__lowrank_piece *rows, *cols;
    size_t nrows, ncols; /* pieces */
    tg__pool *pool;
} tg__lowrank;

/* True if a matrix is at least min_ratio times as large as its factors. (With rank >= min(rows,
 * cols) it never is, for min_ratio >= 1.) */
bool tg__lowrank_pays(size_t rows, size_t cols, size_t rank, double min_ratio);

/* Choose the matrices among the bucket's tensors. The method owns all memory.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__lowrank_choose(tg__lowrank *l, tg__method *m, size_t rank,
                                          double min_ratio);
/* Then create the slots.
 * Errors  TG_E_NOMEM, TG_E_STATE */
TG_NODISCARD tg_status tg__lowrank_init(tg__lowrank *l, tg__method *m);

/* start = orthonormalised basis. Columns that are 0 are drawn at random; without warm, all are. */
void tg__lowrank_start(tg__lowrank *l, uint64_t seed, uint64_t step, bool warm);
/* m = residual + g (n of the bucket); p (nleft) = m start. */
void tg__lowrank_fold(tg__lowrank *l, const float *g, float *p);
/* m = residual, right = 0: the same state, with nothing left to subtract. scratch (n). */
void tg__lowrank_settle(tg__lowrank *l, float *scratch);
/* left = p (nleft), orthonormalised; p is only read. */
void tg__lowrank_agree(tg__lowrank *l, float *p);
/* right = m^T left. Columns that overflow f32 become 0; returns true if there are none. */
bool tg__lowrank_project(tg__lowrank *l);
bool tg__lowrank_clear_overflow(tg__lowrank *l); /* the second half of it */
/* out (n of the bucket) = left basis^T, in the places of the matrices. */
void tg__lowrank_expand(tg__lowrank *l, float *out);
/* The step is dropped: nothing of m counts as sent, and basis is restored. */
void tg__lowrank_undo(tg__lowrank *l);
/* Reset m to 0, with nothing sent, if `anyway` or if m strays (tg__state_strays). Returns true if
 * it was reset. */
bool tg__lowrank_heal(tg__lowrank *l, bool anyway);
double tg__lowrank_residual_norm(const tg__lowrank *l);

#endif

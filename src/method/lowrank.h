/* The matrices of a bucket that are exchanged as products of two skinny ones, and what is
 * remembered of each between steps (PowerSGD):
 *
 *     m      (rows, cols) the sum of what came in, before `left right^T` is taken off it
 *     left   (rows, rank) what the ranks agreed on in the last step: orthonormal, or 0
 *     right  (cols, rank) this rank's m^T left
 *     basis  (cols, rank) its mean over the ranks, from which the next step starts
 *
 * So the residual is m - left right^T; it is formed when the next gradient is added, in the pass
 * that does both. Factors are stored column by column. */
#ifndef TG_LOWRANK_H
#define TG_LOWRANK_H

#include "method/method.h"

typedef struct tg__lowrank_matrix {
    size_t tensor; /* its number in the bucket */
    size_t at;     /* of its first element in the bucket */
    size_t rows, cols;
    size_t m_at, left_at, right_at; /* in the slots; right_at: in basis and start too */
    uint32_t name;                  /* hash, which names its random numbers */
} tg__lowrank_matrix;

/* A share of a pass: rows, or columns, of a matrix. */
typedef struct tg__lowrank_piece {
    size_t matrix, lo, hi;
} tg__lowrank_piece;

typedef struct tg__lowrank {
    size_t rank, count;
    bool large;                 /* the bucket does not stay in a core's caches */
    tg__lowrank_matrix *matrix; /* (count) */
    size_t nleft, nright;       /* elements of all left and all right factors */
    float *m, *left, *right, *basis;
    float *start;  /* (nright) the orthonormal basis of this step */
    float *before; /* (nright) basis before this step's */
    float *row;    /* scratch, the longest row */
    tg__lowrank_piece *rows, *cols;
    size_t nrows, ncols; /* pieces */
    tg__pool *pool;
} tg__lowrank;

/* Whether a matrix is at least min_ratio times as large as its factors. (One with
 * rank >= min(rows, cols) never is, for min_ratio >= 1.) */
bool tg__lowrank_pays(size_t rows, size_t cols, size_t rank, double min_ratio);

/* Choose among the bucket's tensors, make slots. fini leaves the slots; l may be zeroed.
 * Errors TG_E_NOMEM, TG_E_STATE */
TG_NODISCARD tg_status tg__lowrank_init(tg__lowrank *l, const tg__method_setup *setup, size_t rank,
                                        double min_ratio);
void tg__lowrank_fini(tg__lowrank *l);

/* start = orthonormal basis; columns that are 0 are drawn, all of them if !warm. */
void tg__lowrank_start(tg__lowrank *l, uint64_t seed, uint64_t step, bool warm);
/* The residual plus g (n of the bucket) becomes m; p (nleft) = m start. */
void tg__lowrank_fold(tg__lowrank *l, const float *g, float *p);
/* The residual becomes m, right 0: as if the last step had sent nothing more. scratch (n). */
void tg__lowrank_settle(tg__lowrank *l, float *scratch);
/* left = orthonormalised p (nleft), which is only read */
void tg__lowrank_agree(tg__lowrank *l, float *p);
/* right = m^T left; whether it is in the range of f32: columns that are not become 0. */
bool tg__lowrank_project(tg__lowrank *l);
/* out (n of the bucket), where the matrices are, = left basis^T */
void tg__lowrank_expand(tg__lowrank *l, float *out);
/* The step is dropped: nothing of m counts as sent, basis is what it was before. */
void tg__lowrank_undo(tg__lowrank *l);
/* m = 0, and nothing of it was sent: if `anyway`, or if m strays (tg__state_strays). Whether. */
bool tg__lowrank_heal(tg__lowrank *l, bool anyway);
double tg__lowrank_residual_norm(const tg__lowrank *l);

#endif

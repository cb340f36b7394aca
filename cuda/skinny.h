/* PowerSGD's passes over all matrices of a vector with their skinny factors, with the bits of
 * src/kernel/skinny_ref.c. A matrix is cut into tiles, one for each block of a kernel; the tables
 * of tiles are made by matrices.c. */
#ifndef TG_CUDA_SKINNY_H
#define TG_CUDA_SKINNY_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A matrix; offsets of its first element, and of those of its factors. */
typedef struct tg__gpu_matrix {
    uint64_t at;   /* in the vector */
    uint64_t m_at; /* in m */
    uint64_t left_at, right_at;
    uint32_t rows, cols;
} tg__gpu_matrix;

/* The rows and columns that a tile begins with. */
typedef struct tg__gpu_tile {
    uint32_t matrix, row, col, unused;
} tg__gpu_tile;

/* A run of elements that are in no matrix: element `at` of the vector is element `to` of the rest.
 */
typedef struct tg__gpu_run {
    uint64_t at, to;
    uint64_t n; /* at most TG__GPU_RUN */
} tg__gpu_run;

enum {
    TG__FOLD_HALVES = 8, /* half warps of a block, each of which takes `height` rows */
    TG__PROJECT_COLS = 32,
    TG__CELL_ROWS = 64,
    TG__CELL_COLS = 64,
    TG__GPU_RUN = 8192
};

/* In device memory. */
typedef struct tg__gpu_matrices {
    const tg__gpu_matrix *matrix;
    uint32_t rank;
    uint32_t height;             /* 1, 2 or 4 rows that share what is loaded of the factors */
    const tg__gpu_tile *fold;    /* (nfold) TG__FOLD_HALVES * height rows, all columns */
    const tg__gpu_tile *project; /* (nproject) all rows, TG__PROJECT_COLS columns */
    const tg__gpu_tile *cells;   /* (ncells) TG__CELL_ROWS rows, TG__CELL_COLS columns */
    const tg__gpu_run *run;      /* (nruns) what is in no matrix */
    uint32_t nfold, nproject, ncells, nruns;
} tg__gpu_matrices;

/* m = (m - left right^T) + g; p = m start. If *bad is not UINT64_MAX: only m = m - left right^T. */
cudaError_t tg__gpu_fold(cudaStream_t stream, const tg__gpu_matrices *s, float *m, const float *g,
                         const float *left, const float *right, const float *start, float *p,
                         const uint64_t *bad);
/* right = m^T left */
cudaError_t tg__gpu_project(cudaStream_t stream, const tg__gpu_matrices *s, const float *m,
                            const float *left, float *right);
/* out = left right^T, in the places of the matrices. */
cudaError_t tg__gpu_expand(cudaStream_t stream, const tg__gpu_matrices *s, const float *left,
                           const float *right, float *out);
/* rest = the elements of x that are in no matrix; and back. */
cudaError_t tg__gpu_gather(cudaStream_t stream, const tg__gpu_matrices *s, const float *x,
                           float *rest);
cudaError_t tg__gpu_scatter(cudaStream_t stream, const tg__gpu_matrices *s, const float *rest,
                            float *x);

#ifdef __cplusplus
}
#endif
#endif

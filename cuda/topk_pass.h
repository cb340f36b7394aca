/* The pass of top-k: forms the vector, counts the candidates and collects them. */
#ifndef TG_CUDA_TOPK_PASS_H
#define TG_CUDA_TOPK_PASS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TG__TOPK_BLOCK = 8192,  /* elements of a block of the pass */
    TG__TOPK_SEGMENT = 128, /* elements whose candidates are counted together */
    TG__TOPK_SEGMENTS = TG__TOPK_BLOCK / TG__TOPK_SEGMENT,
    TG__TOPK_BINS = 2048
};

/* Device memory of a coder. Between calls ticket and hist are 0. */
typedef struct tg__topk_state {
    uint32_t go;       /* the kernels that follow have something to do */
    uint32_t low;      /* candidates have these magnitude bits or more */
    uint32_t total;    /* candidates */
    uint32_t keep;     /* how many of them are selected: min(k, total) */
    uint32_t kth;      /* magnitude bits of the least one selected */
    uint32_t above;    /* candidates above it */
    uint32_t infinite; /* a candidate is infinite */
    uint32_t ticket;
    uint32_t coding, param, dense; /* of the index code; the coded form does not pay */
    uint32_t at_index;             /* where that begins in the frame */
    uint64_t len;                  /* of the frame, if it is coded */
    uint32_t gaps[32];             /* sums of the gaps >> b */
    uint32_t hist[TG__TOPK_BINS];
} tg__topk_state;

/* What a vector is formed of. */
typedef enum tg__topk_forms {
    TG__TOPK_NONE = 0, /* g itself */
    TG__TOPK_RESIDUAL = 1,
    TG__TOPK_VELOCITY = 2,
    TG__TOPK_NESTEROV = 3
} tg__topk_forms;

typedef struct tg__topk_pass {
    tg__topk_forms forms;
    const float *g;
    float *x; /* r or v; not for NONE */
    float *u; /* VELOCITY and NESTEROV */
    float momentum;
    /* scores r + ahead * g, or v + ahead * u, decide, and are collected; NONE: 0 */
    float ahead;
    size_t n;
    const uint64_t *bad; /* NULL: g is finite */
    uint32_t low;        /* candidates have these magnitude bits or more; 0: state->low */
    uint32_t k, room;    /* wanted; candidates that there is room for */
    uint8_t *segments;   /* [out] candidates of each segment; multiples of SEGMENTS */
    uint32_t *blocks;    /* [out] candidates before each block */
    uint32_t *idx;       /* [out] candidates, ascending (room) */
    float *val;
    tg__topk_state *state;
} tg__topk_pass;

/* Set state->low to a magnitude that about `rank` of `count` sampled elements reach; elements are
 * those that the pass will form.
 * scratch  (count) */
cudaError_t tg__topk_sample(const tg__topk_pass *p, uint32_t count, uint32_t rank,
                            uint32_t *scratch, cudaStream_t stream);
/* Form the vector and count candidates. state->go: there are between k (or all that are not 0) and
 * `room`, and one at least. */
cudaError_t tg__topk_form(const tg__topk_pass *p, cudaStream_t stream);
/* Collect candidates from the vector as it is now. */
cudaError_t tg__topk_collect(const tg__topk_pass *p, cudaStream_t stream);
/* scores = x + ahead * g of the vector as it is now. scores  (n) */
cudaError_t tg__topk_scores(const tg__topk_pass *p, float *scores, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif

/* The values of sparse frames: rounded and written, the memory updated; and read. */
#ifndef TG_CUDA_SPARSE_VALUES_H
#define TG_CUDA_SPARSE_VALUES_H

#include "topk_pass.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    TG__SPARSE_BLOCK = 512, /* values with a scale of their own */
    TG__SPARSE_VALUES = 16  /* where they begin in a frame: after its head and k */
};
enum {
    TG__SPARSE_F32,
    TG__SPARSE_FP16,
    TG__SPARSE_INT8,
    TG__SPARSE_4BIT,
    TG__SPARSE_2BIT,
    TG__SPARSE_1BIT
};
enum { TG__SPARSE_RAW, TG__SPARSE_BITMAP, TG__SPARSE_RICE, TG__SPARSE_EF, TG__SPARSE_AUTO = 15 };

/* The frame of the selected elements. */
typedef struct tg__sparse_frame {
    tg__topk_state *state;
    const uint32_t *idx; /* ascending (state->keep) */
    float *val;          /* set to what readers decode */
    uint32_t most;       /* an upper bound of state->keep */
    int values, index;   /* TG__SPARSE_* */
    size_t n;
    float *x, *u;   /* x[idx] -= decoded, u[idx] = 0; each may be NULL */
    uint8_t *frame; /* aligned to 16; the index code's place is cleared */
    /* scratch: sums of the gaps >> b in each block; 32 for each BLOCK of most, begun ones
     * included */
    uint32_t *sums;
} tg__sparse_frame;

static inline uint32_t tg__sparse_blocks(size_t k)
{
    return (uint32_t)((k + TG__SPARSE_BLOCK - 1) / TG__SPARSE_BLOCK);
}

/* Bytes of a block of m values. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline size_t
    tg__sparse_block_len(int values, size_t m)
{
    switch (values) {
    case TG__SPARSE_F32:
        return 4 * m;
    case TG__SPARSE_FP16:
        return 2 * m;
    case TG__SPARSE_INT8:
        return 4 + m;
    case TG__SPARSE_4BIT:
        return 4 + (m + 1) / 2;
    case TG__SPARSE_2BIT:
        return 8 + (m + 3) / 4;
    default:
        return 4 + (m + 7) / 8;
    }
}

/* Bytes of k values. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline size_t
    tg__sparse_values_len(int values, size_t k)
{
    const size_t rest = k % TG__SPARSE_BLOCK;
    return k / TG__SPARSE_BLOCK * tg__sparse_block_len(values, TG__SPARSE_BLOCK) +
           (rest > 0 ? tg__sparse_block_len(values, rest) : 0);
}

/* Round and write the values, update the memory, and set coding, param, dense, at_index and len in
 * the state. */
cudaError_t tg__sparse_values_write(const tg__sparse_frame *f, cudaStream_t stream);
/* x[idx] = (x[idx] + value) * share, or (set) the value; *spoilt = 1 if one is not finite (NULL:
 * not wanted).
 * frame  a coded frame with k values, aligned to 4
 * idx    (k) ascending, memory that the device reaches */
cudaError_t tg__sparse_values_add(const uint8_t *frame, int values, uint32_t k, const uint32_t *idx,
                                  float *x, bool set, float share, uint64_t *spoilt,
                                  cudaStream_t stream);
/* x *= share; *spoilt = 1 if an element is not finite. */
cudaError_t tg__sparse_finish(float *x, size_t n, float share, uint64_t *spoilt,
                              cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif

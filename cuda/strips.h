/* The strips of a frame (src/codec/sign/strips.h) on the device. */
#ifndef TG_CUDA_STRIPS_H
#define TG_CUDA_STRIPS_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Elements from `begin` on; rows = 0: cols of them, as they are. Its values begin at float `value`
 * of the frame's values, its bits at byte `bit` of its bits. */
typedef struct tg__strip {
    uint32_t begin, rows, cols, value, bit;
} tg__strip;

/* Strips of a frame, one after the other; the last one ends at `end`. */
enum { TG__STRIPS = 128 };
typedef struct tg__strip_group {
    uint32_t count, end;
    tg__strip strip[TG__STRIPS];
} tg__strip_group;

/* What the values of a strip with several rows are: see src/codec/sign. */
typedef enum tg__strip_kind {
    TG__STRIP_ROWS,    /* sign: a scale for each row */
    TG__STRIP_COLUMNS, /* 1bit: two values for each column */
    TG__STRIP_WEIGHTED /* 1bit: weights of rows, and two values for each column, or these alone */
} tg__strip_kind;

/* Whether a strip has weights, as in codec_onebit.c. */
#ifdef __CUDACC__
__host__ __device__
#endif
    static inline bool
    tg__strip_is_weighted(tg__strip_kind kind, uint64_t rows, uint64_t cols)
{
    return kind == TG__STRIP_WEIGHTED && rows > 1 && cols >= 16;
}

typedef struct tg__strip_sum {
    const float *values;
    const uint8_t *bits;
    tg__strip_kind kind;
    float *x;
    bool first, last;
    float share;
    uint64_t *spoilt;
} tg__strip_sum;
/* As tg__coder_ops.decode, for the elements of these strips. */
cudaError_t tg__strips_sum(const tg__strip_group *group, const tg__strip_sum *s,
                           cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif

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

/* Elements from `begin` on. Its values begin at float `value` of the frame's values, its bits at
 * byte `bit` of its bits. */
typedef struct tg__strip {
    uint32_t begin, rows, cols, value, bit;
} tg__strip;

/* Strips of a frame, one after the other; the last one ends at `end`. */
enum { TG__STRIPS = 128 };
typedef struct tg__strip_group {
    uint32_t count, end;
    tg__strip strip[TG__STRIPS];
} tg__strip_group;

typedef struct tg__strip_sum {
    const float *values;
    const uint8_t *bits;
    bool rows; /* a scale for each row (sign); else two values for each column (1bit) */
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

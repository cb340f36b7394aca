/* Kernels of the codec sign without scales. */
#ifndef TG_CUDA_SIGN_H
#define TG_CUDA_SIGN_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The bits of x < 0, for x = g, or r + g: then r keeps x - (x < 0 ? -1 : 1). If *bad is not
 * UINT64_MAX, nothing is changed. *spoilt becomes 1 if some x is not finite. */
typedef struct tg__sign_pass {
    const uint64_t *bad;
    float *r; /* NULL: none */
    const float *g;
    uint32_t n;
    uint8_t *bits; /* aligned to 4 bytes, with room for whole words */
    uint32_t *spoilt;
} tg__sign_pass;
cudaError_t tg__sign_encode(const tg__sign_pass *p, cudaStream_t stream);

/* As tg__coder_ops.decode: 1, or -1 where the bit is set. */
cudaError_t tg__sign_decode(const uint8_t *bits, float *x, size_t n, bool first, bool last,
                            float share, uint64_t *spoilt, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif

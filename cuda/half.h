/* Kernels of the 16-bit floats: fp16 (IEEE binary16) and bf16 (bfloat16), rounded to nearest even,
 * saturating. */
#ifndef TG_CUDA_HALF_H
#define TG_CUDA_HALF_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* words = the code of p; p = g, or, with r, r + g, and r = p - what is decoded.
 * r      NULL: no feedback
 * words  (n) device memory, aligned to 16 bytes
 * bad    the kernel changes nothing unless it is UINT64_MAX
 * flags  (2) device memory, zeroed. [0] becomes 1 if some word is not 0, [1] if some p is not
 *        finite */
cudaError_t tg__half_encode(bool brain, const float *g, float *r, uint16_t *words, size_t n,
                            const uint64_t *bad, uint32_t *flags, cudaStream_t stream);

/* As tg__coder_ops.decode. */
cudaError_t tg__half_decode(bool brain, const uint8_t *payload, float *x, size_t n, bool first,
                            bool last, float share, uint64_t *spoilt, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif

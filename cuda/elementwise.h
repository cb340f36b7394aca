/* Kernels over the elements of a vector, one pass each. */
#ifndef TG_CUDA_ELEMENTWISE_H
#define TG_CUDA_ELEMENTWISE_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* x *= a */
cudaError_t tg__gpu_scale(cudaStream_t stream, float *x, float a, size_t n);
/* dst = src as f32; bf16: else f16. src may be aligned to 2 bytes. */
cudaError_t tg__gpu_widen(cudaStream_t stream, float *dst, const void *src, int bf16, size_t n);
/* dst = src, rounded as tg__kernels.f16_encode and bf16_encode do. */
cudaError_t tg__gpu_narrow(cudaStream_t stream, void *dst, const float *src, int bf16, size_t n);
/* *first: the least index of an element whose magnitude bits are above `most`; UINT64_MAX: none. */
cudaError_t tg__gpu_first_above(cudaStream_t stream, const float *x, size_t n, uint32_t most,
                                uint64_t *first);
/* x = (first: 0, else x) + src, which is aligned to 4 bytes (NULL: zeros); then, if last, times
 * share, and *spoilt becomes 1 if an element is not finite. */
cudaError_t tg__gpu_sum(cudaStream_t stream, float *x, const float *src, size_t n, int first,
                        int last, float share, uint64_t *spoilt);

#ifdef __cplusplus
}
#endif
#endif

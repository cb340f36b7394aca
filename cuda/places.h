/* Elements of a vector at given places. All memory is the device's. */
#ifndef TG_CUDA_PLACES_H
#define TG_CUDA_PLACES_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* r += g if *bad is UINT64_MAX, else nothing; *spoilt becomes 1 if an element is then not
 * finite. */
cudaError_t tg__gpu_add(cudaStream_t stream, float *r, const float *g, size_t n,
                        const uint64_t *bad, uint64_t *spoilt);
/* val = x[idx] */
cudaError_t tg__gpu_take(cudaStream_t stream, float *val, const float *x, const uint32_t *idx,
                         size_t count);
/* x[idx] = val; or, if add, x[idx] += share * val. The places are distinct. */
cudaError_t tg__gpu_put(cudaStream_t stream, float *x, const uint32_t *idx, const float *val,
                        size_t count, int add, float share);

#ifdef __cplusplus
}
#endif
#endif

/* Kernels of int8 and qsgd: small integers times a unit per bucket (codec/quant/quant.h), in the
 * fixed coding. */
#ifndef TG_CUDA_QUANT_H
#define TG_CUDA_QUANT_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TG__QUANT_BLOCK = 512 }; /* elements that are packed together: TG__PACK_BLOCK */

/* All pointers are to device memory. */
typedef struct tg__quant_pass {
    const float *g;
    float *r; /* NULL: p = g; else p = r + g, and r = p - decoded */
    size_t n;
    uint8_t *units;  /* aligned to 2 bytes */
    uint8_t *packed; /* aligned to 16 bytes */
    unsigned bucket; /* elements: 512 .. 65536, a power of two */
    unsigned width;  /* bits per code, 2 .. 8 */
    int levels;
    bool l2, random;     /* random: stochastic rounding; else width is 8, and bucket 512 */
    unsigned rounds;     /* of Philox */
    uint32_t key[2];     /* of the stream */
    const uint64_t *bad; /* the kernel changes nothing unless it is UINT64_MAX */
    /* (2) zeroed. [0] becomes 1 if some code is not 0, [1] if some bucket's norm is not finite */
    uint32_t *flags;
} tg__quant_pass;

cudaError_t tg__quant_encode_nearest(const tg__quant_pass *pass, cudaStream_t stream);
cudaError_t tg__quant_encode_random(const tg__quant_pass *pass, cudaStream_t stream);

/* As tg__coder_ops.decode.
 * payload  of a frame in the fixed coding */
cudaError_t tg__quant_decode_fixed(const uint8_t *payload, unsigned width, unsigned bucket,
                                   float *x, size_t n, bool first, bool last, float share,
                                   uint64_t *spoilt, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif

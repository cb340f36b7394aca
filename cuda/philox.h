/* Philox4x32 (base/philox.h) for kernels, and for the host beside them. */
#ifndef TG_CUDA_PHILOX_H
#define TG_CUDA_PHILOX_H

#include <stdint.h>

#ifdef __CUDACC__
#define TG__ON_BOTH __host__ __device__ __forceinline__
#else
#define TG__ON_BOTH inline
#endif

/* One block. out (4) may alias counter (4). */
static TG__ON_BOTH void tg__gpu_philox(const uint32_t *counter, uint32_t k0, uint32_t k1,
                                       unsigned rounds, uint32_t *out)
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    for (unsigned round = 0; round < rounds; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

#endif

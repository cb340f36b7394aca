/* What a kernel that decodes a frame does with each element: x = (first: 0, else x) + value; if
 * last, times share. Use:
 *
 *     tg__sum s = {x, first, last, share, first && last && spoilt == nullptr};
 *     bool fine = true;
 *     tg__sum_put(&s, i, value, &fine);     for each element of the thread
 *     tg__sum_end(&s, fine, spoilt);        once, by all threads of the block */
#ifndef TG_CUDA_ACCUMULATE_H
#define TG_CUDA_ACCUMULATE_H

#include "gpu.h"

struct tg__sum {
    float *x;
    bool first, last;
    float share;
    bool plain; /* x = value: -0 stays -0 */
};

static __device__ __forceinline__ float tg__sum_of(const tg__sum *s, float before, float value,
                                                   bool *fine)
{
    float sum = (s->plain ? -0.0f : s->first ? 0.0f : before) + value;
    if (s->last) {
        sum = sum * s->share;
        *fine = *fine && (__float_as_uint(sum) & 0x7fffffffu) < 0x7f800000u;
    }
    return sum;
}

static __device__ __forceinline__ void tg__sum_put(const tg__sum *s, size_t i, float value,
                                                   bool *fine)
{
    s->x[i] = tg__sum_of(s, s->first ? 0.0f : s->x[i], value, fine);
}

/* The same for elements i .. i + 3, of which the first is aligned to 16 bytes. */
static __device__ __forceinline__ void tg__sum_put4(const tg__sum *s, size_t i, float4 value,
                                                    bool *fine)
{
    float4 *to = (float4 *)(s->x + i);
    float4 x = s->first ? make_float4(0, 0, 0, 0) : *to;
    x.x = tg__sum_of(s, x.x, value.x, fine);
    x.y = tg__sum_of(s, x.y, value.y, fine);
    x.z = tg__sum_of(s, x.z, value.z, fine);
    x.w = tg__sum_of(s, x.w, value.w, fine);
    *to = x;
}

/* *spoilt (not cleared here) becomes 1 if a thread has an element that is not finite. */
static __device__ __forceinline__ void tg__sum_end(bool fine, uint64_t *spoilt)
{
    if (!fine && spoilt != nullptr)
        *spoilt = 1;
}

#endif

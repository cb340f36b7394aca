/* 16-bit floats, NEON. */
#include "kernel/simd_neon.h"
#include "kernel/variants.h"

typedef uint16x4_t vec16; /* WIDTH of them */

/* Finite magnitudes are limited to `largest`, NaNs become a single one; signs are kept. */
static inline vec narrow_clamp(vec x, uint32_t largest)
{
    const uint32x4_t inf = vdupq_n_u32(TG__F32_INF), bits = vreinterpretq_u32_f32(x);
    const uint32x4_t a = bits & vdupq_n_u32(TG__F32_MAGNITUDE), sign = bits ^ a;
    uint32x4_t clamped = vminq_u32(a, vdupq_n_u32(largest));
    clamped = vbslq_u32(vceqq_u32(a, inf), inf, clamped);
    clamped = vbslq_u32(vcgtq_u32(a, inf), vdupq_n_u32(TG__F32_NAN), clamped);
    return vreinterpretq_f32_u32(clamped | sign);
}

static inline bool all_within(const vec x[4], uint32_t largest)
{
    uint32x4_t max = vdupq_n_u32(0);
    for (size_t j = 0; j < 4; j++)
        max = vmaxq_u32(max, vreinterpretq_u32_f32(vec_abs(x[j])));
    return vmaxvq_u32(max) <= largest;
}

static inline vec16 get16(const tg__word *p, size_t left)
{
    if (left >= WIDTH)
        return vld1_u16(p);
    uint16_t part[WIDTH] = {0};
    memcpy(part, p, left * sizeof(*p));
    return vld1_u16(part);
}

static inline void put16(tg__word *p, size_t left, vec16 h)
{
    if (left >= WIDTH) {
        vst1_u16(p, h);
        return;
    }
    uint16_t part[WIDTH];
    vst1_u16(part, h);
    memcpy(p, part, left * sizeof(*p));
}

/* NEON has no stores that bypass the caches. */
static inline void stream16(tg__word *p, vec16 h)
{
    vst1_u16(p, h);
}

static inline void stream_end(void)
{
}

static inline vec f16_get(const tg__word *p, size_t left)
{
    return vcvt_f32_f16(vreinterpret_f16_u16(get16(p, left)));
}

/* The instruction by itself would return infinity on overflow, so x is clamped. */
static inline vec16 f16_from(vec x)
{
    return vreinterpret_u16_f16(vcvt_f16_f32(x));
}

static inline vec bf16_get(const tg__word *p, size_t left)
{
    return vreinterpretq_f32_u32(vshll_n_u16(get16(p, left), 16));
}

static inline vec16 bf16_from(vec x)
{
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    return vaddhn_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), odd);
}

#include "kernel/half_simd.h"

void tg__half_neon(tg__kernels *table)
{
    fill(table);
}

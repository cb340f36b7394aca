/* Vectors of 4 floats for the templates *_simd.h (64-bit Arm NEON). Same names as simd_avx2.h. */
#ifndef TG_KERNEL_SIMD_NEON_H
#define TG_KERNEL_SIMD_NEON_H

#include "kernel/element.h"
#include <arm_neon.h>

#define WIDTH 4

typedef float32x4_t vec;

/* The first min(left, WIDTH) floats at p, 0 in the other lanes. */
static inline vec vec_get(const float *p, size_t left)
{
    if (left >= WIDTH)
        return vld1q_f32(p);
    float part[WIDTH] = {0};
    memcpy(part, p, left * sizeof(*p));
    return vld1q_f32(part);
}

static inline void vec_put(float *p, size_t left, vec x)
{
    if (left >= WIDTH) {
        vst1q_f32(p, x);
        return;
    }
    float part[WIDTH];
    vst1q_f32(part, x);
    memcpy(p, part, left * sizeof(*p));
}

typedef uint32x4_t vmask; /* all bits of a lane, or none */

#define vec_splat vdupq_n_f32
#define vec_sqrt vsqrtq_f32
#define vec_abs vabsq_f32
#define vec_less vcltq_f32
#define vec_pick vbslq_f32

/* WIDTH doubles. */
typedef struct wide {
    float64x2_t a, b;
} wide;

static inline wide wide_zero(void)
{
    return (wide){vdupq_n_f64(0), vdupq_n_f64(0)};
}

static inline void wide_add(wide *sum, vec x)
{
    sum->a += vcvt_f64_f32(vget_low_f32(x));
    sum->b += vcvt_high_f64_f32(x);
}

static inline void wide_put(double *dst, wide x)
{
    vst1q_f64(dst, x.a);
    vst1q_f64(dst + 2, x.b);
}

#include "kernel/simd_each.h"

#endif

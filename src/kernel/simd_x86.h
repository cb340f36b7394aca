/* What simd_avx2.h and simd_avx512.h have in common: intrinsics whose names differ in the width
 * only. The including file defines MM (the prefix of intrinsics), MM_INT (with the suffix of whole
 * registers), and the types.
 *
 *     vec      WIDTH floats            vint     as many integers, or plain bits
 *     vdouble  WIDTH / 2 doubles       vmask    one truth value per float */
#ifndef TG_KERNEL_SIMD_X86_H
#define TG_KERNEL_SIMD_X86_H

#define vec_splat MM(set1_ps)
#define vec_sqrt MM(sqrt_ps)
#define vec_min MM(min_ps) /* b if one of both is NaN */
#define vec_max MM(max_ps) /* likewise */
#define vec_less(a, b) vec_compare(a, b, _CMP_LT_OQ)
#define vec_at_least(a, b) vec_compare(a, b, _CMP_GE_OQ)
#define vec_magnitude(x) (MM_INT(castps)(x) & int_splat((int)TG__F32_MAGNITUDE)) /* bits of |x| */

#define int_zero MM_INT(setzero)
#define int_splat MM(set1_epi32)
#define int_add MM(add_epi32)
#define int_max MM(max_epi32)

static inline vint int_get(const void *p)
{
    return MM_INT(loadu)((const vint *)p);
}

static inline void int_put(void *p, vint x)
{
    MM_INT(storeu)((vint *)p, x);
}

/* The next bits, at most WIDTH, from the byte of bit i on. */
static inline vmask mask_get(const uint8_t *bits, size_t i, size_t left)
{
    uint32_t m = bits[i / 8];
    if (WIDTH == 16 && left > 8)
        m |= (uint32_t)bits[i / 8 + 1] << 8;
    return mask_from(m);
}

static inline void mask_put(uint8_t *bits, size_t i, size_t left, vmask m)
{
    const uint32_t low = mask_bits(m);
    bits[i / 8] = (uint8_t)low;
    if (WIDTH == 16 && left > 8)
        bits[i / 8 + 1] = (uint8_t)(low >> 8);
}

/* ---- f64 sums -------------------------------------------------------------------------------- */

/* WIDTH doubles. */
typedef struct wide {
    vdouble a, b;
} wide;

static inline wide wide_zero(void)
{
    return (wide){MM(setzero_pd)(), MM(setzero_pd)()};
}

static inline wide wide_from(vec x)
{
    return (wide){MM(cvtps_pd)(vec_low(x)), MM(cvtps_pd)(vec_high(x))};
}

/* The first min(left, WIDTH) floats at p as doubles, `missing` in the other lanes. */
static inline wide wide_get(const float *p, size_t left, float missing)
{
    float part[WIDTH];
    if (left < WIDTH) {
        for (size_t j = 0; j < WIDTH; j++)
            part[j] = j < left ? p[j] : missing;
        p = part;
    }
    return (wide){MM(cvtps_pd)(half_get(p)), MM(cvtps_pd)(half_get(p + WIDTH / 2))};
}

static inline wide wide_times(wide x, double y)
{
    return (wide){x.a * y, x.b * y};
}

static inline wide wide_minus(wide x, double y)
{
    return (wide){x.a - y, x.b - y};
}

static inline void wide_add_wide(wide *sum, wide x)
{
    sum->a += x.a;
    sum->b += x.b;
}

static inline void wide_add(wide *sum, vec x)
{
    wide_add_wide(sum, wide_from(x));
}

static inline void wide_add_product(wide *sum, wide x, wide y)
{
    sum->a += x.a * y.a;
    sum->b += x.b * y.b;
}

static inline void wide_put(double *dst, wide x)
{
    MM(storeu_pd)(dst, x.a);
    MM(storeu_pd)(dst + WIDTH / 2, x.b);
}

static inline void wide_put_sum(double *dst, wide x)
{
    x.a += MM(loadu_pd)(dst);
    x.b += MM(loadu_pd)(dst + WIDTH / 2);
    wide_put(dst, x);
}

#endif

/* 2-bit codes, NEON: the results of comparisons are narrowed to bytes and added in pairs to form
 * the bit planes; the decoder tests each element's bit of a plane. */
#include "kernel/simd_neon.h"
#include "kernel/variants.h"

enum { VECS = 64 / WIDTH }; /* of a block */

static inline vec flip(vec x, uint32x4_t where)
{
    const uint32x4_t sign = vandq_u32(where, vdupq_n_u32(TG__F32_SIGN));
    return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(x), sign));
}

/* Reduce all bits of a lane, or none, to one bit of the word. */
static inline uint64_t gather(const uint32x4_t mask[VECS])
{
    static const uint8_t bit[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    uint8x16_t c[4];
    for (size_t q = 0; q < 4; q++) {
        const uint32x4_t *m = mask + 4 * q;
        const uint16x8_t a = vuzp1q_u16(vreinterpretq_u16_u32(m[0]), vreinterpretq_u16_u32(m[1]));
        const uint16x8_t b = vuzp1q_u16(vreinterpretq_u16_u32(m[2]), vreinterpretq_u16_u32(m[3]));
        const uint8x16_t lanes = vuzp1q_u8(vreinterpretq_u8_u16(a), vreinterpretq_u8_u16(b));
        c[q] = vandq_u8(lanes, vld1q_u8(bit));
    }
    uint8x16_t sum = vpaddq_u8(vpaddq_u8(c[0], c[1]), vpaddq_u8(c[2], c[3]));
    sum = vpaddq_u8(sum, sum);
    return vgetq_lane_u64(vreinterpretq_u64_u8(sum), 0);
}

/* Each block function works on m <= 64 elements; m = 64 is a constant in the main loops. Missing
 * lanes are 0 < tau. */

static inline void encode_block(const float *p, size_t m, vec tau, uint8_t *bytes)
{
    uint32x4_t plus[VECS], minus[VECS];
    const vec below = vnegq_f32(tau);
    for (size_t j = 0; j < VECS; j++) {
        const vec x = WIDTH * j < m ? vec_get(p + WIDTH * j, m - WIDTH * j) : vec_splat(0);
        plus[j] = vcgeq_f32(x, tau);
        minus[j] = vcleq_f32(x, below);
    }
    tg__twobit_put(bytes, m, gather(plus), gather(minus));
}

static void twobit_encode(const float *p, size_t n, float tau, uint8_t *bytes)
{
    const vec vtau = vec_splat(tau);
    size_t i = 0;
    for (; i + 64 <= n; i += 64, bytes += 16)
        encode_block(p + i, 64, vtau, bytes);
    if (i < n)
        encode_block(p + i, n - i, vtau, bytes);
}

static inline void add_encode_block(float *r, const float *g, size_t m, vec tau, uint8_t *bytes)
{
    uint32x4_t plus[VECS], minus[VECS];
    const vec below = vnegq_f32(tau);
    for (size_t j = 0; j < VECS; j++) {
        plus[j] = minus[j] = vdupq_n_u32(0);
        if (WIDTH * j >= m)
            continue;
        const size_t left = m - WIDTH * j;
        const vec p = vec_add(vec_get(r + WIDTH * j, left), vec_get(g + WIDTH * j, left));
        plus[j] = vcgeq_f32(p, tau);
        minus[j] = vcleq_f32(p, below);
        const uint32x4_t used = vorrq_u32(plus[j], minus[j]);
        const uint32x4_t sent = vandq_u32(vreinterpretq_u32_f32(flip(tau, minus[j])), used);
        vec_put(r + WIDTH * j, left, vec_sub(p, vreinterpretq_f32_u32(sent))); /* x - +0 is x */
    }
    tg__twobit_put(bytes, m, gather(plus), gather(minus));
}

static void twobit_add_encode(float *r, const float *g, size_t n, float tau, uint8_t *bytes)
{
    const vec vtau = vec_splat(tau);
    size_t i = 0;
    for (; i + 64 <= n; i += 64, bytes += 16)
        add_encode_block(r + i, g + i, 64, vtau, bytes);
    if (i < n)
        add_encode_block(r + i, g + i, n - i, vtau, bytes);
}

/* Spread the plane's bits for vector j to lanes with all bits or none. */
static inline uint32x4_t spread(uint64_t plane, size_t j)
{
    static const uint32_t bit[4] = {1, 2, 4, 8};
    return vtstq_u32(vdupq_n_u32((uint32_t)(plane >> WIDTH * j) & 0xf), vld1q_u32(bit));
}

static inline void decode_add_block(float *dst, const uint8_t *bytes, size_t m, vec tau)
{
    uint64_t plus, minus;
    tg__twobit_codes(bytes, m, &plus, &minus);
    for (size_t j = 0; WIDTH * j < m; j++) {
        const size_t left = m - WIDTH * j;
        const uint32x4_t down = spread(minus, j);
        const vec x = vec_get(dst + WIDTH * j, left), sum = vec_add(x, flip(tau, down));
        vec_put(dst + WIDTH * j, left, vbslq_f32(vorrq_u32(spread(plus, j), down), sum, x));
    }
}

static void twobit_decode_add(float *dst, const uint8_t *bytes, size_t n, float tau)
{
    const vec vtau = vec_splat(tau);
    size_t i = 0;
    for (; i + 64 <= n; i += 64, bytes += 16)
        decode_add_block(dst + i, bytes, 64, vtau);
    if (i < n)
        decode_add_block(dst + i, bytes, n - i, vtau);
}

static inline void decode_block(float *dst, const uint8_t *bytes, size_t m, vec tau)
{
    uint64_t plus, minus;
    tg__twobit_codes(bytes, m, &plus, &minus);
    for (size_t j = 0; WIDTH * j < m; j++) {
        const uint32x4_t down = spread(minus, j), used = vorrq_u32(spread(plus, j), down);
        const vec x = vbslq_f32(used, flip(tau, down), vec_splat(0));
        vec_put(dst + WIDTH * j, m - WIDTH * j, x);
    }
}

static void twobit_decode(float *dst, const uint8_t *bytes, size_t n, float tau)
{
    const vec vtau = vec_splat(tau);
    size_t i = 0;
    for (; i + 64 <= n; i += 64, bytes += 16)
        decode_block(dst + i, bytes, 64, vtau);
    if (i < n)
        decode_block(dst + i, bytes, n - i, vtau);
}

void tg__twobit_neon(tg__kernels *table)
{
    table->twobit_encode = twobit_encode;
    table->twobit_add_encode = twobit_add_encode;
    table->twobit_decode_add = twobit_decode_add;
    table->twobit_decode = twobit_decode;
}

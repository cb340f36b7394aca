/* 2-bit codes, NEON: the results of comparisons are narrowed to bytes and added in pairs to form
 * the bit planes; the decoder tests each element's bit of a plane. */
#include "kernel/simd_neon.h"
#include "kernel/variants.h"

enum { BLOCK_VECS = 64 / WIDTH };

typedef struct planes {
    uint32x4_t plus[BLOCK_VECS], minus[BLOCK_VECS];
} planes;

static inline void planes_clear(planes *to)
{
    (void)to; /* every vector is written */
}

/* Reduce all bits of a lane, or none, to one bit of the word. */
static inline uint64_t gather(const uint32x4_t mask[BLOCK_VECS])
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

static inline void planes_put(uint8_t *bytes, size_t m, const planes *from)
{
    tg__twobit_put(bytes, m, gather(from->plus), gather(from->minus));
}

static inline vec flip(vec x, uint32x4_t where)
{
    return vreinterpretq_f32_u32(vreinterpretq_u32_f32(x) ^ (where & vdupq_n_u32(TG__F32_SIGN)));
}

static inline vec code(vec s, vec p, vec tau, size_t j, planes *to)
{
    to->plus[j] = vcgeq_f32(s, tau);
    to->minus[j] = vcleq_f32(s, -tau);
    const uint32x4_t used = to->plus[j] | to->minus[j];
    const uint32x4_t sent = vreinterpretq_u32_f32(flip(tau, to->minus[j])) & used;
    return p - vreinterpretq_f32_u32(sent); /* x - +0 is x */
}

/* Spread the plane's bits for vector j to lanes with all bits or none. */
static inline uint32x4_t spread(uint64_t plane, size_t j)
{
    static const uint32_t bit[4] = {1, 2, 4, 8};
    return vtstq_u32(vdupq_n_u32((uint32_t)(plane >> WIDTH * j) & 0xf), vld1q_u32(bit));
}

static inline vec decode_add_vec(vec x, vec tau, size_t j, uint64_t plus, uint64_t minus)
{
    const uint32x4_t down = spread(minus, j);
    return vec_pick(spread(plus, j) | down, x + flip(tau, down), x);
}

static inline vec decode_vec(vec tau, size_t j, uint64_t plus, uint64_t minus)
{
    return vec_pick(spread(minus, j), -tau, vec_pick(spread(plus, j), tau, vec_splat(0)));
}

#include "kernel/twobit_simd.h"

void tg__twobit_neon(tg__kernels *table)
{
    fill(table);
}

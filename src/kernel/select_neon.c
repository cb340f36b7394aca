/* Threshold and compact, NEON: selected lanes move by a byte shuffle looked up by the mask. */
#include "kernel/simd_neon.h"
#include "kernel/variants.h"

static uint8_t front[16][16]; /* entry m: the bytes of the lanes in m, lowest first */
static uint32_t lane[16][4];  /* entry m: the numbers of these lanes */
static uint8_t count[16];     /* entry m: their count */

typedef uint32x4_t lanes;
#define any_lane(any) (vmaxvq_u32(any) != 0)

typedef struct wide_range {
    uint32x4_t low, span;
} wide_range;

static inline wide_range widen(float threshold)
{
    const tg__range range = tg__select_range(threshold);
    return (wide_range){vdupq_n_u32(range.low), vdupq_n_u32(range.span)};
}

static inline lanes selected(wide_range range, vec x)
{
    const uint32x4_t a = vandq_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(TG__F32_MAGNITUDE));
    return vcleq_u32(vsubq_u32(a, range.low), range.span);
}

/* When the room is used up, everything is written to the slack after it. */
static inline void pick(tg__picked *to, lanes chosen, size_t i, vec x)
{
    static const uint32_t bits[4] = {1, 2, 4, 8};
    const uint32_t mask = vaddvq_u32(chosen & vld1q_u32(bits));
    const size_t at = TG__MIN(to->count, to->cap);
    const uint8x16_t moved = vqtbl1q_u8(vreinterpretq_u8_f32(x), vld1q_u8(front[mask]));
    vst1q_u32(to->idx + at, vaddq_u32(vld1q_u32(lane[mask]), vdupq_n_u32((uint32_t)i)));
    vst1q_f32(to->val + at, vreinterpretq_f32_u8(moved));
    to->count += count[mask];
}

#include "kernel/select_simd.h"

void tg__select_neon(tg__kernels *table)
{
    for (unsigned mask = 0; mask < 16; mask++) {
        count[mask] = 0;
        for (uint8_t l = 0; l < 4; l++) {
            if (!(mask >> l & 1))
                continue;
            const uint8_t to = count[mask]++;
            lane[mask][to] = l;
            for (uint8_t b = 0; b < 4; b++)
                front[mask][4 * to + b] = (uint8_t)(4 * l + b);
        }
    }
    fill(table);
}

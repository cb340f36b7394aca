/* For *_ref.c: one bf16 number. */
#ifndef TG_NN_BF16_PLAIN_H
#define TG_NN_BF16_PLAIN_H

#include <stdint.h>
#include <string.h>

/* To the nearest, ties to even; numbers below the normal range to 0, NaN stays. */
static inline uint16_t bf16_round(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000) == 0)
        return (uint16_t)(bits >> 16 & 0x8000);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float bf16_widen(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

#endif

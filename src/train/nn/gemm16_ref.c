#include "train/nn/gemm16_kernels.h"
#include <string.h>

/* To the nearest, ties to even; numbers below the normal range to 0, NaN stays. */
static uint16_t round16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7f800000) == 0)
        return (uint16_t)(bits >> 16 & 0x8000);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float widen(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void pack(size_t width, size_t lines, size_t steps, const float *x, size_t ld, bool along,
                 uint16_t *panels)
{
    const size_t lanes = GEMM16_LANES(width), each = (steps + 1) / 2 * 2 * lanes;
    memset(panels, 0, (lines + width - 1) / width * each * sizeof *panels);
    for (size_t l = 0; l < lines; l++) {
        for (size_t s = 0; s < steps; s++)
            panels[l / width * each + (s / 2 * lanes + l % width) * 2 + s % 2] =
                round16(along ? x[l * ld + s] : x[s * ld + l]);
    }
}

static void tile(size_t pairs, const uint16_t *left, const uint16_t *right, const gemm16_tile *t)
{
    for (size_t i = 0; i < t->rows; i++) {
        for (size_t j = 0; j < t->columns; j++) {
            float *c = &t->c[i * t->ldc + j];
            float sum = t->add ? *c : t->row ? t->row[j] : 0;
            for (size_t p = 0; p < pairs; p++) {
                const uint16_t *a = left + (p * GEMM16_LANES(GEMM16_ROWS) + i) * 2,
                               *b = right + (p * GEMM16_COLUMNS + j) * 2;
                sum += widen(a[1]) * widen(b[1]);
                sum += widen(a[0]) * widen(b[0]);
            }
            *c = sum;
        }
    }
}

const gemm16_kernels gemm16_kernels_ref = {.pack = pack, .tile = tile};

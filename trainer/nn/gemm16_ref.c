#include "trainer/nn/gemm16_kernels.h"
#include "trainer/nn/bf16_plain.h"

static void pack(size_t width, size_t lines, size_t steps, const float *x, size_t ld, bool along,
                 uint16_t *panels)
{
    const size_t lanes = GEMM16_LANES(width), each = (steps + 1) / 2 * 2 * lanes;
    memset(panels, 0, (lines + width - 1) / width * each * sizeof *panels);
    for (size_t l = 0; l < lines; l++) {
        for (size_t s = 0; s < steps; s++)
            panels[l / width * each + (s / 2 * lanes + l % width) * 2 + s % 2] =
                bf16_round(along ? x[l * ld + s] : x[s * ld + l]);
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
                sum += bf16_widen(a[1]) * bf16_widen(b[1]);
                sum += bf16_widen(a[0]) * bf16_widen(b[0]);
            }
            *c = sum;
        }
    }
}

const gemm16_kernels gemm16_kernels_ref = {.pack = pack, .tile = tile};

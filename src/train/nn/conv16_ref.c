#include "train/nn/conv16_kernels.h"
#include "train/nn/bf16_plain.h"

#define LANES 16

static void lines(const conv16_plane *p, size_t line, uint16_t *lines)
{
    for (size_t y = 0; y < p->height; y++) {
        for (size_t x = 0; x < p->width; x++) {
            const float *from = p->x + (y * p->width + x) * p->pixel;
            for (size_t c = 0; c < LANES; c++)
                lines[c * line + (y + 1) * (p->width + 1) + x + 1] = bf16_round(from[c]);
        }
    }
}

static void pairs(const conv16_plane *p, uint16_t *pairs)
{
    const size_t pitch = p->width + 1;
    for (size_t q = 0; q < (p->height * pitch + 1) / 2 * 2; q++) {
        const size_t y = q / pitch, x = q % pitch;
        const float *from = p->x + (y * p->width + x) * p->pixel;
        const int inside = x < p->width && y < p->height;
        for (size_t c = 0; c < LANES; c++)
            pairs[(q / 2 * LANES + c) * 2 + q % 2] = inside ? bf16_round(from[c]) : 0;
    }
}

/* One element of the sums. */
static void sum_of(const conv16_sum *s, const uint16_t *left, const uint16_t *right, float *sum)
{
    for (size_t n = 0; n < s->samples; n++) {
        const uint16_t *a = left + n * s->left_next, *b = right + n * s->right_next;
        for (size_t p = 0; p < s->pairs; p++, a += 2, b += 2 * LANES) {
            *sum += bf16_widen(a[1]) * bf16_widen(b[1]);
            *sum += bf16_widen(a[0]) * bf16_widen(b[0]);
        }
    }
}

static void sum(const conv16_sum *s)
{
    const size_t channels = s->right[1] ? CONV16_FEWER : CONV16_MOST;
    for (size_t c = 0; c < channels; c++) {
        for (size_t k = 0; k < 3; k++) {
            float *sums = s->sums + (c * 3 + k) * s->columns;
            for (size_t o = 0; o < (s->right[1] ? 2 * LANES : LANES); o++)
                sum_of(s, s->left + c * s->line + k, s->right[o / LANES] + o % LANES * 2, &sums[o]);
        }
    }
}

const conv16_kernels conv16_kernels_ref = {.lines = lines, .pairs = pairs, .sum = sum};

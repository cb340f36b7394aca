#include "trainer/nn/conv16_kernels.h"
#include "trainer/nn/bf16_plain.h"

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

static void places(const conv16_plane *p, uint16_t *places)
{
    for (size_t y = 0; y < p->height; y++) {
        for (size_t x = 0; x < p->width; x++) {
            for (size_t c = 0; c < LANES; c++)
                places[(y * (p->width + 1) + x) * LANES + c] =
                    bf16_round(p->x[(y * p->width + x) * p->pixel + c]);
        }
    }
}

static void weights(const float *w, size_t out_next, size_t in_next, bool turned, uint16_t *weights)
{
    for (size_t k = 0; k < 9; k++) {
        for (size_t i = 0; i < LANES; i++) {
            for (size_t o = 0; o < LANES; o++)
                weights[((k * LANES / 2 + i / 2) * LANES + o) * 2 + i % 2] =
                    bf16_round(w[o * out_next + i * in_next + (turned ? 8 - k : k)]);
        }
    }
}

/* Channel o of a place. */
static float place_of(const conv16_row *r, const uint16_t *padded, const uint16_t *weights,
                      size_t o)
{
    float sum = 0;
    for (size_t b = 0; b < r->blocks; b++) {
        for (size_t k = 0; k < 9; k++) {
            const uint16_t *a = padded + b * r->next + k / 3 * r->pitch + k % 3 * LANES;
            for (size_t i = 0; i < LANES; i += 2, weights += 2 * LANES) {
                sum += bf16_widen(a[i + 1]) * bf16_widen(weights[2 * o + 1]);
                sum += bf16_widen(a[i]) * bf16_widen(weights[2 * o]);
            }
        }
    }
    return sum;
}

static void row(const conv16_row *r)
{
    for (size_t x = 0; x < r->places; x++) {
        for (size_t o = 0; o < (r->weights[1] ? 2 * LANES : LANES); o++)
            r->dst[o / LANES][x * r->pixel + o % LANES] =
                place_of(r, r->padded + x * LANES, r->weights[o / LANES], o % LANES);
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

const conv16_kernels conv16_kernels_ref = {
    .lines = lines, .pairs = pairs, .places = places, .weights = weights, .row = row, .sum = sum};

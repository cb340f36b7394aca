#include "trainer/nn/conv16_kernels.h"
#include "trainer/nn/bf16_lanes.h"

INLINE __m512 pixel_or_zero(const float *x, size_t pixel, size_t i, size_t n)
{
    return i < n ? _mm512_loadu_ps(x + i * pixel) : _mm512_setzero_ps();
}

/* n <= 32 pixels of a row, transposed. */
INLINE void line_part(const float *x, size_t pixel, size_t n, size_t line, uint16_t *to)
{
    const __mmask32 there = n < 2 * LANES ? (1u << n) - 1 : UINT32_MAX;
#define LOAD(i)                                                          \
    __m512i r##i = interleave(pixel_or_zero(x, pixel, (size_t)2 * i, n), \
                              pixel_or_zero(x, pixel, (size_t)2 * i + 1, n));
    EACH_LANE(LOAD)
#undef LOAD
    TRANSPOSE();
#define STORE(i) _mm512_mask_storeu_epi16(to + i * line, there, r##i);
    EACH_LANE(STORE)
#undef STORE
}

static void lines(const conv16_plane *p, size_t line, uint16_t *lines)
{
    for (size_t y = 0; y < p->height; y++) {
        const float *row = p->x + y * p->width * p->pixel;
        uint16_t *to = lines + (y + 1) * (p->width + 1) + 1;
        size_t x = 0;
        for (; x + 2 * LANES <= p->width; x += 2 * LANES)
            line_part(row + x * p->pixel, p->pixel, 2 * LANES, line, to + x);
        if (x < p->width)
            line_part(row + x * p->pixel, p->pixel, p->width - x, line, to + x);
    }
}

/* The place at (*y, *x), and go on to the next one. */
INLINE __m512 place(const conv16_plane *p, size_t *y, size_t *x)
{
    const bool inside = *x < p->width && *y < p->height;
    const float *from = p->x + (*y * p->width + *x) * p->pixel;
    *y += *x == p->width;
    *x = *x == p->width ? 0 : *x + 1;
    return inside ? _mm512_loadu_ps(from) : _mm512_setzero_ps();
}

static void pairs(const conv16_plane *p, uint16_t *pairs)
{
    const size_t count = (p->height * (p->width + 1) + 1) / 2;
    size_t y = 0, x = 0;
    for (size_t i = 0; i < count; i++) {
        const __m512 first_place = place(p, &y, &x), second = place(p, &y, &x);
        _mm512_store_si512(pairs + i * 2 * LANES, interleave(first_place, second));
    }
}

static void places(const conv16_plane *p, uint16_t *places)
{
    for (size_t y = 0; y < p->height; y++) {
        const float *from = p->x + y * p->width * p->pixel;
        uint16_t *to = places + y * (p->width + 1) * LANES;
        for (size_t x = 0; x < p->width; x++)
            _mm256_store_si256((__m256i *)(void *)(to + x * LANES),
                               (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from + x * p->pixel)));
    }
}

static void weights(const float *w, size_t out_next, size_t in_next, bool turned, uint16_t *weights)
{
    for (size_t k = 0; k < 9; k++, w++) {
        uint16_t *to = weights + (turned ? 8 - k : k) * LANES * LANES;
        for (size_t i = 0; i < LANES; i += 2) {
            float low[LANES], high[LANES];
            for (size_t o = 0; o < LANES; o++) {
                low[o] = w[o * out_next + i * in_next];
                high[o] = w[o * out_next + (i + 1) * in_next];
            }
            _mm512_store_si512(to + i * LANES,
                               interleave(_mm512_loadu_ps(low), _mm512_loadu_ps(high)));
        }
    }
}

typedef struct two {
    uint16_t each[2];
} two;

/* Two neighbours of a line in all lanes. In these words, because compilers see that a pair is the
 * one of two columns further at the step before, keep it in a register of the other kind, and that
 * is slower. */
INLINE __m512bh spread(const uint16_t *a)
{
    __m512i lanes;
    __asm__("vpbroadcastd %1, %0" : "=v"(lanes) : "m"(*(const two *)(const void *)a));
    return (__m512bh)lanes;
}

#define FEWER(X) X(0, 0) X(0, 1) X(0, 2) X(1, 0) X(1, 1) X(1, 2)
#define FEWER2(X) X(2, 0) X(2, 1) X(2, 2) X(3, 0) X(3, 1) X(3, 2)
#define MOST(X) FEWER(X) FEWER2(X) X(4, 0) X(4, 1) X(4, 2) X(5, 0) X(5, 1) X(5, 2)
#define MOST2(X) X(6, 0) X(6, 1) X(6, 2) X(7, 0) X(7, 1) X(7, 2)

static void sum_16(const conv16_sum *s)
{
#define BEGIN(c, k) __m512 s##c##k = _mm512_loadu_ps(s->sums + (c * 3 + k) * s->columns);
    MOST(BEGIN)
    MOST2(BEGIN)
#undef BEGIN
    const size_t line = s->line;
    for (size_t n = 0; n < s->samples; n++) {
        const uint16_t *a = s->left + n * s->left_next, *b = s->right[0] + n * s->right_next;
        const uint16_t *a4 = a + 4 * line;
        for (size_t p = 0; p < s->pairs; p++, a += 2, a4 += 2, b += 2 * LANES) {
            const __m512bh r = (__m512bh)_mm512_load_si512(b);
#define MULTIPLY(c, k) \
    s##c##k = _mm512_dpbf16_ps(s##c##k, spread((c < 4 ? a : a4) + c % 4 * line + k), r);
            MOST(MULTIPLY) MOST2(MULTIPLY)
#undef MULTIPLY
        }
    }
#define END(c, k) _mm512_storeu_ps(s->sums + (c * 3 + k) * s->columns, s##c##k);
    MOST(END) MOST2(END)
#undef END
}

static void sum_32(const conv16_sum *s)
{
#define BEGIN(c, k)                                                       \
    __m512 s##c##k = _mm512_loadu_ps(s->sums + (c * 3 + k) * s->columns), \
           t##c##k = _mm512_loadu_ps(s->sums + (c * 3 + k) * s->columns + LANES);
    FEWER(BEGIN)
    FEWER2(BEGIN)
#undef BEGIN
    const size_t line = s->line;
    for (size_t n = 0; n < s->samples; n++) {
        const uint16_t *a = s->left + n * s->left_next, *b = s->right[0] + n * s->right_next,
                       *b2 = s->right[1] + n * s->right_next;
        for (size_t p = 0; p < s->pairs; p++, a += 2, b += 2 * LANES, b2 += 2 * LANES) {
            const __m512bh r = (__m512bh)_mm512_load_si512(b), r2 = (__m512bh)_mm512_load_si512(b2);
#define MULTIPLY(c, k)                               \
    {                                                \
        const __m512bh x = spread(a + c * line + k); \
        s##c##k = _mm512_dpbf16_ps(s##c##k, x, r);   \
        t##c##k = _mm512_dpbf16_ps(t##c##k, x, r2);  \
    }
            FEWER(MULTIPLY) FEWER2(MULTIPLY)
#undef MULTIPLY
        }
    }
#define END(c, k)                                                  \
    _mm512_storeu_ps(s->sums + (c * 3 + k) * s->columns, s##c##k); \
    _mm512_storeu_ps(s->sums + (c * 3 + k) * s->columns + LANES, t##c##k);
    FEWER(END) FEWER2(END)
#undef END
}

#define EACH_PLACE(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
_Static_assert(CONV16_FEW == 8 && CONV16_MANY == LANES, "what the rows are written for");

static void row_16(const conv16_row *r)
{
#define BEGIN(x) __m512 s##x = _mm512_setzero_ps();
    EACH_LANE(BEGIN)
#undef BEGIN
    const uint16_t *w = r->weights[0];
    for (size_t b = 0; b < r->blocks; b++) {
        for (size_t k = 0; k < 9; k++) {
            const uint16_t *a = r->padded + b * r->next + k / 3 * r->pitch + k % 3 * LANES;
            for (size_t i = 0; i < LANES; i += 2, w += 2 * LANES) {
                const __m512bh v = (__m512bh)_mm512_load_si512(w);
#define MULTIPLY(x) s##x = _mm512_dpbf16_ps(s##x, spread(a + i + x * LANES), v);
                EACH_LANE(MULTIPLY)
#undef MULTIPLY
            }
        }
    }
#define END(x)         \
    if (x < r->places) \
        _mm512_storeu_ps(r->dst[0] + x * r->pixel, s##x);
    EACH_LANE(END)
#undef END
}

static void row_32(const conv16_row *r)
{
#define BEGIN(x) __m512 s##x = _mm512_setzero_ps(), t##x = _mm512_setzero_ps();
    EACH_PLACE(BEGIN)
#undef BEGIN
    const uint16_t *w = r->weights[0], *w2 = r->weights[1];
    for (size_t b = 0; b < r->blocks; b++) {
        for (size_t k = 0; k < 9; k++) {
            const uint16_t *a = r->padded + b * r->next + k / 3 * r->pitch + k % 3 * LANES;
            for (size_t i = 0; i < LANES; i += 2, w += 2 * LANES, w2 += 2 * LANES) {
                const __m512bh v = (__m512bh)_mm512_load_si512(w),
                               v2 = (__m512bh)_mm512_load_si512(w2);
#define MULTIPLY(x)                                      \
    {                                                    \
        const __m512bh both = spread(a + i + x * LANES); \
        s##x = _mm512_dpbf16_ps(s##x, both, v);          \
        t##x = _mm512_dpbf16_ps(t##x, both, v2);         \
    }
                EACH_PLACE(MULTIPLY)
#undef MULTIPLY
            }
        }
    }
#define END(x)                                            \
    if (x < r->places) {                                  \
        _mm512_storeu_ps(r->dst[0] + x * r->pixel, s##x); \
        _mm512_storeu_ps(r->dst[1] + x * r->pixel, t##x); \
    }
    EACH_PLACE(END)
#undef END
}

static void row(const conv16_row *r)
{
    (r->weights[1] ? row_32 : row_16)(r);
}

static void sum(const conv16_sum *s)
{
    (s->right[1] ? sum_32 : sum_16)(s);
}

const conv16_kernels conv16_kernels_avx512bf16 = {
    .lines = lines, .pairs = pairs, .places = places, .weights = weights, .row = row, .sum = sum};

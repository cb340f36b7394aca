#include "trainer/nn/gemm16_kernels.h"
#include "trainer/nn/bf16_lanes.h"

/* 32 floats, or the first n, rounded. */
INLINE __m512i load_rounded(const float *x, bool whole, size_t n)
{
    if (whole)
        return (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + LANES), _mm512_loadu_ps(x));
    const __m512 low = _mm512_maskz_loadu_ps(first(n), x);
    const __m512 high =
        n > LANES ? _mm512_maskz_loadu_ps(first(n - LANES), x + LANES) : _mm512_setzero_ps();
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* ---- lines whose elements lie side by side: 16 x 16 pairs are transposed ------------------------
 */

/* 32 steps of 16 lines; where there are fewer lines the last one is in the place of those that are
 * not. */
INLINE void pack_square(size_t lines, bool whole, size_t steps, const float *x, size_t ld,
                        size_t stride, uint16_t *panel)
{
    const size_t last = lines - 1;
#define LOAD(i) __m512i r##i = load_rounded(x + (i < last ? i : last) * ld, whole, steps);
    EACH_LANE(LOAD)
#undef LOAD
    TRANSPOSE();
#define STORE(i)                \
    if (whole || 2 * i < steps) \
        _mm512_store_si512(panel + i * stride, r##i);
    EACH_LANE(STORE)
#undef STORE
}

static void pack_along(size_t lines, size_t steps, const float *x, size_t ld, size_t stride,
                       uint16_t *panel)
{
    size_t s = 0;
    for (; s + 2 * LANES <= steps; s += 2 * LANES)
        pack_square(lines, true, 0, x + s, ld, stride, panel + s / 2 * stride);
    if (s < steps)
        pack_square(lines, false, steps - s, x + s, ld, stride, panel + s / 2 * stride);
}

/* ---- lines that lie side by side: two rows are interleaved --------------------------------------
 */

/* Rows outside: their elements are then read one after another. */
static void pack_across(size_t width, size_t lines, size_t steps, const float *x, size_t ld,
                        size_t stride, uint16_t *panels)
{
    const size_t each = (steps + 1) / 2 * stride;
    for (size_t s = 0; s < steps; s += 2) {
        const float *row = x + s * ld, *next = s + 1 < steps ? row + ld : NULL;
        uint16_t *panel = panels + s / 2 * stride;
        for (size_t l = 0; l < lines; l += width, panel += each) {
            for (size_t at = 0; at < width && l + at < lines; at += LANES) {
                const size_t n = lines - l - at;
                const __m512 low = load_row(row + l + at, n),
                             high = next ? load_row(next + l + at, n) : _mm512_setzero_ps();
                _mm512_store_si512(panel + at * 2, interleave(low, high));
            }
        }
    }
}

static void pack(size_t width, size_t lines, size_t steps, const float *x, size_t ld, bool along,
                 uint16_t *panels)
{
    const size_t stride = (width + LANES - 1) / LANES * 2 * LANES, each = (steps + 1) / 2 * stride;
    if (!along) {
        pack_across(width, lines, steps, x, ld, stride, panels);
        return;
    }
    for (size_t l = 0; l < lines; l += width, panels += each) {
        for (size_t at = 0; at < width && l + at < lines; at += LANES)
            pack_along(lines - l - at, steps, x + (l + at) * ld, ld, stride, panels + at * 2);
    }
}

/* ---- products -----------------------------------------------------------------------------------
 */

#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
_Static_assert(GEMM16_ROWS == 14 && GEMM16_COLUMNS == 2 * LANES, "what tile is written for");

/* What row i of the tile starts from, 16 columns from `at` on. */
INLINE __m512 begin(const gemm16_tile *t, size_t i, size_t at, __mmask16 there)
{
    if (t->add)
        return _mm512_maskz_loadu_ps(i < t->rows ? there : 0, t->c + i * t->ldc + at);
    return t->row ? _mm512_maskz_loadu_ps(there, t->row + at) : _mm512_setzero_ps();
}

/* narrow: no more than 16 columns */
INLINE void tile_of(bool narrow, size_t pairs, const uint16_t *left, const uint16_t *right,
                    const gemm16_tile *t)
{
    const size_t more = t->columns > LANES ? t->columns - LANES : 0;
    const __mmask16 there = first(t->columns), there2 = first(more);
#define BEGIN(i) __m512 low##i = begin(t, i, 0, there), high##i = begin(t, i, LANES, there2);
    EACH_ROW(BEGIN)
#undef BEGIN
#define EXPECT(i)                                                  \
    if (i < t->rows) {                                             \
        __builtin_prefetch(t->c + i * t->ldc, 1);                  \
        __builtin_prefetch(t->c + i * t->ldc + t->columns - 1, 1); \
    }
    EACH_ROW(EXPECT)
#undef EXPECT
    const int32_t *a = (const int32_t *)(const void *)left;
    for (size_t p = 0; p < pairs; p++, a += LANES, right += 4 * LANES) {
        const __m512bh b = (__m512bh)_mm512_load_si512(right);
        const __m512bh b2 = (__m512bh)_mm512_load_si512(right + 2 * LANES);
#define MULTIPLY(i)                                                    \
    {                                                                  \
        const __m512bh x = (__m512bh)_mm512_set1_epi32(a[i]);          \
        low##i = _mm512_dpbf16_ps(low##i, x, b);                       \
        high##i = narrow ? high##i : _mm512_dpbf16_ps(high##i, x, b2); \
    }
        EACH_ROW(MULTIPLY)
#undef MULTIPLY
    }
#define END(i)                                                             \
    if (i < t->rows) {                                                     \
        _mm512_mask_storeu_ps(t->c + i * t->ldc, there, low##i);           \
        _mm512_mask_storeu_ps(t->c + i * t->ldc + LANES, there2, high##i); \
    }
    EACH_ROW(END)
#undef END
}

static void tile(size_t pairs, const uint16_t *left, const uint16_t *right, const gemm16_tile *t)
{
    if (t->columns <= LANES)
        tile_of(true, pairs, left, right, t);
    else
        tile_of(false, pairs, left, right, t);
}

const gemm16_kernels gemm16_kernels_avx512bf16 = {.pack = pack, .tile = tile};

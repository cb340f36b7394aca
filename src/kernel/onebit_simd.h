/* Template: the two means of 1-bit SGD: of a vector by lanes and chunks, of the columns of a matrix
 * by blocks of 8 rows, each block summed from 0 in the order of its rows. */
#include <math.h>

static double sum_abs(float *x, const float *g, size_t n)
{
    double total = 0;
    EACH_CHUNK(n, {
        wide sum[VECS];
        lanes_clear(sum);
        EACH_LANES({
            vec p = GET(x);
            if (g) {
                p = p + GET(g);
                PUT(x, p);
            }
            wide_add(&sum[j], vec_abs(p));
        });
        total += lanes_sum(sum);
    });
    return isfinite(total) ? total : (double)NAN;
}

static void split_sums(const float *x, size_t n, float t, tg__split *s)
{
    const vec vt = vec_splat(t);
    *s = (tg__split){0};
    EACH_CHUNK(n, {
        wide low[VECS], high[VECS];
        lanes_clear(low);
        lanes_clear(high);
        EACH_LANES({
            const vec p = GET(x);
            const vmask less = vec_less(p, vt);
            wide_split(&low[j], &high[j], less, p);
            const uint32_t all = left < WIDTH ? (1u << left) - 1 : ~0u;
            s->nbelow += (uint64_t)__builtin_popcount(mask_bits(less) & all);
        });
        s->below += lanes_sum(low);
        s->above += lanes_sum(high);
    });
}

/* If rows are a multiple of a page apart, all lines of a column fall into one set of the
 * first-level cache, which has 8 ways. Such rows are processed four at a time, which are 8 lines of
 * x and g. */
enum { FOUR = 4, PIECE = 256 }; /* PIECE: columns whose sums wait for the other rows of the block */

static inline bool rows_crowd(size_t stride)
{
    return stride * sizeof(float) % 4096 == 0;
}

typedef struct block_sums {
    wide low, high;
    vint count;
} block_sums;

/* m rows (a constant), WIDTH columns (or `left` of them). Reads come before writes, because a read
 * that follows a write to the same offset in another page waits for it. So many rows at once are
 * more streams than the hardware prefetcher follows, so the next block is prefetched into the
 * second-level cache. */
static inline void sum_rows(float *x, const float *g, size_t stride, const size_t m, size_t left,
                            vec t, block_sums *to)
{
    vec p[FOUR];
    for (size_t r = 0; WIDTH > 1 && r < m; r++)
        __builtin_prefetch(x + (r + TG__COLUMN_BLOCK) * stride, 0, 2);
    for (size_t r = 0; r < m; r++)
        p[r] = vec_get(x + r * stride, left);
    if (g) {
        for (size_t r = 0; WIDTH > 1 && r < m; r++)
            __builtin_prefetch(g + (r + TG__COLUMN_BLOCK) * stride, 0, 2);
        for (size_t r = 0; r < m; r++)
            p[r] = p[r] + vec_get(g + r * stride, left);
        for (size_t r = 0; r < m; r++)
            vec_put(x + r * stride, left, p[r]);
    }
    for (size_t r = 0; r < m; r++) {
        vmask below = vec_less(p[r], t);
        wide_split(&to->low, &to->high, below, p[r]);
        to->count = int_count(to->count, below);
    }
}

/* FOUR rows, or fewer. */
static inline void sum_four(float *x, const float *g, size_t stride, size_t rows, size_t left,
                            vec t, block_sums *to)
{
    if (rows == FOUR) {
        sum_rows(x, g, stride, FOUR, left, t, to);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        sum_rows(x + r * stride, g ? g + r * stride : NULL, stride, 1, left, t, to);
}

/* Add the sums of a block with WIDTH columns, or `left` of them. */
static inline void sums_put(const block_sums *from, size_t left, double *below, double *above,
                            uint32_t *nbelow)
{
    if (left >= WIDTH) {
        wide_put_sum(below, from->low);
        wide_put_sum(above, from->high);
        int_put(nbelow, int_add(int_get(nbelow), from->count));
        return;
    }
    double sums[2][WIDTH];
    uint32_t ns[WIDTH];
    wide_put(sums[0], from->low);
    wide_put(sums[1], from->high);
    int_put(ns, from->count);
    for (size_t j = 0; j < left; j++) {
        below[j] += sums[0][j];
        above[j] += sums[1][j];
        nbelow[j] += ns[j];
    }
}

static inline void sum_block(float *x, const float *g, size_t stride, size_t rows, size_t cols,
                             const float *t, double *below, double *above, uint32_t *nbelow)
{
    EACH_VEC(cols, {
        block_sums sums = {wide_zero(), wide_zero(), int_zero()};
        const vec own = GET(t);
        for (size_t r = 0; r < rows; r++)
            sum_rows(x + r * stride + i, g ? g + r * stride + i : NULL, stride, 1, left, own,
                     &sums);
        sums_put(&sums, left, below + i, above + i, nbelow + i);
    });
}

/* The same in two steps, for more than FOUR rows and at most PIECE columns. */
static inline void sum_crowded(float *x, const float *g, size_t stride, size_t rows, size_t cols,
                               const float *t, double *below, double *above, uint32_t *nbelow)
{
    block_sums first[PIECE / WIDTH];
    EACH_VEC(cols, {
        block_sums sums = {wide_zero(), wide_zero(), int_zero()};
        sum_four(x + i, g ? g + i : NULL, stride, FOUR, left, GET(t), &sums);
        first[i / WIDTH] = sums;
    });
    x += FOUR * stride;
    g = g ? g + FOUR * stride : NULL;
    EACH_VEC(cols, {
        block_sums sums = first[i / WIDTH];
        sum_four(x + i, g ? g + i : NULL, stride, rows - FOUR, left, GET(t), &sums);
        sums_put(&sums, left, below + i, above + i, nbelow + i);
    });
}

static void column_sums(float *x, const float *g, size_t stride, size_t rows, size_t cols,
                        const float *t, double *below, double *above, uint32_t *nbelow)
{
    for (size_t begin = 0; begin < rows; begin += TG__COLUMN_BLOCK) {
        size_t m = TG__MIN(rows - begin, (size_t)TG__COLUMN_BLOCK), at = begin * stride;
        if (m <= FOUR || !rows_crowd(stride)) {
            sum_block(x + at, g ? g + at : NULL, stride, m, cols, t, below, above, nbelow);
            continue;
        }
        for (size_t c = 0; c < cols; c += PIECE)
            sum_crowded(x + at + c, g ? g + at + c : NULL, stride, m,
                        TG__MIN(cols - c, (size_t)PIECE), t + c, below + c, above + c, nbelow + c);
    }
}

static inline void sum_put(double *sums, size_t left, wide sum)
{
    double part[WIDTH];
    if (left >= WIDTH) {
        wide_put_sum(sums, sum);
        return;
    }
    wide_put(part, sum);
    for (size_t j = 0; j < left; j++)
        sums[j] += part[j];
}

/* sum += y * x */
static inline void wide_weigh(wide *sum, vec x, double y)
{
    wide_add_wide(sum, wide_times(wide_from(x), y));
}

static void column_weigh_signs(const float *x, size_t stride, size_t rows, size_t cols,
                               const float *weights, double *const sums[4])
{
    const vec zero = vec_splat(0), one = vec_splat(1);
    for (size_t m, begin = 0; begin < rows; begin += m) {
        m = TG__MIN(rows - begin, (size_t)TG__COLUMN_BLOCK);
        EACH_VEC(cols, {
            wide sum[4] = {wide_zero(), wide_zero(), wide_zero(), wide_zero()};
            for (size_t r = begin; r < begin + m; r++) {
                const vec p = vec_get(x + r * stride + i, left);
                const vmask less = vec_less(p, zero);
                const double w = (double)weights[r];
                wide_weigh(&sum[0], vec_pick(less, p, zero), w);
                wide_weigh(&sum[1], vec_pick(less, zero, p), w);
                wide_weigh(&sum[2], vec_pick(less, one, zero), w * w);
                wide_weigh(&sum[3], vec_pick(less, zero, one), w * w);
            }
            for (size_t s = 0; s < 4; s++)
                sum_put(sums[s] + i, left, sum[s]);
        });
    }
}

static inline void settle_block(float *x, size_t stride, size_t rows, size_t i, size_t left,
                                const vec of[3], const float *weights, uint8_t *bits,
                                size_t row_bytes, bool subtract)
{
    const uintptr_t back = TG__COLUMN_BLOCK * stride * sizeof *x;
    for (size_t r = 0; r < rows; r++, x += stride, bits += row_bytes) {
        __builtin_prefetch((const char *)((uintptr_t)(x + i) - back), 0, 2);
        const vec weight = vec_splat(weights ? weights[r] : 1), p = GET(x);
        const vmask m = vec_less(p, of[0] * weight);
        mask_put(bits, i, left, m);
        if (subtract)
            PUT(x, p - vec_pick(m, of[2], of[1]) * weight);
    }
}

/* From the last rows to the first, because the last ones read may still be cached. Lanes beyond the
 * last column are 0 and not below their threshold, 0. */
static void column_settle(float *x, size_t stride, size_t rows, size_t cols, const float *t,
                          const float *plus, const float *minus, const float *weights,
                          uint8_t *bits, size_t row_bytes, bool subtract)
{
    const size_t most = rows_crowd(stride) ? FOUR : TG__COLUMN_BLOCK;
    for (size_t end = rows, m; end > 0; end -= m) {
        m = (end - 1) % most + 1;
        const size_t begin = end - m;
        EACH_VEC(cols, {
            const vec of[3] = {GET(t), GET(plus), GET(minus)};
            settle_block(x + begin * stride, stride, m, i, left, of,
                         weights ? weights + begin : NULL, bits + begin * row_bytes, row_bytes,
                         subtract);
        });
    }
}

static void fill_onebit(tg__kernels *table)
{
    table->sum_abs = sum_abs;
    table->split_sums = split_sums;
    table->column_sums = column_sums;
    table->column_weigh_signs = column_weigh_signs;
    table->column_settle = column_settle;
}

/* Template of onebit_avx2.c and onebit_avx512.c: onebit_ref.c in vectors. */

enum { VECS = TG__LANES / WIDTH };

static double sum_abs(float *x, const float *g, size_t n)
{
    double total = 0;
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {
        float *at = x + begin;
        const float *more = g ? g + begin : NULL;
        size_t m = TG__MIN(n - begin, (size_t)TG__CHUNK), i = 0;
        wide sum[VECS];
        double lanes[TG__LANES];
        for (size_t j = 0; j < VECS; j++)
            sum[j] = wide_zero();
        for (; i + TG__LANES <= m; i += TG__LANES)
            for (size_t j = 0; j < VECS; j++) {
                size_t own = i + WIDTH * j;
                vec p = vec_get(at + own, WIDTH);
                if (more) {
                    p = vec_add(p, vec_get(more + own, WIDTH));
                    vec_put(at + own, WIDTH, p);
                }
                wide_add(&sum[j], vec_abs(p));
            }
        for (size_t j = 0; j < VECS; j++)
            wide_put(lanes + WIDTH * j, sum[j]);
        tg__abs_add(lanes, at, more, i, m);
        total += tg__lanes_sum(lanes);
    }
    return isfinite(total) ? total : (double)NAN;
}

static void split_sums(const float *x, size_t n, float t, tg__split *s)
{
    const vec vt = vec_splat(t);
    *s = (tg__split){0};
    for (size_t begin = 0; begin < n; begin += TG__CHUNK) {
        size_t m = TG__MIN(n - begin, (size_t)TG__CHUNK), i = 0;
        wide low[VECS], high[VECS];
        tg__split_lanes lanes;
        for (size_t j = 0; j < VECS; j++)
            low[j] = high[j] = wide_zero();
        for (; i + TG__LANES <= m; i += TG__LANES)
            for (size_t j = 0; j < VECS; j++) {
                vec p = vec_get(x + begin + i + WIDTH * j, WIDTH);
                vmask below = vec_less(p, vt);
                wide_split(&low[j], &high[j], below, p);
                s->nbelow += (uint64_t)_mm_popcnt_u32(mask_bits(below));
            }
        for (size_t j = 0; j < VECS; j++) {
            wide_put(lanes.below + WIDTH * j, low[j]);
            wide_put(lanes.above + WIDTH * j, high[j]);
        }
        tg__split_add(&lanes, &s->nbelow, x + begin, t, i, m);
        tg__split_sum(&lanes, s);
    }
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
    counts count;
} block_sums;

/* m rows (a constant), WIDTH columns (or `left` of them). Reads come before writes, because a read
 * that follows a write to the same offset in another page waits for it. So many rows at once are
 * more streams than the hardware prefetcher follows, so the next block is prefetched into the
 * second-level cache. */
static inline void sum_rows(float *x, const float *g, size_t stride, const size_t m, size_t left,
                            vec t, block_sums *to)
{
    vec p[FOUR];
    for (size_t r = 0; r < m; r++)
        _mm_prefetch((const char *)(x + (r + TG__COLUMN_BLOCK) * stride), _MM_HINT_T1);
    for (size_t r = 0; r < m; r++)
        p[r] = vec_get(x + r * stride, left);
    if (g) {
        for (size_t r = 0; r < m; r++)
            _mm_prefetch((const char *)(g + (r + TG__COLUMN_BLOCK) * stride), _MM_HINT_T1);
        for (size_t r = 0; r < m; r++)
            p[r] = vec_add(p[r], vec_get(g + r * stride, left));
        for (size_t r = 0; r < m; r++)
            vec_put(x + r * stride, left, p[r]);
    }
    for (size_t r = 0; r < m; r++) {
        vmask below = vec_less(p[r], t);
        wide_split(&to->low, &to->high, below, p[r]);
        to->count = counts_add(to->count, below);
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
        counts_put_sum(nbelow, from->count);
        return;
    }
    double sums[2][WIDTH];
    uint32_t ns[WIDTH];
    wide_put(sums[0], from->low);
    wide_put(sums[1], from->high);
    counts_put(ns, from->count);
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
        block_sums sums = {wide_zero(), wide_zero(), counts_zero()};
        vec own = vec_get(t + i, left);
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
        block_sums sums = {wide_zero(), wide_zero(), counts_zero()};
        sum_four(x + i, g ? g + i : NULL, stride, FOUR, left, vec_get(t + i, left), &sums);
        first[i / WIDTH] = sums;
    });
    x += FOUR * stride;
    g = g ? g + FOUR * stride : NULL;
    EACH_VEC(cols, {
        block_sums sums = first[i / WIDTH];
        sum_four(x + i, g ? g + i : NULL, stride, rows - FOUR, left, vec_get(t + i, left), &sums);
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

static inline void settle_block(float *x, size_t stride, size_t rows, size_t left, vec t, vec plus,
                                vec minus, uint8_t *bits, size_t row_bytes, bool subtract)
{
    const uintptr_t back = TG__COLUMN_BLOCK * stride * sizeof *x;
    for (size_t r = 0; r < rows; r++, x += stride, bits += row_bytes) {
        _mm_prefetch((const char *)((uintptr_t)x - back), _MM_HINT_T1);
        vec p = vec_get(x, left);
        vmask m = vec_less(p, t);
        uint32_t low = mask_bits(m);
        bits[0] = (uint8_t)low;
        if (WIDTH == 16 && left > 8)
            bits[1] = (uint8_t)(low >> 8);
        if (subtract)
            vec_put(x, left, vec_sub(p, vec_pick(m, minus, plus)));
    }
}

/* From the last rows to the first, because the last ones read may still be cached. Lanes beyond the
 * last column are 0 and not below their threshold, 0. */
static void column_settle(float *x, size_t stride, size_t rows, size_t cols, const float *t,
                          const float *plus, const float *minus, uint8_t *bits, size_t row_bytes,
                          bool subtract)
{
    const size_t most = rows_crowd(stride) ? FOUR : TG__COLUMN_BLOCK;
    for (size_t end = rows, m; end > 0; end -= m) {
        m = (end - 1) % most + 1;
        size_t begin = end - m;
        EACH_VEC(cols, {
            settle_block(x + begin * stride + i, stride, m, left, vec_get(t + i, left),
                         vec_get(plus + i, left), vec_get(minus + i, left),
                         bits + begin * row_bytes + i / 8, row_bytes, subtract);
        });
    }
}

static inline void decode(float *dst, const uint8_t *bits, size_t first, size_t n,
                          const uint8_t *plus, const uint8_t *minus, bool add)
{
    size_t head = first % 8 ? TG__MIN(n, 8 - first % 8) : 0;
    for (size_t i = 0; i < head; i++) {
        float x = tg__float_at(tg__bit(bits, first + i) ? minus : plus, i);
        dst[i] = add ? dst[i] + x : x;
    }
    bits += (first + head) / 8;
    dst += head;
    const float *up = (const float *)(const void *)(plus + 4 * head);
    const float *down = (const float *)(const void *)(minus + 4 * head);
    EACH_VEC(n - head, {
        uint32_t m = bits[i / 8];
        if (WIDTH == 16 && left > 8)
            m |= (uint32_t)bits[i / 8 + 1] << 8;
        vec x = vec_pick(mask_from(m), vec_get(down + i, left), vec_get(up + i, left));
        vec_put(dst + i, left, add ? vec_add(vec_get(dst + i, left), x) : x);
    });
}

static void column_decode(float *dst, const uint8_t *bits, size_t first, size_t n,
                          const uint8_t *plus, const uint8_t *minus)
{
    decode(dst, bits, first, n, plus, minus, false);
}

static void column_decode_add(float *dst, const uint8_t *bits, size_t first, size_t n,
                              const uint8_t *plus, const uint8_t *minus)
{
    decode(dst, bits, first, n, plus, minus, true);
}

static void fill(tg__kernels *table)
{
    table->sum_abs = sum_abs;
    table->split_sums = split_sums;
    table->column_sums = column_sums;
    table->column_settle = column_settle;
    table->column_decode = column_decode;
    table->column_decode_add = column_decode_add;
}

/* Template: skinny_ref.c in vectors. FOLD_ROWS rows share the values loaded from the factors; up to
 * GROUP columns of a factor are kept in registers at once.
 *
 * The size arguments of functions marked TG__INLINED are constants at the calls, so that small
 * arrays become registers. */

enum { FOLD_ROWS = WIDTH / 4, GROUP = WIDTH / 4 };

/* Elements of vector v, for the lanes that begin at element j of n. */
static inline size_t rest(size_t n, size_t j, size_t v)
{
    return n > j + v * WIDTH ? n - j - v * WIDTH : 0;
}

static inline vec get(const float *p, size_t left)
{
    return left == 0 ? vec_splat(0) : vec_get(p, left);
}

/* Prefetch the element `ahead` of p into the second-level cache; a block of rows in advance is too
 * much for the first. The address may be beyond the array's end. (A macro: gcc 12 drops calls of
 * functions that do nothing else.) */
#define ASK_FOR(p, ahead) \
    _mm_prefetch((const char *)((uintptr_t)(p) + (ahead) * sizeof(float)), _MM_HINT_T1)

static inline void put(float *p, size_t left, vec x)
{
    if (left > 0)
        vec_put(p, left, x);
}

/* One step of fold_rows: TG__LANES columns of `rows` rows from column j on; n of them exist. */
TG__INLINED void fold_step(const tg__skinny *s, float *m, const float *g, const float *left,
                           const float *right, const float *q, size_t j, size_t n, size_t rows,
                           size_t rank, size_t group, vec acc[FOLD_ROWS][GROUP][VECS])
{
    TG__UNROLL
    for (size_t v = 0; v < VECS; v++) {
        const size_t at = j + v * WIDTH, have = rest(n, j, v);
        vec x[FOLD_ROWS];
        vec column = get(right + at, have);
        TG__UNROLL
        for (size_t i = 0; i < rows; i++)
            x[i] = left[i] * column;
        TG__UNROLL
        for (size_t k = 1; k < rank; k++) {
            column = get(right + k * s->right_stride + at, have);
            TG__UNROLL
            for (size_t i = 0; i < rows; i++)
                x[i] = x[i] + left[k * s->left_stride + i] * column;
        }
        TG__UNROLL
        for (size_t i = 0; i < rows; i++) {
            float *to = m + i * s->stride + at;
            x[i] = (get(to, have) - x[i]) + get(g + i * s->stride + at, have);
            put(to, have, x[i]);
            ASK_FOR(to, rows * s->stride);
            ASK_FOR(g + i * s->stride + at, rows * s->stride);
        }
        TG__UNROLL
        for (size_t k = 0; k < group; k++) {
            column = get(q + k * s->right_stride + at, have);
            TG__UNROLL
            for (size_t i = 0; i < rows; i++)
                acc[i][k][v] = acc[i][k][v] + x[i] * column;
        }
    }
}

/* One step of dot_rows: the second half of fold_step. */
TG__INLINED void dot_step(const tg__skinny *s, const float *m, const float *q, size_t j, size_t n,
                          size_t rows, size_t group, vec acc[FOLD_ROWS][GROUP][VECS])
{
    TG__UNROLL
    for (size_t v = 0; v < VECS; v++) {
        const size_t at = j + v * WIDTH, have = rest(n, j, v);
        vec x[FOLD_ROWS];
        TG__UNROLL
        for (size_t i = 0; i < rows; i++)
            x[i] = get(m + i * s->stride + at, have);
        TG__UNROLL
        for (size_t k = 0; k < group; k++) {
            const vec column = get(q + k * s->right_stride + at, have);
            TG__UNROLL
            for (size_t i = 0; i < rows; i++)
                acc[i][k][v] = acc[i][k][v] + x[i] * column;
        }
    }
}

TG__INLINED void clear(size_t rows, size_t group, vec acc[FOLD_ROWS][GROUP][VECS])
{
    TG__UNROLL
    for (size_t i = 0; i < rows; i++)
        TG__UNROLL
    for (size_t k = 0; k < group; k++)
        TG__UNROLL
    for (size_t v = 0; v < VECS; v++)
        acc[i][k][v] = vec_splat(0);
}

static inline float fold_lanes(const vec lanes[VECS])
{
    const __m256 a = lanes_halved(lanes);
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

/* Store a strip's sums in p, added to those of the previous strips. */
TG__INLINED void store_sums(const tg__skinny *s, float *p, bool first, size_t rows, size_t group,
                            vec acc[FOLD_ROWS][GROUP][VECS])
{
    TG__UNROLL
    for (size_t k = 0; k < group; k++)
        TG__UNROLL
    for (size_t i = 0; i < rows; i++) {
        float *to = p + k * s->left_stride + i, sum = fold_lanes(acc[i][k]);
        *to = first ? sum : *to + sum;
    }
}

/* Fold a strip of n columns and dot it with the first `group` columns of q. */
TG__INLINED void fold_rows(const tg__skinny *s, float *m, const float *g, const float *left,
                           const float *right, const float *q, float *p, size_t n, bool first,
                           size_t rows, size_t rank, size_t group)
{
    vec acc[FOLD_ROWS][GROUP][VECS];
    size_t j = 0;
    clear(rows, group, acc);
    for (; j + TG__LANES <= n; j += TG__LANES)
        fold_step(s, m, g, left, right, q, j, j + TG__LANES, rows, rank, group, acc);
    if (j < n)
        fold_step(s, m, g, left, right, q, j, n, rows, rank, group, acc);
    store_sums(s, p, first, rows, group, acc);
}

TG__INLINED void dot_rows(const tg__skinny *s, const float *m, const float *q, float *p, size_t n,
                          bool first, size_t rows, size_t group)
{
    vec acc[FOLD_ROWS][GROUP][VECS];
    size_t j = 0;
    clear(rows, group, acc);
    for (; j + TG__LANES <= n; j += TG__LANES)
        dot_step(s, m, q, j, j + TG__LANES, rows, group, acc);
    if (j < n)
        dot_step(s, m, q, j, n, rows, group, acc);
    store_sums(s, p, first, rows, group, acc);
}

/* A strip of `rows` rows: folded and multiplied with the first columns of q, then, while cached,
 * with the others. */
TG__INLINED void fold_block(const tg__skinny *s, float *m, const float *g, const float *left,
                            const float *right, const float *q, float *p, size_t n, bool first,
                            size_t rows)
{
    switch (s->rank) {
    case 1:
        fold_rows(s, m, g, left, right, q, p, n, first, rows, 1, 1);
        return;
    case 2:
        fold_rows(s, m, g, left, right, q, p, n, first, rows, 2, 2);
        return;
    case 4:
        fold_rows(s, m, g, left, right, q, p, n, first, rows, 4, GROUP);
        break;
    default:
        fold_rows(s, m, g, left, right, q, p, n, first, rows, s->rank, 2);
    }
    size_t k = s->rank == 4 ? GROUP : 2;
    for (; k + GROUP <= s->rank; k += GROUP)
        dot_rows(s, m, q + k * s->right_stride, p + k * s->left_stride, n, first, rows, GROUP);
    for (; k < s->rank; k++)
        dot_rows(s, m, q + k * s->right_stride, p + k * s->left_stride, n, first, rows, 1);
}

static void fold(const tg__skinny *s, float *m, const float *g, const float *left,
                 const float *right, const float *q, float *p)
{
    for (size_t j = 0; j < s->cols; j += TG__SKINNY_STRIP) {
        const size_t n = TG__MIN(s->cols - j, (size_t)TG__SKINNY_STRIP);
        size_t i = 0;
        for (; i + FOLD_ROWS <= s->rows; i += FOLD_ROWS)
            fold_block(s, m + i * s->stride + j, g + i * s->stride + j, left + i, right + j, q + j,
                       p + i, n, j == 0, FOLD_ROWS);
        for (; i < s->rows; i++)
            fold_block(s, m + i * s->stride + j, g + i * s->stride + j, left + i, right + j, q + j,
                       p + i, n, j == 0, 1);
    }
}

/* ---- q = m^T p ------------------------------------------------------------------------------- */

enum { PAIR = 2, PROJECT_GROUP = 4 }; /* vectors of columns; columns of a factor */

TG__INLINED void project_step(const tg__skinny *s, const float *m, const float *p, float *q,
                              size_t j, size_t n, bool first, size_t rows, size_t group)
{
    vec sum[PROJECT_GROUP][PAIR], x[PAIR];
    TG__UNROLL
    for (size_t v = 0; v < PAIR; v++) {
        x[v] = get(m + j + v * WIDTH, rest(n, j, v));
        ASK_FOR(m + j + v * WIDTH, rows * s->stride);
        TG__UNROLL
        for (size_t k = 0; k < group; k++)
            sum[k][v] = p[k * s->left_stride] * x[v];
    }
    TG__UNROLL
    for (size_t i = 1; i < rows; i++) {
        TG__UNROLL
        for (size_t v = 0; v < PAIR; v++) {
            x[v] = get(m + i * s->stride + j + v * WIDTH, rest(n, j, v));
            ASK_FOR(m + i * s->stride + j + v * WIDTH, rows * s->stride);
            TG__UNROLL
            for (size_t k = 0; k < group; k++)
                sum[k][v] = sum[k][v] + p[k * s->left_stride + i] * x[v];
        }
    }
    TG__UNROLL
    for (size_t k = 0; k < group; k++)
        TG__UNROLL
    for (size_t v = 0; v < PAIR; v++) {
        float *to = q + k * s->right_stride + j + v * WIDTH;
        const size_t have = rest(n, j, v);
        put(to, have, first ? sum[k][v] : (vec)(get(to, have) + sum[k][v]));
    }
}

TG__INLINED void project_columns(const tg__skinny *s, const float *m, const float *p, float *q,
                                 size_t n, bool first, size_t rows, size_t group)
{
    size_t j = 0;
    for (; j + PAIR * WIDTH <= n; j += PAIR * WIDTH)
        project_step(s, m, p, q, j, j + PAIR * WIDTH, first, rows, group);
    if (j < n)
        project_step(s, m, p, q, j, n, first, rows, group);
}

TG__INLINED void project_block(const tg__skinny *s, const float *m, const float *p, float *q,
                               size_t n, bool first, size_t rows)
{
    size_t k = 0;
    for (; k + PROJECT_GROUP <= s->rank; k += PROJECT_GROUP)
        project_columns(s, m, p + k * s->left_stride, q + k * s->right_stride, n, first, rows,
                        PROJECT_GROUP);
    for (; k + 2 <= s->rank; k += 2)
        project_columns(s, m, p + k * s->left_stride, q + k * s->right_stride, n, first, rows, 2);
    if (k < s->rank)
        project_columns(s, m, p + k * s->left_stride, q + k * s->right_stride, n, first, rows, 1);
}

static void project(const tg__skinny *s, const float *m, const float *p, float *q)
{
    for (size_t j = 0; j < s->cols; j += TG__SKINNY_STRIP) {
        const size_t n = TG__MIN(s->cols - j, (size_t)TG__SKINNY_STRIP);
        size_t i = 0;
        for (; i + TG__SKINNY_ROWS <= s->rows; i += TG__SKINNY_ROWS)
            project_block(s, m + i * s->stride + j, p + i, q + j, n, i == 0, TG__SKINNY_ROWS);
        if (i < s->rows)
            project_block(s, m + i * s->stride + j, p + i, q + j, n, i == 0, s->rows - i);
    }
}

/* ---- out = p q^T ----------------------------------------------------------------------------- */

TG__INLINED void expand_step(const tg__skinny *s, float *out, const float *p, const float *q,
                             size_t j, size_t left, size_t rows, size_t rank)
{
    vec x[FOLD_ROWS], column = vec_get(q + j, left);
    TG__UNROLL
    for (size_t i = 0; i < rows; i++)
        x[i] = p[i] * column;
    TG__UNROLL
    for (size_t k = 1; k < rank; k++) {
        column = vec_get(q + k * s->right_stride + j, left);
        TG__UNROLL
        for (size_t i = 0; i < rows; i++)
            x[i] = x[i] + p[k * s->left_stride + i] * column;
    }
    TG__UNROLL
    for (size_t i = 0; i < rows; i++) {
        float *to = out + i * s->stride + j;
        if (s->past_caches && left == WIDTH && (uintptr_t)to % sizeof(vec) == 0)
            MM(stream_ps)(to, x[i]);
        else
            vec_put(to, left, x[i]);
    }
}

TG__INLINED void expand_rows(const tg__skinny *s, float *out, const float *p, const float *q,
                             size_t n, size_t rows, size_t rank)
{
    EACH_VEC(n, expand_step(s, out, p, q, i, left, rows, rank););
}

TG__INLINED void expand_block(const tg__skinny *s, float *out, const float *p, const float *q,
                              size_t n, size_t rows)
{
    switch (s->rank) {
    case 1:
        expand_rows(s, out, p, q, n, rows, 1);
        break;
    case 2:
        expand_rows(s, out, p, q, n, rows, 2);
        break;
    case 4:
        expand_rows(s, out, p, q, n, rows, 4);
        break;
    default:
        expand_rows(s, out, p, q, n, rows, s->rank);
    }
}

static void expand(const tg__skinny *s, float *out, const float *p, const float *q)
{
    for (size_t j = 0; j < s->cols; j += TG__SKINNY_STRIP) {
        const size_t n = TG__MIN(s->cols - j, (size_t)TG__SKINNY_STRIP);
        size_t i = 0;
        for (; i + FOLD_ROWS <= s->rows; i += FOLD_ROWS)
            expand_block(s, out + i * s->stride + j, p + i, q + j, n, FOLD_ROWS);
        for (; i < s->rows; i++)
            expand_block(s, out + i * s->stride + j, p + i, q + j, n, 1);
    }
    if (s->past_caches)
        _mm_sfence(); /* orders these stores with all others for other cores */
}

static void fill_skinny(tg__kernels *table)
{
    table->skinny_fold = fold;
    table->skinny_project = project;
    table->skinny_expand = expand;
}

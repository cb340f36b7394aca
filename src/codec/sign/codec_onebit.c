/* 1-bit SGD: each column of a tensor's matrix has two values, and a bit per element selects one.
 *
 *     threshold=zero   bit = x < 0; the values are the means of the elements with bit 0 and with
 *                      bit 1, 0 if there are none
 *     threshold=mean   bit = x < m, m the column's mean; the values are m + d and m - d, d the mean
 *                      of |x - m|
 *     weights=yes      with threshold=zero: the values of a matrix are weighted means, times a
 *                      weight for each row, its mean |x|: rank1.h. Tensors that are vectors are
 *                      sent as they are, if they are few. Rows of fewer than 16 elements, for
 *                      which weights would be too many, have none
 *
 * Means are computed in f64 and sent as f32. A vector is one column. So is a matrix of fewer than 3
 * rows, because two values per column would be longer than the elements. If a part cuts a matrix,
 * its whole rows form a matrix, and the partial rows before and after them are vectors.
 *
 * payload: strips.h; the values of a vector are plus, minus; of a matrix those of all columns: plus
 * (cols), minus (cols). weights=yes (aux 1): the weights (rows) before these.
 *
 * Source: Seide et al. 2014, "1-bit stochastic gradient descent", Interspeech; threshold=mean is
 * CNTK's ColumnQuantizer without its zero threshold */
#include "base/mem.h"
#include "codec/sign/rank1.h"
#include "codec/sign/strips.h"
#include "kernel/kernel.h"
#include "telegrad/spec.h"
#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    MIN_ROWS = 3,
    PANEL = 8192, /* most columns whose sums are cached at once; long rows stream best */
    SHARE = 512   /* the fewest columns for one core */
};

/* Statistics of each column. */
typedef struct columns {
    double *below, *above; /* below: the start of one block of memory for all */
    float *t, *plus, *minus;
    uint32_t *nbelow;
} columns;
enum { COLUMN_BYTES = 2 * sizeof(double) + 3 * sizeof(float) + sizeof(uint32_t) };

typedef struct onebit {
    tg__strip_coder strips; /* first member */
    bool mean, weights;
    tg__split *partial; /* of a vector's chunks */
    double *columns;    /* memory for a matrix's columns; with weights also for its rows */
} onebit;
enum { AUX_COLUMNS = 0, AUX_WEIGHTS = 1 };

static size_t two_a_column(size_t rows, size_t cols)
{
    return rows == 1 ? 2 : 2 * cols;
}

/* Whether a strip of weights=yes has weights: if they are at most 2 bits per element. */
static bool has_weights(size_t rows, size_t cols)
{
    return rows > 1 && cols >= 16;
}

static size_t with_weights(size_t rows, size_t cols)
{
    if (rows == 0)
        return cols;
    return two_a_column(rows, cols) + (has_weights(rows, cols) ? rows : 0);
}

static tg__strips strips_of(const onebit *own, const tg_encode_context *ctx, const tg__part *part)
{
    return tg__strips_of(ctx, part, MIN_ROWS, own->weights);
}

/* ---- the two values -------------------------------------------------------------------------- */

typedef struct pair {
    float plus, minus;
} pair;

/* An empty class has mean 0; adding 0 turns -0 into +0. */
static float mean_of(double sum, double n)
{
    return n > 0 ? (float)(sum / n) + 0.0f : 0.0f;
}

static float saturated(double x)
{
    return (float)fmax(-(double)FLT_MAX, fmin((double)FLT_MAX, x)) + 0.0f;
}

static float threshold_of(const tg__split *s, size_t n)
{
    return mean_of(s->below + s->above, (double)n);
}

static pair values_of(const tg__split *s, size_t n, float t, bool mean)
{
    double nbelow = (double)s->nbelow, nabove = (double)n - nbelow, m = (double)t;
    if (!mean)
        return (pair){mean_of(s->above, nabove), mean_of(s->below, nbelow)};
    double d = fmax(0, ((s->above - nabove * m) + (nbelow * m - s->below)) / (double)n);
    return (pair){saturated(m + d), saturated(m - d)};
}

/* ---- vectors --------------------------------------------------------------------------------- */

typedef struct job {
    const tg__kernels *k;
    float *x;
    const float *g; /* NULL: x is not changed */
    size_t rows, cols;
    columns of;
    uint8_t *values, *bits;
    bool mean, add; /* add: this pass adds g */
    tg__split *partial;
    float t;
    pair pair;
    atomic_bool *spoilt; /* [out] some x is not finite */
} job;

static void look(const job *j, const tg__split *s)
{
    if (!isfinite(s->below + s->above))
        atomic_store(j->spoilt, true);
}

static void split_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    for (size_t n; lo < hi; lo += n) {
        n = TG__MIN(hi - lo, (size_t)TG__CHUNK);
        if (j->add)
            j->k->add(j->x + lo, j->g + lo, n);
        j->k->split_sums(j->x + lo, n, j->t, &j->partial[lo / TG__CHUNK]);
    }
}

static void pack_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    for (size_t n; lo < hi; lo += n) {
        n = TG__MIN(hi - lo, (size_t)TG__CHUNK);
        j->k->sign_pack(j->x + lo, n, j->t, j->bits + lo / 8);
        if (j->g)
            j->k->sign_settle(j->x + lo, n, j->t, j->pair.plus, j->pair.minus);
    }
}

static tg__split split(tg__pool *pool, job *j, bool add)
{
    tg__split s = {0};
    j->add = add;
    tg__pool_chunks(pool, j->cols, TG__CHUNK, split_range, j);
    for (size_t i = 0; i < (j->cols + TG__CHUNK - 1) / TG__CHUNK; i++) {
        s.below += j->partial[i].below;
        s.above += j->partial[i].above;
        s.nbelow += j->partial[i].nbelow;
    }
    return s;
}

static void write_vector(tg__pool *pool, job *j)
{
    j->t = 0;
    tg__split s = split(pool, j, j->g != NULL);
    look(j, &s);
    if (j->mean) {
        j->t = threshold_of(&s, j->cols);
        s = split(pool, j, false);
    }
    j->pair = values_of(&s, j->cols, j->t, j->mean);
    tg__floats_put(j->values, &j->pair.plus, 1);
    tg__floats_put(j->values + sizeof(float), &j->pair.minus, 1);
    tg__pool_chunks(pool, j->cols, TG__CHUNK, pack_range, j);
}

/* ---- matrices -------------------------------------------------------------------------------- */

static tg__split column(const columns *of, size_t c)
{
    return (tg__split){.below = of->below[c], .above = of->above[c], .nbelow = of->nbelow[c]};
}

static void sums(const job *j, const float *g, size_t c0, size_t w)
{
    const columns *of = &j->of;
    memset(of->below + c0, 0, w * sizeof *of->below);
    memset(of->above + c0, 0, w * sizeof *of->above);
    memset(of->nbelow + c0, 0, w * sizeof *of->nbelow);
    j->k->column_sums(j->x + c0, g, j->cols, j->rows, w, of->t + c0, of->below + c0, of->above + c0,
                      of->nbelow + c0);
}

/* Compute the sums of w columns, then bits and residual. */
static void write_panel(const job *j, size_t c0, size_t w)
{
    const columns *of = &j->of;
    memset(of->t + c0, 0, w * sizeof *of->t);
    sums(j, j->g ? j->g + c0 : NULL, c0, w);
    if (j->mean) {
        for (size_t c = c0; c < c0 + w; c++) {
            tg__split s = column(of, c);
            of->t[c] = threshold_of(&s, j->rows);
        }
        sums(j, NULL, c0, w);
    }
    for (size_t c = c0; c < c0 + w; c++) {
        tg__split s = column(of, c);
        pair v = values_of(&s, j->rows, of->t[c], j->mean);
        look(j, &s);
        of->plus[c] = v.plus;
        of->minus[c] = v.minus;
    }
    tg__floats_put(j->values + c0 * sizeof(float), of->plus + c0, w);
    tg__floats_put(j->values + (j->cols + c0) * sizeof(float), of->minus + c0, w);
    j->k->column_settle(j->x + c0, j->cols, j->rows, w, of->t + c0, of->plus + c0, of->minus + c0,
                        NULL, j->bits + c0 / 8, tg__strip_row_bytes(j->cols), j->g != NULL);
}

static void panels_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    for (; lo < hi; lo += PANEL)
        write_panel(j, lo, TG__MIN(hi - lo, (size_t)PANEL));
}

static void write_weighted(const onebit *own, tg__pool *pool, const job *j)
{
    tg__rank1_write(&(tg__rank1){.k = j->k,
                                 .pool = pool,
                                 .x = j->x,
                                 .g = j->g,
                                 .rows = j->rows,
                                 .cols = j->cols,
                                 .room = own->columns,
                                 .values = j->values,
                                 .bits = j->bits,
                                 .spoilt = j->spoilt});
}

/* ---- a part ---------------------------------------------------------------------------------- */

static void write_strip(const onebit *own, tg__pool *pool, job *j)
{
    if (j->rows == 0)
        tg__strip_put(j->k, j->x, j->g, j->cols, j->values, j->spoilt);
    else if (j->rows == 1)
        write_vector(pool, j);
    else if (own->weights && has_weights(j->rows, j->cols))
        write_weighted(own, pool, j);
    else
        tg__pool_chunks(pool, j->cols, SHARE, panels_range, j);
}

static void write_strips(tg_codec *c, const tg_encode_context *ctx, float *x, const float *g,
                         const tg__part *part, job *j)
{
    const onebit *own = c->impl;
    tg__strip strip;
    for (tg__strips s = strips_of(own, ctx, part); tg__strips_next(&s, &strip);) {
        j->x = x + strip.lo;
        j->g = g ? g + strip.lo : NULL;
        j->rows = strip.rows;
        j->cols = strip.cols;
        write_strip(own, c->pool, j);
        j->values += own->strips.values(strip.rows, strip.cols) * sizeof(float);
        j->bits += strip.rows * tg__strip_row_bytes(strip.cols);
    }
}

/* Allocate memory for the largest matrix with weights, and for the widest one. */
static tg_status make_room(tg_codec *c, const tg_encode_context *ctx, const tg__part *part,
                           columns *of)
{
    onebit *own = c->impl;
    size_t widest = 0, most = 0;
    tg__strip strip;
    for (tg__strips s = strips_of(own, ctx, part); tg__strips_next(&s, &strip);)
        if (strip.rows > 1) {
            widest = TG__MAX(widest, strip.cols);
            if (own->weights && has_weights(strip.rows, strip.cols))
                most = TG__MAX(most, TG__RANK1_ROOM(strip.rows, strip.cols));
        }
    most = TG__MAX(most, widest * COLUMN_BYTES);
    TG_TRY(tg__scratch(c, &own->columns, most, 1));
    of->below = own->columns;
    of->above = of->below + widest;
    of->t = (float *)(of->above + widest);
    of->plus = of->t + widest;
    of->minus = of->plus + widest;
    of->nbelow = (uint32_t *)(of->minus + widest);
    return TG_OK;
}

static tg_status write_part(tg_codec *c, const tg_encode_context *ctx, float *x, const float *g,
                            tg__part *part)
{
    onebit *own = c->impl;
    tg__strip_layout l;
    uint8_t *payload;
    columns of;
    const size_t chunks = (part->hi - part->lo) / TG__CHUNK + 1;
    TG_TRY(tg__scratch(c, &own->partial, chunks, sizeof(tg__split)));
    TG_TRY(make_room(c, ctx, part, &of));
    TG_TRY(tg__strips_begin(c, ctx, part, &l, &payload));
    atomic_bool spoilt = false;
    job j = {.k = tg__kernel(),
             .values = payload + l.values,
             .bits = payload + l.bits,
             .of = of,
             .mean = own->mean,
             .partial = own->partial,
             .spoilt = &spoilt};
    write_strips(c, ctx, x, g, part, &j);
    if (spoilt)
        return tg__encode_spoilt(c);
    tg__strips_end(c, part, &l, payload, own->weights ? AUX_WEIGHTS : AUX_COLUMNS);
    return TG_OK;
}

static tg_status init(tg_codec *c)
{
    const bool mean = strcmp(tg_spec_word(c->spec, "threshold"), "mean") == 0;
    const bool weights = tg_spec_flag(c->spec, "weights") && !mean;
    *(onebit *)c->impl = (onebit){.strips = {.values = weights ? with_weights : two_a_column,
                                             .min_rows = MIN_ROWS,
                                             .plain = weights,
                                             .write = write_part},
                                  .mean = mean,
                                  .weights = weights};
    return TG_OK;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static bool valid_pair(const uint8_t *plus, const uint8_t *minus)
{
    float p, m;
    tg__floats_get(&p, plus, 1);
    tg__floats_get(&m, minus, 1);
    return isfinite(p) && isfinite(m) && m <= p;
}

static tg__strip_values *values_in(const tg__frame *f)
{
    return f->aux == AUX_WEIGHTS ? with_weights : two_a_column;
}

static tg_status check_pairs(const uint8_t *at, size_t pairs, size_t strip)
{
    for (size_t p = 0; p < pairs; p++)
        if (!valid_pair(at + p * sizeof(float), at + (pairs + p) * sizeof(float)))
            return tg_fail(
                TG_E_CORRUPT,
                "1bit frame: strip %zu: the values of pair %zu must be finite and ascend", strip,
                p);
    return TG_OK;
}

static tg_status check_strip(tg__strip s, bool weights, const uint8_t *at, size_t i)
{
    if (s.rows == 0)
        return tg__strip_check_floats("1bit", at, s.cols, false);
    if (s.rows == 1)
        return check_pairs(at, 1, i);
    if (!weights || !has_weights(s.rows, s.cols))
        return check_pairs(at, s.cols, i);
    TG_TRY(tg__strip_check_floats("1bit", at, s.rows, true));
    TG_TRY(check_pairs(at + s.rows * sizeof(float), s.cols, i));
    return tg__rank1_finite(at, s.rows, 2 * s.cols)
               ? TG_OK
               : tg_fail(TG_E_CORRUPT,
                         "1bit frame: strip %zu: the largest weight times the largest value is not "
                         "finite",
                         i);
}

static tg_status check(const tg__frame *f)
{
    tg__strip_layout l;
    const bool weights = f->aux == AUX_WEIGHTS;
    if (f->aux > AUX_WEIGHTS)
        return tg_fail(TG_E_CORRUPT, "1bit frame: aux=%#x: must be 0 or 1", f->aux);
    TG_TRY(tg__strips_check(f, "1bit", values_in(f), weights, &l));
    const uint8_t *at = f->payload + l.values;
    for (size_t i = 0; i < l.strips; i++) {
        const tg__strip s = tg__strip_at(f, i);
        TG_TRY(check_strip(s, weights, at, i));
        at += values_in(f)(s.rows, s.cols) * sizeof(float);
    }
    return TG_OK;
}

static void decode_columns(const tg__strip_piece *p, float *dst, bool add, float weight,
                           const uint8_t *plus)
{
    const tg__kernels *k = tg__kernel();
    plus += p->col * sizeof(float);
    (add ? k->column_decode_add : k->column_decode)(dst, p->bits, p->col % 8, p->n, weight, plus,
                                                    plus + p->cols * sizeof(float));
}

static void decode_piece(const tg__strip_piece *p, float *dst, bool add)
{
    const tg__kernels *k = tg__kernel();
    if (p->rows == 1) {
        pair v;
        tg__floats_get(&v.plus, p->values, 1);
        tg__floats_get(&v.minus, p->values + sizeof(float), 1);
        (add ? k->sign_decode_add : k->sign_decode)(dst, p->bits, p->col % 8, p->n, v.plus,
                                                    v.minus);
        return;
    }
    decode_columns(p, dst, add, 1, p->values);
}

static void decode_weighted(const tg__strip_piece *p, float *dst, bool add)
{
    float weight;
    if (p->rows == 0) {
        tg__strip_get(p, dst, add);
    } else if (!has_weights(p->rows, p->cols)) {
        decode_piece(p, dst, add);
    } else {
        tg__floats_get(&weight, p->values + p->row * sizeof(float), 1);
        decode_columns(p, dst, add, weight, p->values + p->rows * sizeof(float));
    }
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    tg__strips_decode(f, values_in(f), lo, hi, dst, add,
                      f->aux == AUX_WEIGHTS ? decode_weighted : decode_piece);
}

static const tg_key keys[] = {
    TG__CHOICE("threshold", "zero", "zero|mean",
               "what elements are compared with: 0, or the mean of their column"),
    TG__FLAG(
        "weights", "no",
        "with threshold=zero: multiply the means by a weight for each row, and send vectors as "
        "they are, if they are at most a 32nd of the elements"),
    {.name = NULL},
};

static const char *const settings[] = {"threshold=mean", "weights=yes", NULL};

const tg__codec_ops tg__codec_onebit = {
    .entry = {"1bit", "one bit per element, two values per column",
              "Seide et al. 2014, 1-bit stochastic gradient descent, Interspeech", keys},
    .wire_id = TG__ID_onebit,
    .properties = TG__CUTS,
    .promise = {.share = 1, .settings = settings},
    .impl_bytes = sizeof(onebit),
    .init = init,
    .encode_part = tg__strips_encode,
    .settle = tg__strips_settle,
    .check = check,
    .decode = decode,
};

/* One bit per element, 1 if x < 0 (0 and -0 count as positive):
 *
 *     scale=none     decoded = -1 or 1
 *     scale=tensor   decoded = -s or s, s = |x|_1 / n of the tensor
 *     scale=row      the same for each row of the tensor's matrix; a vector is one row. Tensors
 *                    that are vectors are sent as they are, if they are few (strips.h)
 *
 * s is a mean, computed in f64 by lanes and chunks and sent as f32. If a part cuts a tensor or a
 * row, each piece has its own scale. A row of zeros stays zero: its scale is 0.
 *
 * payload: scale=none (aux 0): the bits; else (aux 1) strips.h, a scale for each row.
 *
 * Source: Bernstein et al. 2018, arXiv:1802.04434; Karimireddy et al. 2019, arXiv:1901.09847 */
#include "codec/sign/codec_sign.h"
#include "base/mem.h"
#include "codec/sign/strips.h"
#include "kernel/kernel.h"
#include "telegrad/spec.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { AUX_NONE = 0, AUX_SCALED = 1 };

typedef struct sign {
    tg__strip_coder strips; /* first member */
    bool scaled;
    double *partial; /* sums of the chunks of a long row */
} sign;

static size_t bound(const tg_codec *c, size_t n)
{
    const sign *own = c->impl;
    return TG__FRAME_HEAD + (own->scaled ? n * sizeof(float) : tg__strip_row_bytes(n));
}

static size_t one_a_row(size_t rows, size_t cols)
{
    return rows == 0 ? cols : rows;
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* A strip, or all elements of a part. */
typedef struct job {
    const tg__kernels *k;
    float *x;
    const float *g; /* NULL: x is not changed */
    size_t cols;
    uint8_t *values, *bits;
    double *partial;
    float scale;
    atomic_bool *spoilt; /* [out] some x is not finite */
} job;

static float scale_of(const job *j, double sum)
{
    if (!isfinite(sum))
        atomic_store(j->spoilt, true);
    return (float)(sum / (double)j->cols);
}

static void add(const job *j, size_t lo, size_t n)
{
    if (j->g)
        j->k->add(j->x + lo, j->g + lo, n);
}

static void settle(const job *j, size_t lo, size_t n, float scale)
{
    if (j->g)
        j->k->sign_settle(j->x + lo, n, 0, scale, 0 - scale);
}

static void plain_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    for (size_t n; lo < hi; lo += n) {
        n = TG__MIN(hi - lo, (size_t)TG__CHUNK);
        add(j, lo, n);
        j->k->sign_pack(j->x + lo, n, 0, j->bits + lo / 8);
        settle(j, lo, n, 1);
    }
}

static void rows_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    for (size_t row = lo; row < hi; row++) {
        size_t at = row * j->cols;
        double sum = j->k->sum_abs(j->x + at, j->g ? j->g + at : NULL, j->cols);
        float scale = scale_of(j, sum);
        tg__floats_put(j->values + row * sizeof(float), &scale, 1);
        j->k->sign_pack(j->x + at, j->cols, 0, j->bits + row * tg__strip_row_bytes(j->cols));
        settle(j, at, j->cols, scale);
    }
}

static void chunks_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    for (size_t n; lo < hi; lo += n) {
        n = TG__MIN(hi - lo, (size_t)TG__CHUNK);
        j->partial[lo / TG__CHUNK] = j->k->sum_abs(j->x + lo, j->g ? j->g + lo : NULL, n);
        j->k->sign_pack(j->x + lo, n, 0, j->bits + lo / 8);
    }
}

static void settle_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    settle(j, lo, hi - lo, j->scale);
}

/* Encode a row of several chunks, shared by the cores. */
static void write_long_row(tg__pool *pool, job *j)
{
    size_t chunks = (j->cols + TG__CHUNK - 1) / TG__CHUNK;
    double sum = 0;
    tg__pool_chunks(pool, j->cols, TG__CHUNK, chunks_range, j);
    for (size_t i = 0; i < chunks; i++)
        sum += j->partial[i];
    j->scale = scale_of(j, sum);
    tg__floats_put(j->values, &j->scale, 1);
    if (j->g)
        tg__pool_chunks(pool, j->cols, TG__CHUNK, settle_range, j);
}

static void write_strip(tg__pool *pool, job j, size_t rows)
{
    if (j.cols <= TG__CHUNK) {
        tg__pool_chunks(pool, rows, TG__CHUNK / j.cols, rows_range, &j);
        return;
    }
    for (size_t row = 0; row < rows; row++) {
        write_long_row(pool, &j);
        j.x += j.cols;
        j.g = j.g ? j.g + j.cols : NULL;
        j.values += sizeof(float);
        j.bits += tg__strip_row_bytes(j.cols);
    }
}

static tg_status write_scaled(tg_codec *c, const tg_encode_context *ctx, float *x, const float *g,
                              tg__part *part)
{
    sign *own = c->impl;
    tg__strip_layout l;
    uint8_t *payload;
    const size_t chunks = (part->hi - part->lo) / TG__CHUNK + 1;
    TG_TRY(tg__scratch(c, &own->partial, chunks, sizeof(double)));
    TG_TRY(tg__strips_begin(c, ctx, part, &l, &payload));
    atomic_bool spoilt = false;
    job j = {.k = tg__kernel(),
             .values = payload + l.values,
             .bits = payload + l.bits,
             .partial = own->partial,
             .spoilt = &spoilt};
    tg__strip strip;
    for (tg__strips s = tg__strips_of(ctx, part, own->strips.min_rows, own->strips.plain);
         tg__strips_next(&s, &strip);) {
        j.x = x + strip.lo;
        j.g = g ? g + strip.lo : NULL;
        j.cols = strip.cols;
        if (strip.rows == 0)
            tg__strip_put(j.k, j.x, j.g, j.cols, j.values, &spoilt);
        else
            write_strip(c->pool, j, strip.rows);
        j.values += one_a_row(strip.rows, strip.cols) * sizeof(float);
        j.bits += strip.rows * tg__strip_row_bytes(strip.cols);
    }
    if (spoilt)
        return tg__encode_spoilt(c);
    tg__strips_end(c, part, &l, payload, AUX_SCALED);
    return TG_OK;
}

static tg_status write_part(tg_codec *c, const tg_encode_context *ctx, float *x, const float *g,
                            tg__part *part)
{
    const sign *own = c->impl;
    size_t n = part->hi - part->lo;
    if (n == 0)
        tg__part_zero(part, TG__ID_sign);
    else if (own->scaled)
        return write_scaled(c, ctx, x, g, part);
    else {
        job j = {.k = tg__kernel(),
                 .x = x + part->lo,
                 .g = g ? g + part->lo : NULL,
                 .bits = part->dst + TG__FRAME_HEAD};
        tg__pool_chunks(c->pool, n, TG__CHUNK, plain_range, &j);
        tg__part_coded(part, TG__ID_sign, AUX_NONE, tg__strip_row_bytes(n));
    }
    return TG_OK;
}

static tg_status init(tg_codec *c)
{
    const char *scale = tg_spec_word(c->spec, "scale");
    const bool row = strcmp(scale, "row") == 0;
    *(sign *)c->impl = (sign){.strips = {.values = one_a_row,
                                         .min_rows = row ? 2 : SIZE_MAX,
                                         .plain = row,
                                         .write = write_part},
                              .scaled = strcmp(scale, "none") != 0};
    return TG_OK;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static tg_status check(const tg__frame *f)
{
    if (f->aux > AUX_SCALED || f->n == 0)
        return tg_fail(TG_E_CORRUPT, "sign frame: aux=%#x n=%u: aux must be 0 or 1, n > 0", f->aux,
                       f->n);
    if (f->aux == AUX_NONE) {
        size_t want = tg__strip_row_bytes(f->n);
        if (f->payload_len != want)
            return tg_fail(TG_E_CORRUPT, "sign frame: payload length=%zu: must be %zu for n=%u",
                           f->payload_len, want, f->n);
        if (f->n % 8 && f->payload[want - 1] >> f->n % 8)
            return tg_fail(TG_E_CORRUPT, "sign frame: padding is not zero");
        return TG_OK;
    }
    tg__strip_layout l;
    TG_TRY(tg__strips_check(f, "sign", one_a_row, true, &l));
    const uint8_t *at = f->payload + l.values;
    for (size_t i = 0; i < l.strips; i++) {
        const tg__strip s = tg__strip_at(f, i);
        const size_t n = one_a_row(s.rows, s.cols);
        TG_TRY(tg__strip_check_floats("sign", at, n, s.rows > 0));
        at += n * sizeof(float);
    }
    return TG_OK;
}

static void decode_piece(const tg__strip_piece *p, float *dst, bool add_up)
{
    const tg__kernels *k = tg__kernel();
    float scale;
    if (p->rows == 0) {
        tg__strip_get(p, dst, add_up);
        return;
    }
    tg__floats_get(&scale, p->values + p->row * sizeof(float), 1);
    (add_up ? k->sign_decode_add : k->sign_decode)(dst, p->bits, p->col % 8, p->n, scale,
                                                   0 - scale);
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add_up)
{
    const tg__kernels *k = tg__kernel();
    if (f->aux == AUX_SCALED)
        tg__strips_decode(f, one_a_row, lo, hi, dst, add_up, decode_piece);
    else
        (add_up ? k->sign_decode_add : k->sign_decode)(dst + lo, f->payload + lo / 8, 0, hi - lo, 1,
                                                       -1);
}

const uint8_t *tg__sign_bits(const uint8_t *frame)
{
    bool plain =
        frame[0] == TG__ID_sign && frame[1] == TG__FORM_CODED && tg__get16(frame + 2) == AUX_NONE;
    return plain ? frame + TG__FRAME_HEAD : NULL;
}

static const tg_key keys[] = {
    TG__CHOICE("scale", "none", "none|tensor|row",
               "what the signs are multiplied by: nothing, the mean |x| of the tensor, or of each "
               "row; row sends vectors as they are, if they are at most a 32nd of the elements"),
    {.name = NULL},
};

static const char *const settings[] = {"scale=tensor", "scale=row", NULL};

const tg__codec_ops tg__codec_sign = {
    .entry = {"sign", "signs, one bit each, with or without scales",
              "Bernstein et al. 2018, arXiv:1802.04434; Karimireddy et al. 2019, arXiv:1901.09847",
              keys},
    .wire_id = TG__ID_sign,
    .properties = TG__CUTS,
    .promise = {.relative = 1, .share = 1, .absolute = 1, .settings = settings},
    .impl_bytes = sizeof(sign),
    .init = init,
    .bound = bound,
    .encode_part = tg__strips_encode,
    .settle = tg__strips_settle,
    .check = check,
    .decode = decode,
};

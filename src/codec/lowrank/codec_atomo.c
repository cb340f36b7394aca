/* ATOMO on singular vectors: for each matrix, a random choice of about `rank` atoms u v^T, scaled
 * so that the mean is the matrix. Vectors are sent unchanged, and so are matrices of which `rank`
 * atoms are no smaller than the matrix.
 *
 * This decision does not depend on the draw, which would introduce a bias. If more atoms are drawn
 * than pay, their sum is sent as a dense matrix.
 *
 * Payload: the number of tensors; rows, cols, atoms of each; then for each its values, or its
 * atoms.
 *
 * Source: Wang et al. 2018, "ATOMO: communication-efficient learning via atomic sparsification",
 * arXiv:1806.04090, sec. 3 and 4 */
#include "base/mem.h"
#include "codec/lowrank/atomo_matrix.h"
#include "codec/codec_impl.h"
#include "kernel/kernel.h"
#include "telegrad/spec.h"
#include <string.h>

enum { COUNT_BYTES = 4, HEAD_BYTES = 12, TILE_ROWS = 16, TILE_COLS = 256 };

#define WHOLE UINT32_MAX /* in place of the number of atoms: the values themselves follow */

typedef struct atomo {
    double rank;
    tg__atomo matrix;
    uint8_t *payload;
    float *u, *v, *sum;
    float *dense; /* the content of a dense frame, unless there is a view */
} atomo;

static tg_status init(tg_codec *c)
{
    ((atomo *)c->impl)->rank = (double)tg_spec_int(c->spec, "rank");
    return TG_OK;
}

static void fini(tg_codec *c)
{
    tg__eigen_free(&((atomo *)c->impl)->matrix.eigen);
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct head {
    size_t rows, cols, atoms;
} head;

static head head_at(const uint8_t *payload, size_t i)
{
    const uint8_t *p = payload + COUNT_BYTES + i * HEAD_BYTES;
    return (head){tg__get32(p), tg__get32(p + 4), tg__get32(p + 8)};
}

/* Floats that the tensor occupies in the payload. */
static size_t floats_of(const head *h)
{
    return h->atoms == WHOLE ? h->rows * h->cols : h->atoms * (h->rows + h->cols);
}

static bool pays(size_t rows, size_t cols, double atoms)
{
    return atoms * ((double)rows + (double)cols) < (double)rows * (double)cols;
}

static bool floats_finite(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((tg__get32(p + 4 * i) & 0x7f800000) == 0x7f800000)
            return false;
    return true;
}

static tg_status check(const tg__frame *f)
{
    size_t count = f->payload_len < COUNT_BYTES ? 0 : tg__get32(f->payload);
    if (f->aux != 0 || count == 0 || f->payload_len >= f->n * sizeof(float) ||
        count > (f->payload_len - COUNT_BYTES) / HEAD_BYTES)
        return tg_fail(TG_E_CORRUPT,
                       "atomo frame: aux=%u, %zu tensors, payload of %zu bytes for n=%u", f->aux,
                       count, f->payload_len, f->n);
    size_t n = 0, at = COUNT_BYTES + count * HEAD_BYTES;
    for (size_t i = 0; i < count; i++) {
        head h = head_at(f->payload, i);
        bool sane = h.rows > 0 && h.cols > 0 && h.rows <= f->n && h.cols <= f->n &&
                    h.rows * h.cols <= f->n - n &&
                    (h.atoms == WHOLE || pays(h.rows, h.cols, (double)h.atoms));
        if (!sane || floats_of(&h) > (f->payload_len - at) / sizeof(float))
            return tg_fail(TG_E_CORRUPT, "atomo frame: tensor %zu: rows=%zu cols=%zu atoms=%zu", i,
                           h.rows, h.cols, h.atoms);
        if (h.atoms != WHOLE && !floats_finite(f->payload + at, floats_of(&h)))
            return tg_fail(TG_E_CORRUPT, "atomo frame: tensor %zu: an atom is not finite", i);
        n += h.rows * h.cols;
        at += floats_of(&h) * sizeof(float);
    }
    if (n != f->n || at != f->payload_len)
        return tg_fail(TG_E_CORRUPT,
                       "atomo frame: tensors of %zu elements in %zu bytes, but n=%u and %zu bytes",
                       n, at, f->n, f->payload_len);
    return TG_OK;
}

/* The tile at row r0, column c0 of 0 + u_0 v_0^T + u_1 v_1^T + ..., summed in this order. */
static void sum_tile(const head *h, const uint8_t *atoms, size_t r0, size_t rows, size_t c0,
                     size_t cols, float tile[TILE_ROWS][TILE_COLS])
{
    const tg__kernels *kernel = tg__kernel();
    float u[TILE_ROWS], v[TILE_COLS];
    memset(tile, 0, TILE_ROWS * sizeof tile[0]);
    for (size_t a = 0; a < h->atoms; a++) {
        const uint8_t *at = atoms + a * (h->rows + h->cols) * sizeof(float);
        tg__floats_get(u, at + r0 * sizeof(float), rows);
        tg__floats_get(v, at + (h->rows + c0) * sizeof(float), cols);
        for (size_t r = 0; r < rows; r++)
            kernel->axpy(tile[r], u[r], v, cols);
    }
}

static void decode_matrix(const head *h, const uint8_t *atoms, float *dst, bool add)
{
    float tile[TILE_ROWS][TILE_COLS];
    for (size_t r0 = 0; r0 < h->rows; r0 += TILE_ROWS)
        for (size_t c0 = 0; c0 < h->cols; c0 += TILE_COLS) {
            size_t rows = TG__MIN(h->rows - r0, (size_t)TILE_ROWS);
            size_t cols = TG__MIN(h->cols - c0, (size_t)TILE_COLS);
            sum_tile(h, atoms, r0, rows, c0, cols, tile);
            for (size_t r = 0; r < rows; r++) {
                float *row = dst + (r0 + r) * h->cols + c0;
                if (add)
                    tg__kernel()->add(row, tile[r], cols);
                else
                    memcpy(row, tile[r], cols * sizeof *row);
            }
        }
}

static void decode_payload(const uint8_t *payload, float *dst, bool add)
{
    const size_t count = tg__get32(payload);
    const uint8_t *at = payload + COUNT_BYTES + count * HEAD_BYTES;
    for (size_t i = 0; i < count; i++) {
        head h = head_at(payload, i);
        if (h.atoms == WHOLE)
            (add ? tg__floats_add : tg__floats_get)(dst, at, h.rows * h.cols);
        else
            decode_matrix(&h, at, dst, add);
        dst += h.rows * h.cols;
        at += floats_of(&h) * sizeof(float);
    }
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    (void)lo; /* 0 and n, because of TG__WHOLE */
    (void)hi;
    decode_payload(f->payload, dst, add);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Send the run unchanged: used for vectors, and for tensors that cross a part boundary. */
static void put_whole(uint8_t *dst, const float *x, const tg__run *r, head *h)
{
    const size_t n = r->hi - r->lo;
    *h = n == r->of.n ? (head){r->of.rows, r->of.cols, WHOLE} : (head){n, 1, WHOLE};
    tg__floats_put(dst, x + r->lo, n);
}

/* More atoms than pay: send their sum. */
static tg_status put_sum(tg_codec *c, uint8_t *dst, head *h, size_t kept)
{
    atomo *own = c->impl;
    const size_t n = h->rows * h->cols;
    TG_TRY(tg__scratch(c, &own->sum, n, sizeof *own->sum));
    memset(own->sum, 0, n * sizeof *own->sum);
    for (size_t a = 0; a < kept; a++) {
        tg__atomo_atom(&own->matrix, a, own->u, own->v);
        for (size_t r = 0; r < h->rows; r++)
            tg__kernel()->axpy(own->sum + r * h->cols, own->u[r], own->v, h->cols);
    }
    h->atoms = WHOLE;
    tg__floats_put(dst, own->sum, n);
    return TG_OK;
}

static void put_atoms(atomo *own, uint8_t *dst, head *h, size_t kept)
{
    for (size_t a = 0; a < kept; a++) {
        tg__atomo_atom(&own->matrix, a, own->u, own->v);
        tg__floats_put(dst, own->u, h->rows);
        dst += h->rows * sizeof(float);
        tg__floats_put(dst, own->v, h->cols);
        dst += h->cols * sizeof(float);
    }
    h->atoms = kept;
}

/* Encode the tensor of the run: its head to *h, its floats to dst. */
static tg_status put_tensor(tg_codec *c, const tg_encode_context *ctx, const float *x,
                            const tg__run *r, uint8_t *dst, head *h)
{
    atomo *own = c->impl;
    size_t kept;
    put_whole(dst, x, r, h);
    if (!pays(r->of.rows, r->of.cols, own->rank))
        return TG_OK;
    if (r->hi - r->lo != r->of.n)
        return tg_fail(TG_E_UNSUPPORTED,
                       "atomo: elements [%zu, %zu) cut through a matrix of %zu x %zu: an exchange "
                       "that takes whole vectors is needed (allgather)",
                       r->part->lo, r->part->hi, r->of.rows, r->of.cols);
    TG_TRY(tg__scratch(c, &own->u, h->rows, sizeof *own->u));
    TG_TRY(tg__scratch(c, &own->v, h->cols, sizeof *own->v));
    TG_TRY(tg__atomo_draw(c, &own->matrix, x + r->lo, h->rows, h->cols, own->rank, &ctx->rng,
                          (uint64_t)r->segment << 32, &kept));
    if (kept == SIZE_MAX)
        return TG_OK;
    if (!pays(h->rows, h->cols, (double)kept))
        return put_sum(c, dst, h, kept);
    put_atoms(own, dst, h, kept);
    return TG_OK;
}

static size_t count_runs(const tg_encode_context *ctx, const tg__part *part)
{
    size_t count = 0;
    for (tg__run r = tg__run_first(ctx, part); r.lo < part->hi; r = tg__run_next(&r))
        count++;
    return count;
}

/* Build the payload of the part in own->payload; *len_p: its bytes. */
static tg_status make_payload(tg_codec *c, const tg_encode_context *ctx, const float *x,
                              const tg__part *part, size_t *len_p)
{
    atomo *own = c->impl;
    const size_t count = count_runs(ctx, part), n = part->hi - part->lo;
    size_t at = COUNT_BYTES + count * HEAD_BYTES;
    TG_TRY(tg__scratch(c, &own->payload, at + n * sizeof(float), 1));
    uint8_t *p = own->payload;
    tg__put32(p, (uint32_t)count);
    p += COUNT_BYTES;
    for (tg__run r = tg__run_first(ctx, part); r.lo < part->hi; r = tg__run_next(&r)) {
        head h;
        TG_TRY(put_tensor(c, ctx, x, &r, own->payload + at, &h));
        tg__put32(p, (uint32_t)h.rows);
        tg__put32(p + 4, (uint32_t)h.cols);
        tg__put32(p + 8, (uint32_t)h.atoms);
        p += HEAD_BYTES;
        at += floats_of(&h) * sizeof(float);
    }
    *len_p = at;
    return TG_OK;
}

static bool all_zero(const uint8_t *payload, size_t len)
{
    const size_t count = tg__get32(payload), heads = COUNT_BYTES + count * HEAD_BYTES;
    return tg__all_zero(payload + heads, len - heads);
}

static tg_status encode_part(tg_codec *c, const tg_encode_context *ctx, const float *x,
                             tg__part *part, float *decoded)
{
    atomo *own = c->impl;
    const size_t n = part->hi - part->lo;
    size_t len;
    TG_TRY(make_payload(c, ctx, x, part, &len));
    const bool dense = len >= n * sizeof(float);
    if (dense && decoded == NULL) {
        TG_TRY(tg__scratch(c, &own->dense, n, sizeof *own->dense));
        decoded = own->dense;
    }
    if (decoded != NULL)
        decode_payload(own->payload, decoded, false);
    if (all_zero(own->payload, len)) {
        tg__part_zero(part, TG__ID_atomo);
    } else if (dense) {
        tg__part_dense(part, TG__ID_atomo, decoded);
    } else {
        memcpy(part->dst + TG__FRAME_HEAD, own->payload, len);
        tg__part_coded(part, TG__ID_atomo, 0, len);
        const size_t heads = COUNT_BYTES + (size_t)tg__get32(own->payload) * HEAD_BYTES;
        part->kept = (len - heads) / sizeof(float);
    }
    return TG_OK;
}

static const tg_key keys[] = {
    TG__KEY(INT, "rank", "3", 1, 65536, "atoms kept per matrix, on average; s in the paper"),
    {.name = NULL},
};

const tg__codec_ops tg__codec_atomo = {
    .entry = {"atomo", "a random choice of a matrix's singular vectors, unbiased",
              "Wang et al. 2018, arXiv:1806.04090", keys},
    .wire_id = TG__ID_atomo,
    .properties = TG__UNBIASED | TG__WHOLE,
    .impl_bytes = sizeof(atomo),
    .init = init,
    .fini = fini,
    .encode_part = encode_part,
    .check = check,
    .decode = decode,
};

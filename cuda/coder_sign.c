/* sign on a GPU: see src/codec/sign/codec_sign.c. A row of a matrix is the work of a block or more,
 * so scale=row is left to the host if rows have fewer than 32 elements on average. */
#include "base/mem.h"
#include "line_table.h"
#include "sign.h"
#include "strip_frame.h"
#include "telegrad/tools.h"
#include "wire/frame.h"

#include <stdlib.h>
#include <string.h>

enum { ID = 9, AUX_SCALED = 1, FEWEST = 32, ROWS_FREE = 4096 };

typedef struct sign {
    bool scaled, residual;
    tg__strip_frame frame; /* scaled */
    tg__lines lines;       /* scaled: rows; and */
    tg__lines plain;       /* vectors that are sent as they are */
    uint8_t *bits;         /* not scaled: device memory, then `spoilt` */
    uint32_t *spoilt;
    tg__gpu_buffer host; /* not scaled: pinned, for the flag */
} sign;

/* The number of elements that are sent as they are. */
static size_t plain_values(const tg__strip_frame *f)
{
    size_t values = 0;
    for (size_t i = 0; i < f->count; i++)
        values += f->strip[i].rows == 0 ? f->strip[i].cols : 0;
    return values;
}

static tg_status init_scaled(tg_coder *c, sign *own, bool rows)
{
    own->frame = (tg__strip_frame){.id = ID, .aux = AUX_SCALED, .kind = TG__STRIP_ROWS};
    TG_TRY(tg__strip_frame_make(c, &own->frame, rows ? 2 : SIZE_MAX, rows));
    const size_t scales = own->frame.nvalues - plain_values(&own->frame);
    if (scales > c->setup.n / FEWEST + ROWS_FREE)
        return tg_fail(TG_E_UNSUPPORTED, "codec sign: scale=row: not on a GPU with %zu short rows",
                       scales);
    TG_TRY(tg__strip_frame_lines(c, &own->frame, 0, 0, &own->plain));
    return tg__strip_frame_lines(c, &own->frame, 1, SIZE_MAX, &own->lines);
}

static tg_status init_plain(tg_coder *c, sign *own)
{
    const size_t flag = (c->setup.n + 31) / 32 * 4;
    TG__GPU(cudaMalloc((void **)&own->bits, flag + sizeof *own->spoilt));
    own->spoilt = (uint32_t *)(void *)(own->bits + flag);
    own->host.pinned = true;
    return tg__gpu_room(c->queue, &own->host, sizeof *own->spoilt);
}

static tg_status init(tg_coder *c)
{
    sign *own = c->impl;
    const char *scale = tg_spec_word(c->setup.spec, "scale");
    own->residual = strcmp(c->setup.feedback, "residual") == 0;
    own->scaled = strcmp(scale, "none") != 0;
    if (!own->residual && strcmp(c->setup.feedback, "none") != 0)
        return tg_fail(TG_E_UNSUPPORTED, "codec sign with feedback=%s: not on a GPU",
                       c->setup.feedback);
    if (own->scaled)
        return init_scaled(c, own, strcmp(scale, "row") == 0);
    return init_plain(c, own);
}

static void fini(tg_coder *c)
{
    sign *own = c->impl;
    tg__lines_free(&own->lines);
    tg__lines_free(&own->plain);
    tg__strip_frame_free(&own->frame);
    tg__gpu_free(&own->host);
    if (own->bits != NULL)
        (void)cudaFree(own->bits);
}

/* ---- encoding -------------------------------------------------------------------------------- */

static tg_status encode_scaled(tg_coder *c, const float *g, uint8_t *dst, tg_coded *coded)
{
    sign *own = c->impl;
    tg__strip_frame *f = &own->frame;
    cudaStream_t stream = c->queue->stream;
    float *r = c->setup.vector[0];
    const tg__line_pass sums = {.bad = c->bad,
                                .x = own->residual ? r : (float *)(uintptr_t)g, /* only read */
                                .g = own->residual ? g : NULL,
                                .bits = f->bits,
                                .spoilt = f->spoilt};
    const tg__line_finish scales = {.bad = c->bad, .result = TG__LINE_SCALE, .value = f->values};
    const tg__line_settling settling = {
        .bad = c->bad, .x = r, .value = f->values, .single = true, .settle = true};
    const tg__line_taking taking = {
        .bad = c->bad, .x = sums.x, .g = sums.g, .value = f->values, .spoilt = f->spoilt};
    TG_TRY(tg__strip_frame_begin(c, f));
    TG__GPU(tg__line_take(&own->plain, &taking, stream));
    TG__GPU(tg__line_sums(TG__LINE_ABS, &own->lines, &sums, stream));
    TG__GPU(tg__line_results(&own->lines, &scales, stream));
    if (own->residual)
        TG__GPU(tg__line_settle(&own->lines, &settling, stream));
    return tg__strip_frame_end(c, f, dst, coded);
}

static tg_status encode_plain(tg_coder *c, const float *g, uint8_t *dst, tg_coded *coded)
{
    sign *own = c->impl;
    const size_t n = c->setup.n, bytes = (n + 7) / 8;
    const tg__sign_pass p = {.bad = c->bad,
                             .r = own->residual ? c->setup.vector[0] : NULL,
                             .g = g,
                             .n = (uint32_t)n,
                             .bits = own->bits,
                             .spoilt = own->spoilt};
    TG__GPU(cudaMemsetAsync(own->spoilt, 0, sizeof *own->spoilt, c->queue->stream));
    TG__GPU(tg__sign_encode(&p, c->queue->stream));
    TG__GPU(cudaMemcpyAsync(own->host.data, own->spoilt, sizeof *own->spoilt,
                            cudaMemcpyDeviceToHost, c->queue->stream));
    TG_TRY(tg__gpu_copy_out(c->queue, dst + TG__FRAME_HEAD, own->bits, bytes));
    TG_TRY(tg__gpu_finish(c->queue));
    if (tg__get32(own->host.data) != 0)
        return tg_fail(TG_E_NONFINITE, "sign: the vector holds infinity");
    tg__gpu_frame_head(dst, ID, TG__FORM_CODED, 0, n, bytes);
    coded->len = TG__FRAME_HEAD + bytes;
    coded->kept = n;
    return TG_OK;
}

static tg_status encode(tg_coder *c, const tg_encode_context *ctx, const float *g, void *dst,
                        size_t dst_cap, tg_coded *coded)
{
    const sign *own = c->impl;
    (void)ctx;
    (void)dst_cap;
    return (own->scaled ? encode_scaled : encode_plain)(c, g, dst, coded);
}

static tg_status decode(tg_queue *q, const uint8_t *host, const uint8_t *frame, size_t len,
                        float *x, size_t n, bool first, bool last, float share, uint64_t *spoilt)
{
    if (tg__get16(host + 2) == AUX_SCALED)
        return tg__strip_frame_sum(q, host, frame, len, TG__STRIP_ROWS, x, n, first, last, share,
                                   spoilt);
    TG__GPU(tg__sign_decode(frame + TG__FRAME_HEAD, x, n, first, last, share, spoilt, q->stream));
    return TG_OK;
}

const tg__coder_ops tg__coder_sign = {.codec = "sign",
                                      .impl_bytes = sizeof(sign),
                                      .init = init,
                                      .fini = fini,
                                      .encode = encode,
                                      .decode = decode};

/* fp16 and bf16, with feedback none or residual. */
#include "half.h"
#include "known_frame.h"
#include "wire/frame.h"
#include "telegrad/tools.h"

#include <string.h>

enum { ID_FP16 = 2, ID_BF16 = 3 };

static bool is_brain(const tg_coder *c)
{
    return strcmp(c->ops->codec, "bf16") == 0;
}

static tg_status init(tg_coder *c)
{
    if (strcmp(c->setup.feedback, "none") != 0 && strcmp(c->setup.feedback, "residual") != 0)
        return tg_fail(TG_E_UNSUPPORTED, "codec %s: feedback=%s: allowed: none, residual",
                       c->ops->codec, c->setup.feedback);
    return tg__known_frame_init(c->queue, c->impl, c->setup.n * sizeof(uint16_t), 0);
}

static void fini(tg_coder *c)
{
    tg__known_frame_fini(c->impl);
}

static tg_status encode(tg_coder *c, const tg_encode_context *ctx, const float *g, void *dst,
                        size_t dst_cap, tg_coded *coded)
{
    const tg__known_frame *f = c->impl;
    float *r = strcmp(c->setup.feedback, "none") == 0 ? NULL : c->setup.vector[0];
    (void)ctx;
    (void)dst_cap;
    TG_TRY(tg__known_frame_begin(c->queue, f));
    TG__GPU(tg__half_encode(is_brain(c), g, r, (uint16_t *)(void *)f->payload, c->setup.n, c->bad,
                            f->flags, c->queue->stream));
    return tg__known_frame_end(c, f, dst, is_brain(c) ? ID_BF16 : ID_FP16, 0, coded);
}

static tg_status decode(tg_queue *q, const uint8_t *host, const uint8_t *frame, size_t len,
                        float *x, size_t n, bool first, bool last, float share, uint64_t *spoilt)
{
    (void)len;
    TG__GPU(tg__half_decode(host[0] == ID_BF16, frame + TG__FRAME_HEAD, x, n, first, last, share,
                            spoilt, q->stream));
    return TG_OK;
}

#define HALF_OPS                                                                         \
    .impl_bytes = sizeof(tg__known_frame), .init = init, .fini = fini, .encode = encode, \
    .decode = decode

const tg__coder_ops tg__coder_fp16 = {.codec = "fp16", HALF_OPS};
const tg__coder_ops tg__coder_bf16 = {.codec = "bf16", HALF_OPS};

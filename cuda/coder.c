/* Coders: the table of families, and what all of them have in common. */
#include "cuda_impl.h"
#include "telegrad/tools.h"
#include "elementwise.h"
#include "wire/frame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const tg__coder_ops *ops;
    uint8_t id;
} families[] = {
#define TG__CODER(name, id) {&tg__coder_##name, (id)},
#include "coders.def"
#undef TG__CODER
};
enum { FAMILIES = sizeof families / sizeof *families };

const tg__coder_ops *tg__coder_find(const char *codec)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].ops->codec, codec) == 0)
            return families[i].ops;
    return NULL;
}

const tg__coder_ops *tg__coder_by_id(uint8_t wire_id)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (families[i].id == wire_id)
            return families[i].ops;
    return NULL;
}

bool tg__gpu_decodes(const char *codec)
{
    return tg__coder_find(codec) != NULL;
}

tg_status tg__coder_create(tg_queue *q, const tg_coder_setup *setup, tg_coder **c_p)
{
    const tg__coder_ops *ops = tg__coder_find(setup->codec);
    tg_coder *c;
    if (ops == NULL)
        return tg_fail(TG_E_UNSUPPORTED, "codec %s: the GPU has none", setup->codec);
    if (setup->struct_size < sizeof *setup)
        return tg_fail(TG_E_UNSUPPORTED, "this libtelegrad is older than libtelegrad-cuda");
    TG_TRY(tg_alloc(1, sizeof *c, &c));
    c->ops = ops;
    c->queue = q;
    c->setup = *setup;
    c->bad = &q->word[TG__GPU_BAD];
    TG__ON_DEVICE(q->device);
    tg_status status = TG_OK;
    if (ops->impl_bytes > 0)
        status = tg_alloc(ops->impl_bytes, 1, &c->impl);
    if (status == TG_OK)
        status = ops->init(c);
    if (status != TG_OK) {
        tg__coder_destroy(c);
        return status;
    }
    *c_p = c;
    return TG_OK;
}

void tg__coder_destroy(tg_coder *c)
{
    if (c == NULL)
        return;
    TG__ON_DEVICE(c->queue->device);
    (void)cudaStreamSynchronize(c->queue->stream);
    if (c->ops->fini != NULL && c->impl != NULL)
        c->ops->fini(c);
    tg__clip_free(c->clip);
    free(c->impl);
    free(c);
}

tg_status tg__coder_encode(tg_coder *c, const tg_encode_context *ctx, const float *g, void *dst,
                           size_t dst_cap, tg_coded *coded)
{
    static const tg_encode_context no_context = {.struct_size = sizeof no_context};
    tg_queue *q = c->queue;
    uint64_t *answer = q->answer.data;
    TG__ON_DEVICE(q->device);
    coded->bad = SIZE_MAX;
    TG__GPU(tg__gpu_first_above(q->stream, g, c->setup.n, 0x7f7fffffu, &q->word[TG__GPU_BAD]));
    TG__GPU(cudaMemcpyAsync(&answer[TG__GPU_BAD], &q->word[TG__GPU_BAD], sizeof *answer,
                            cudaMemcpyDeviceToHost, q->stream));
    const tg_status status =
        c->ops->encode(c, ctx != NULL ? ctx : &no_context, g, dst, dst_cap, coded);
    if (status != TG_OK && status != TG_E_NONFINITE) {
        (void)cudaStreamSynchronize(q->stream); /* copies may still use the caller's memory */
        return status;
    }
    if (answer[TG__GPU_BAD] < c->setup.n) {
        coded->bad = (size_t)answer[TG__GPU_BAD];
        return tg_fail(TG_E_NONFINITE, "element %zu of the gradient is not finite", coded->bad);
    }
    return status;
}

/* ---- f32, the model of the others ------------------------------------------------------------ */

static tg_status f32_init(tg_coder *c)
{
    if (strcmp(c->setup.feedback, "none") == 0)
        return TG_OK;
    return tg_fail(TG_E_UNSUPPORTED, "codec f32 with feedback=%s: it loses nothing",
                   c->setup.feedback);
}

static tg_status f32_encode(tg_coder *c, const tg_encode_context *ctx, const float *g, void *dst,
                            size_t dst_cap, tg_coded *coded)
{
    uint8_t *frame = dst;
    const size_t n = c->setup.n, bytes = n * sizeof(float);
    (void)ctx;
    (void)dst_cap;
    TG_TRY(tg__gpu_copy_out(c->queue, frame + TG__FRAME_HEAD, g, bytes));
    tg__gpu_frame_head(frame, 1, TG__FORM_DENSE, 0, n, bytes);
    coded->len = TG__FRAME_HEAD + bytes;
    coded->kept = n;
    return tg__gpu_finish(c->queue);
}

static tg_status f32_decode(tg_queue *q, const uint8_t *host, const uint8_t *frame, size_t len,
                            float *x, size_t n, bool first, bool last, float share,
                            uint64_t *spoilt)
{
    (void)q;
    (void)host;
    (void)frame;
    (void)len;
    (void)x;
    (void)n;
    (void)first;
    (void)last;
    (void)share;
    (void)spoilt;
    return tg_fail(TG_E_CORRUPT, "frame of codec f32: form 0: allowed: 1, 2");
}

const tg__coder_ops tg__coder_f32 = {
    .codec = "f32", .init = f32_init, .encode = f32_encode, .decode = f32_decode};

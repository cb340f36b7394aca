/* Frames whose length is known before they are encoded. */
#include "known_frame.h"
#include "wire/frame.h"

enum { FLAGS = 2, ALIGNED = 16, BEFORE = 16 /* bytes for the flags */ };

tg_status tg__known_frame_init(tg_queue *q, tg__known_frame *f, size_t len, size_t aligned)
{
    const size_t at = BEFORE + (ALIGNED - aligned % ALIGNED) % ALIGNED;
    f->answer.pinned = true;
    TG_TRY(tg__gpu_room(q, &f->device, at + len));
    TG_TRY(tg__gpu_room(q, &f->answer, FLAGS * sizeof *f->flags));
    f->flags = f->device.data;
    f->payload = (uint8_t *)f->device.data + at;
    f->len = len;
    return TG_OK;
}

void tg__known_frame_fini(tg__known_frame *f)
{
    tg__gpu_free(&f->device);
    tg__gpu_free(&f->answer);
}

tg_status tg__known_frame_begin(tg_queue *q, const tg__known_frame *f)
{
    TG__GPU(cudaMemsetAsync(f->flags, 0, FLAGS * sizeof *f->flags, q->stream));
    return TG_OK;
}

tg_status tg__known_frame_end(const tg_coder *c, const tg__known_frame *f, void *dst,
                              uint8_t wire_id, uint16_t aux, tg_coded *coded)
{
    tg_queue *q = c->queue;
    uint8_t *frame = dst;
    const size_t n = c->setup.n;
    const uint32_t *flags = f->answer.data;
    TG__GPU(cudaMemcpyAsync(f->answer.data, f->flags, FLAGS * sizeof *flags, cudaMemcpyDeviceToHost,
                            q->stream));
    TG_TRY(tg__gpu_copy_out(q, frame + TG__FRAME_HEAD, f->payload, f->len));
    TG_TRY(tg__gpu_finish(q));
    if (flags[1] != 0)
        return tg_fail(TG_E_NONFINITE, "%s: the vector holds infinity", c->ops->codec);
    const bool coded_form = flags[0] != 0;
    const size_t len = coded_form ? f->len : 0;
    tg__gpu_frame_head(frame, wire_id, coded_form ? TG__FORM_CODED : TG__FORM_ZERO,
                       coded_form ? aux : 0, n, len);
    coded->len = TG__FRAME_HEAD + len;
    coded->kept = coded_form ? n : 0;
    return TG_OK;
}

/* Sums of frames on the device. Frames are copied there whole, and decoded in rank order. */
#include "cuda_impl.h"
#include "elementwise.h"
#include "wire/frame.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

/* Where a frame is put: its payload is aligned to 16 bytes. */
#define BEFORE (16 - TG__FRAME_HEAD)

static size_t place_for(size_t len)
{
    return (BEFORE + len + 15) / 16 * 16;
}

void tg__gpu_frame_head(uint8_t *frame, uint8_t codec, uint8_t form, uint16_t aux, size_t n,
                        size_t payload_len)
{
    frame[0] = codec;
    frame[1] = form;
    tg__put16(frame + 2, aux);
    tg__put32(frame + 4, (uint32_t)n);
    tg__put32(frame + 8, (uint32_t)payload_len);
}

static tg_status add_frame(tg_queue *q, uint8_t form, const uint8_t *host, const uint8_t *frame,
                           size_t len, float *x, size_t n, bool first, bool last, float share,
                           uint64_t *spoilt)
{
    if (form == TG__FORM_CODED) {
        const tg__coder_ops *ops = tg__coder_by_id(host[0]);
        if (ops == NULL)
            return tg_fail(TG_E_UNSUPPORTED, "frame of codec id %u: the GPU has none", host[0]);
        return ops->decode(q, host, frame, len, x, n, first, last, share, spoilt);
    }
    if (form == TG__FORM_ZERO && !first && !last)
        return TG_OK;
    TG__GPU(tg__gpu_sum(
        q->stream, x,
        form == TG__FORM_ZERO ? NULL : (const float *)(const void *)(frame + TG__FRAME_HEAD), n,
        first, last, share, spoilt));
    return TG_OK;
}

/* Copy a frame to the device, unless it has nothing but a head. */
static tg_status send_frame(tg_queue *q, uint8_t form, const uint8_t *frame, size_t len, size_t at)
{
    if (form == TG__FORM_ZERO)
        return TG_OK;
    return tg__gpu_copy_in(q, (uint8_t *)q->frames.data + at, frame, len);
}

static tg_status decode_all(tg_queue *q, const uint8_t *const *frame, const size_t *len,
                            size_t count, float *x, size_t n, bool add, float share, bool *finite_p)
{
    const bool plain = count == 1 && !add && share == 1 && finite_p == NULL;
    uint64_t *answer = q->answer.data, *spoilt = plain ? NULL : &q->word[TG__GPU_SPOILT];
    size_t room = 0, at = BEFORE;
    for (size_t i = 0; i < count; i++)
        room += place_for(len[i]);
    TG_TRY(tg__gpu_room(q, &q->frames, room));
    TG__GPU(cudaMemsetAsync(&q->word[TG__GPU_SPOILT], 0, sizeof *answer, q->stream));
    for (size_t i = 0; i < count; i++) {
        const bool first = i == 0 && !add, last = i + 1 == count;
        const uint8_t form = frame[i][1];
        TG_TRY(send_frame(q, form, frame[i], len[i], at));
        TG_TRY(add_frame(q, form, frame[i], (const uint8_t *)q->frames.data + at, len[i], x, n,
                         first, last, share, spoilt));
        at += place_for(len[i]);
    }
    if (count == 0 && !add)
        TG__GPU(cudaMemsetAsync(x, 0, n * sizeof *x, q->stream));
    TG__GPU(cudaMemcpyAsync(&answer[TG__GPU_SPOILT], &q->word[TG__GPU_SPOILT], sizeof *answer,
                            cudaMemcpyDeviceToHost, q->stream));
    TG_TRY(tg__gpu_finish(q));
    if (finite_p != NULL)
        *finite_p = answer[TG__GPU_SPOILT] == 0;
    return TG_OK;
}

tg_status tg__gpu_decode(tg_queue *q, const uint8_t *const *frame, const size_t *len, size_t count,
                         float *x, size_t n, bool add, float share, bool *finite_p)
{
    TG__ON_DEVICE(q->device);
    const tg_status status = decode_all(q, frame, len, count, x, n, add, share, finite_p);
    if (status != TG_OK) /* copies may still read the caller's memory */
        (void)cudaStreamSynchronize(q->stream);
    return status;
}

/* Decodes frames: the whole frame is validated before anything is written. */
#include "base/floats.h"
#include "base/mem.h"
#include "base/arg.h"
#include "codec/array.h"
#include "codec/codec_impl.h"
#include "codec/on_gpu.h"
#include "kernel/parallel.h"
#include <stdatomic.h>
#include <string.h>

/* The frame with the number of elements stated in it. It has been checked. */
static tg__frame checked(const uint8_t *frame, size_t len)
{
    return (tg__frame){.codec = frame[0],
                       .form = frame[1],
                       .aux = tg__get16(frame + 2),
                       .n = tg__get32(frame + 4),
                       .payload = frame + TG__FRAME_HEAD,
                       .payload_len = len - TG__FRAME_HEAD};
}

static tg_status unknown_codec(uint8_t id)
{
    size_t count;
    const tg__codec_ops *const *all = tg__codecs(&count);
    char known[256] = "";
    for (size_t i = 0, at = 0; i < count && at + 32 < sizeof(known); i++) {
        const char *name = all[i]->entry.name;
        size_t len = strlen(name);
        if (len > 24)
            continue;
        if (at > 0)
            known[at++] = ' ';
        memcpy(known + at, name, len + 1);
        at += len;
    }
    return tg_fail(TG_E_CORRUPT, "frame: codec id=%u: this build knows those of: %s", id, known);
}

tg_status tg__frame_check(const uint8_t *frame, size_t len, size_t n, int want)
{
    tg__frame f;
    TG_TRY(tg__frame_split(frame, len, n, &f));
    const tg__codec_ops *ops = tg__codec_by_id(f.codec);
    if (!ops)
        return unknown_codec(f.codec);
    if (want >= 0 && f.codec != want)
        return tg_fail(TG_E_MISMATCH, "frame: codec id=%u (%s): expected %d", f.codec,
                       ops->entry.name, want);
    return f.form == TG__FORM_CODED ? ops->check(&f) : TG_OK;
}

/* Decoding shared by the cores of a pool. */
typedef struct job {
    tg__frame f;
    float *dst;
    bool add;
    atomic_bool *spoilt; /* [out] some element is not finite; NULL: not wanted */
} job;

static void decode_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    const uint8_t *payload = j->f.payload + lo * sizeof(float);
    if (j->f.form == TG__FORM_CODED)
        tg__codec_by_id(j->f.codec)->decode(&j->f, lo, hi, j->dst, j->add);
    else if (j->f.form == TG__FORM_DENSE)
        (j->add ? tg__floats_add : tg__floats_get)(j->dst + lo, payload, hi - lo);
    else if (!j->add)
        memset(j->dst + lo, 0, (hi - lo) * sizeof(*j->dst));
}

/* Work in small pieces, so that the check finds each one in the cache. */
static void decode_and_look(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    decode_range(arg, lo, hi);
    if (j->f.form != TG__FORM_ZERO && !tg__kernel()->all_finite(j->dst + lo, hi - lo))
        atomic_store(j->spoilt, true);
}

static void decode(const uint8_t *frame, size_t len, float *dst, bool add, tg__pool *pool,
                   atomic_bool *spoilt)
{
    job j = {.f = checked(frame, len), .dst = dst, .add = add, .spoilt = spoilt};
    if (j.f.n == 0) /* dst may be NULL */
        return;
    if (j.f.form == TG__FORM_CODED && tg__codec_by_id(j.f.codec)->properties & TG__WHOLE) {
        decode_range(&j, 0, j.f.n);
        if (spoilt != NULL && !tg__parallel_finite(pool, dst, j.f.n))
            atomic_store(spoilt, true);
    } else
        tg__pool_chunks(pool, j.f.n, TG__CHUNK, spoilt ? decode_and_look : decode_range, &j);
}

void tg__frame_decode(const uint8_t *frame, size_t len, float *dst, tg__pool *pool)
{
    decode(frame, len, dst, false, pool, NULL);
}

bool tg__frame_decode_finite(const uint8_t *frame, size_t len, float *dst, tg__pool *pool)
{
    atomic_bool spoilt = false;
    decode(frame, len, dst, false, pool, &spoilt);
    return !spoilt;
}

void tg__frame_decode_add(const uint8_t *frame, size_t len, float *dst, tg__pool *pool)
{
    decode(frame, len, dst, true, pool, NULL);
}

static tg_status check_public(const char *call, const void *frame, size_t len, const tg_array *x)
{
    TG_TRY(tg__array_check(call, x));
    if (x->memory == TG_HOST && tg__overlap(frame, len, x->data, x->n * sizeof(float)))
        return tg_fail(TG_E_ARG, "%s: x->data=%p overlaps frame=%p: allowed: memory of its own",
                       call, x->data, frame);
    return tg__frame_check(frame, len, x->n, -1);
}

tg_status tg_frame_decode(const void *frame, size_t len, tg_array *x)
{
    TG__OWN_FLOATS;
    TG__ARGS(frame, x);
    TG_TRY(check_public(__func__, frame, len, x));
    if (x->memory == TG_CUDA)
        return tg__device_decode(frame, len, x, false);
    tg__frame_decode(frame, len, x->data, NULL);
    return TG_OK;
}

tg_status tg_frame_decode_add(const void *frame, size_t len, tg_array *x)
{
    TG__OWN_FLOATS;
    TG__ARGS(frame, x);
    TG_TRY(check_public(__func__, frame, len, x));
    if (x->memory == TG_CUDA)
        return tg__device_decode(frame, len, x, true);
    tg__frame_decode_add(frame, len, x->data, NULL);
    return TG_OK;
}

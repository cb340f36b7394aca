/* f32: the vector itself, in dense frames. Payloads may be summed without decoding. */
#include "codec/codec_impl.h"
#include "kernel/kernel.h"

/* One part's copy, shared by the cores of a pool. */
typedef struct job {
    uint8_t *payload;
    const float *x;
} job;

static void put_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    tg__floats_put(j->payload + lo * sizeof(float), j->x + lo, hi - lo);
}

static tg_status encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p)
{
    (void)ctx;
    for (size_t i = 0; i < nparts; i++) {
        size_t m = parts[i].hi - parts[i].lo;
        TG_TRY(tg__part_room(&parts[i], tg__codec_bound(c, m)));
        job j = {.payload = parts[i].dst + TG__FRAME_HEAD, .x = x + parts[i].lo};
        tg__pool_chunks(c->pool, m, TG__CHUNK, put_range, &j);
        tg__part_dense_placed(&parts[i], TG__ID_f32);
    }
    if (view_p)
        *view_p = (tg__view){.sparse = false, .dense = x, .k = n};
    return TG_OK;
}

/* Only the dense form is ever written. */
static tg_status check(const tg__frame *f)
{
    return tg_fail(TG_E_CORRUPT, "f32 frame: form=%u: allowed: 1, 2", f->form);
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    (add ? tg__floats_add : tg__floats_get)(dst + lo, f->payload + lo * sizeof(float), hi - lo);
}

const tg__codec_ops tg__codec_f32 = {
    .entry = {"f32", "no compression", "", NULL},
    .wire_id = TG__ID_f32,
    .properties = TG__LINEAR | TG__LOSSLESS,
    .encode = encode,
    .check = check,
    .decode = decode,
};

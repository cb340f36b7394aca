/* Source: Tang et al. 2019, DoubleSqueeze, arXiv:1905.05957, alg. 1; Seide et al. 2014, 1-bit
 * stochastic gradient descent, Interspeech, sec. 3.2 */
#include "server/recoder.h"
#include "base/mem.h"
#include "kernel/parallel.h"
#include "method/method.h"
#include "server/gathering.h"
#include <stdlib.h>
#include <string.h>

struct tg__recoder {
    uint16_t channel, bucket;
    uint64_t begin;
    size_t n;
    tg_codec *codec;
    tg_segment *segments; /* (nsegments) */
    size_t nsegments;
    float *memory; /* the codec's; NULL: it has none */
    tg_rng_key rng;
    double density;
    bool rests;    /* in this step it sends zeros */
    float *r;      /* (n) the residual */
    float *before; /* (n) that before the last answer */
    uint8_t *said; /* (said_len) the coding of the sum that is gathered */
    size_t said_len;
    const tg__gathering *busy; /* NULL: no sum is gathered */
    tg__recoder *next;
};

static void release(tg__recoder *r)
{
    tg_codec_destroy(r->codec);
    free(r->segments);
    free(r->memory);
    free(r->r);
    free(r->before);
    r->codec = NULL;
    r->segments = NULL;
    r->memory = r->r = r->before = NULL;
}

static tg_status begin(tg__recoder *r, const tg__gathering *g, const tg__coding *c)
{
    release(r);
    r->n = g->n;
    r->rng = c->rng;
    r->nsegments = c->nsegments;
    TG_TRY(tg_codec_create(c->spec, &r->codec));
    if (r->codec->ops->wire_id != g->codec)
        return tg_fail(TG_E_CORRUPT, "answers in codec %s to frames of codec %s",
                       r->codec->ops->entry.name, tg__codec_by_id(g->codec)->entry.name);
    TG_TRY(tg_alloc(c->nsegments, sizeof *r->segments, &r->segments));
    tg__coding_segments(c, r->segments);
    const size_t memory = c->nsegments * tg_codec_memory(r->codec);
    if (memory > 0)
        TG_TRY(tg_alloc(memory, sizeof *r->memory, &r->memory));
    TG_TRY(tg_alloc(r->n, sizeof *r->before, &r->before));
    return tg_alloc(r->n, sizeof *r->r, &r->r);
}

/* Restore the residual from before an answer that no rank has applied. */
static void take_back(tg__recoder *r)
{
    const size_t bytes = r->n * sizeof *r->r;
    if (r->n == 0)
        return;
    memcpy(r->r, r->before, bytes);
    if (!tg__state_strays(r->r, r->n, NULL))
        return;
    memset(r->r, 0, bytes); /* otherwise the following steps would overflow as well */
    if (r->memory != NULL)
        memset(r->memory, 0, r->nsegments * tg_codec_memory(r->codec) * sizeof *r->memory);
}

static tg_status note_said(tg__recoder *r, const uint8_t *coding, size_t len)
{
    free(r->said);
    r->said = NULL;
    TG_TRY(tg_alloc(len, 1, &r->said));
    memcpy(r->said, coding, len);
    r->said_len = len;
    return TG_OK;
}

static tg_status open(tg__recoder *r, const tg__gathering *g, const uint8_t *coding)
{
    const bool first = (g->star.flags & TG__STAR_FIRST) != 0;
    tg__coding c;
    if (r->busy != NULL)
        return tg_fail(TG_E_CORRUPT, "a gradient of bucket %u came before the last one's answer",
                       g->id.bucket);
    TG_TRY(tg__coding_read(coding, g->star.coding, first, g->n, &c));
    if (first)
        TG_TRY(begin(r, g, &c));
    if (r->r == NULL || r->n != g->n)
        return tg_fail(TG_E_CORRUPT,
                       "%zu elements of bucket %u, whose answers' coding was not sent: it is for "
                       "%zu elements",
                       g->n, g->id.bucket, r->r == NULL ? 0 : r->n);
    if (!first && (g->star.flags & TG__STAR_DROPPED) != 0)
        take_back(r);
    r->density = c.density;
    r->rests = !(c.factor > 0);
    if (!r->rests && c.factor != 1)
        tg__kernel()->scale(r->r, (float)c.factor, r->n);
    return note_said(r, coding, g->star.coding);
}

tg_status tg__recoder_open(tg__recoder **list, tg__gathering *g, const uint8_t *coding)
{
    tg__recoder *r = *list;
    while (r != NULL && (r->channel != g->id.channel || r->bucket != g->id.bucket ||
                         r->begin != g->star.begin || r->n != g->n))
        r = r->next;
    if (r == NULL) {
        TG_TRY(tg_alloc(1, sizeof *r, &r));
        r->channel = g->id.channel;
        r->bucket = g->id.bucket;
        r->begin = g->star.begin;
        r->n = g->n;
        r->next = *list;
        *list = r;
    }
    TG_TRY(open(r, g, coding));
    r->busy = g;
    g->recoder = r;
    return TG_OK;
}

tg_status tg__recoder_compare(const tg__recoder *r, const uint8_t *coding, size_t len)
{
    if (len == r->said_len && memcmp(coding, r->said, len) == 0)
        return TG_OK;
    return tg_fail(TG_E_MISMATCH, "another coding of answers than that of other ranks");
}

size_t tg__recoder_room(const tg__recoder *r)
{
    return TG__MAX(tg__codec_bound(r->codec, r->n), TG__F32_BYTES(r->n));
}

static tg_status encode(tg__recoder *r, const tg__gathering *g, tg__part *part)
{
    tg_encode_context ctx = {.struct_size = sizeof ctx,
                             .rng = r->rng,
                             .density = r->density,
                             .segments = r->segments,
                             .nsegments = r->nsegments,
                             .gradient = tg__gathering_values(g),
                             .memory = r->memory};
    tg__view view = {0};
    ctx.rng.step = g->id.step;
    TG_TRY(tg__codec_encode(r->codec, &ctx, r->r, r->n, part, 1, &view));
    for (size_t i = 0; view.sparse && i < view.k; i++)
        r->r[view.idx[i]] -= view.val[i];
    if (!view.sparse)
        tg__kernel()->sub(r->r, view.dense, r->n);
    return TG_OK;
}

tg_status tg__recoder_code(tg__recoder *r, tg__gathering *g, uint8_t *frame, size_t room,
                           size_t *len_p)
{
    tg__part part = {.dst = frame, .cap = room, .lo = 0, .hi = r->n};
    bool zeros = r->rests || r->n == 0 || (g->flags & TG__FLAG_NONFINITE) != 0;
    if (r->n > 0)
        memcpy(r->before, r->r, r->n * sizeof *r->r);
    if (!zeros && !tg__parallel_add_finite(NULL, r->r, tg__gathering_values(g), r->n)) {
        memcpy(r->r, r->before, r->n * sizeof *r->r);
        g->flags |= TG__FLAG_NONFINITE;
        zeros = true;
    }
    if (zeros)
        tg__part_zero(&part, r->codec->ops->wire_id);
    else
        TG_TRY(encode(r, g, &part));
    *len_p = part.len;
    r->busy = NULL;
    return TG_OK;
}

void tg__recoder_leave(tg__recoder *r, const tg__gathering *g)
{
    if (r != NULL && r->busy == g)
        r->busy = NULL;
}

void tg__recoders_free(tg__recoder *list)
{
    while (list != NULL) {
        tg__recoder *r = list;
        list = r->next;
        release(r);
        free(r->said);
        free(r);
    }
}

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
    tg__coder coder;
    double density;
    double factor; /* that the residual was multiplied by when it was opened */
    bool rests;    /* in this step it sends zeros */
    bool fresh;    /* nothing was coded yet */
    float *r;      /* (n) the residual */
    float *before; /* (n) that before the last answer */
    uint8_t *said; /* (said_len) the coding of the sum that is gathered */
    size_t said_len;
    const tg__gathering *busy; /* NULL: no sum is gathered */
    tg__recoder *next;
};

static void release(tg__recoder *r)
{
    tg__coder_release(&r->coder);
    free(r->r);
    free(r->before);
    r->r = r->before = NULL;
}

static tg_status begin(tg__recoder *r, const tg__gathering *g, const tg__coding *c)
{
    release(r);
    r->n = g->n;
    TG_TRY(tg__coder_begin(&r->coder, g->n, g->codec, c));
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
    if (r->coder.memory != NULL)
        memset(r->coder.memory, 0, tg__coder_memory(&r->coder) * sizeof *r->coder.memory);
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

static void scale(tg__recoder *r)
{
    if (!r->rests && r->factor != 1)
        tg__kernel()->scale(r->r, (float)r->factor, r->n);
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
    r->factor = c.factor;
    scale(r);
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
        r->fresh = true;
        r->next = *list;
        *list = r;
    }
    TG_TRY(open(r, g, coding));
    r->busy = g;
    g->recoder = r;
    return TG_OK;
}

/* ---- checkpoints ----------------------------------------------------------------------------- */

static tg__kept_key key_of(const tg__recoder *r, uint16_t kind)
{
    return (tg__kept_key){r->channel, r->bucket, kind, 0};
}

void tg__recoder_restore(tg__recoder *r, tg__kept *kept, const tg__gathering *g)
{
    if (!r->fresh)
        return;
    r->fresh = false;
    if (r->n == 0 || !tg__kept_take(kept, key_of(r, TG__KEPT_RESIDUAL), r->begin, r->n, r->r))
        return;
    (void)tg__kept_take(kept, key_of(r, TG__KEPT_BEFORE), r->begin, r->n, r->before);
    tg__coder_restore(&r->coder, kept, key_of(r, TG__KEPT_MEMORY), r->begin);
    if ((g->star.flags & TG__STAR_DROPPED) != 0)
        take_back(r);
    scale(r);
}

tg_status tg__recoders_keep(const tg__recoder *list, tg__kept_writer *w)
{
    for (const tg__recoder *r = list; r != NULL; r = r->next) {
        if (r->r == NULL || r->channel != w->channel)
            continue;
        TG_TRY(tg__kept_put(
            w, &(tg__piece){key_of(r, TG__KEPT_RESIDUAL), r->begin, r->n, 1, 0, NULL, r->r}));
        TG_TRY(tg__kept_put(
            w, &(tg__piece){key_of(r, TG__KEPT_BEFORE), r->begin, r->n, 1, 0, NULL, r->before}));
        TG_TRY(tg__coder_keep(&r->coder, key_of(r, TG__KEPT_MEMORY), r->begin, w));
    }
    return TG_OK;
}

bool tg__recoders_any(const tg__recoder *list, uint16_t channel)
{
    while (list != NULL && list->channel != channel)
        list = list->next;
    return list != NULL;
}

/* ---- coding ---------------------------------------------------------------------------------- */

tg_status tg__recoder_compare(const tg__recoder *r, const uint8_t *coding, size_t len)
{
    if (len == r->said_len && memcmp(coding, r->said, len) == 0)
        return TG_OK;
    return tg_fail(TG_E_MISMATCH, "another coding of answers than that of other ranks");
}

size_t tg__recoder_room(const tg__recoder *r)
{
    return tg__coder_room(&r->coder);
}

static tg_status encode(tg__recoder *r, const tg__gathering *g, tg__part *part)
{
    tg__view view = {0};
    TG_TRY(tg__coder_encode(&r->coder, g->id.step, r->density, r->r, tg__gathering_values(g), part,
                            &view));
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
        tg__part_zero(&part, r->coder.codec->ops->wire_id);
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

#include "server/gathering.h"
#include "base/mem.h"
#include "exchange/star_state.h"
#include <stdlib.h>
#include <string.h>

/* The frame of a rank's payload. */
static const uint8_t *frame_of(const uint8_t *payload)
{
    return payload + TG__STAR_HEAD;
}

float *tg__gathering_values(const tg__gathering *g)
{
    return tg__f32_values(g->answer + TG__ENVELOPE_BYTES);
}

tg_status tg__gathering_begin(tg__gathering *g, uint32_t tag, const tg__envelope *id,
                              const uint8_t *payload, size_t len)
{
    TG_TRY(tg__star_read(payload, &g->star));
    const uint8_t *frame = frame_of(payload);
    const size_t n = tg__get32(frame + 4);
    if (n > TG_MAX_ELEMENTS)
        return tg_fail(TG_E_CORRUPT, "a frame of %zu elements: allowed: at most %zu", n,
                       TG_MAX_ELEMENTS);
    size_t frame_len;
    TG_TRY(tg__star_frame(payload, len, &g->star, &frame_len, NULL));
    TG_TRY(tg__frame_check(frame, frame_len, n, -1));
    g->tag = tag;
    g->id = *id;
    g->codec = frame[0];
    g->form = frame[1];
    g->n = n;
    g->flags = 0;
    g->only = -1;
    g->next = g->sending = 0;
    g->held = g->again = g->first = g->alone = g->anew = g->waits = g->gone = g->late = false;
    g->read = false;
    g->region = NULL;
    g->round = NULL;
    g->robust = NULL;
    g->recoder = NULL;
    g->coding = NULL;
    g->tensors = NULL;
    g->coded_len = 0;
    g->given = 0;
    return TG_OK;
}

tg_status tg__gathering_keep_coding(tg__gathering *g, const uint8_t *coding)
{
    TG_TRY(tg_alloc(g->star.coding, 1, &g->coding));
    memcpy(g->coding, coding, g->star.coding);
    return TG_OK;
}

tg_status tg__gathering_allocate(tg__gathering *g, tg__store *store)
{
    TG_TRY(tg__store_take(store, TG__ENVELOPE_BYTES + TG__F32_BYTES(g->n) + TG__STAR_TAIL,
                          &g->answer));
    memset(tg__gathering_values(g), 0, g->n * sizeof(float));
    return TG_OK;
}

static void add_one(tg__gathering *g, tg__store *store, int rank)
{
    tg__pushed *p = &g->rank[rank];
    g->star.combine->add(tg__gathering_values(g), g->n, frame_of(p->msg + TG__ENVELOPE_BYTES),
                         p->len, NULL);
    tg__store_give(store, p->msg);
    p->msg = NULL;
}

/* Add what has arrived, in rank order; with a robust rule, see whether all has. */
static void advance(tg__gathering *g, tg__store *store, int ranks)
{
    if (g->waits) {
        g->next = ranks;
        return;
    }
    if (g->robust != NULL) {
        int here = 0;
        while (here < ranks && g->rank[here].msg != NULL)
            here++;
        g->next = here == ranks ? ranks : 0;
        return;
    }
    if (g->only >= 0) {
        add_one(g, store, g->only);
        g->next = ranks;
    }
    for (; g->next < ranks && g->rank[g->next].msg != NULL; g->next++)
        add_one(g, store, g->next);
}

/* All ranks must say the same of a sum. */
static tg_status compare(const tg__gathering *g, const tg__star *star)
{
    if (star->combine != g->star.combine)
        return tg_fail(TG_E_MISMATCH, "combine=%s: expected %s, as of rank %u", star->combine->name,
                       g->star.combine->name, g->id.sender);
    if (star->begin != g->star.begin || star->flags != g->star.flags)
        return tg_fail(TG_E_MISMATCH, "element %llu, flags %#x: expected %llu, %#x, as of rank %u",
                       (unsigned long long)star->begin, star->flags,
                       (unsigned long long)g->star.begin, g->star.flags, g->id.sender);
    if (star->rate > g->star.rate || star->rate < g->star.rate)
        return tg_fail(TG_E_MISMATCH, "learning rate %.9g: expected %.9g, as of rank %u",
                       star->rate, g->star.rate, g->id.sender);
    return TG_OK;
}

tg_status tg__gathering_add(tg__gathering *g, tg__store *store, int ranks, int rank, uint8_t *msg,
                            size_t len, uint16_t flags)
{
    const uint8_t *payload = msg + TG__ENVELOPE_BYTES;
    tg__star star;
    TG_TRY(tg__star_read(payload, &star));
    TG_TRY(compare(g, &star));
    if (g->rank[rank].msg != NULL || rank < g->next)
        return tg_fail(TG_E_CORRUPT, "the same message came twice");
    size_t frame_len;
    TG_TRY(tg__star_frame(payload, len, &star, &frame_len, NULL));
    TG_TRY(tg__frame_check(frame_of(payload), frame_len, g->n, g->codec));
    const uint8_t *coding = frame_of(payload) + frame_len;
    if (g->recoder != NULL)
        TG_TRY(tg__recoder_compare(g->recoder, coding, star.coding));
    if (g->coding != NULL &&
        (star.coding != g->star.coding || memcmp(coding, g->coding, star.coding) != 0))
        return tg_fail(TG_E_MISMATCH, "another coding of answers than that of other ranks");
    g->rank[rank].msg = msg;
    g->rank[rank].len = frame_len;
    g->rank[rank].whole = TG__ENVELOPE_BYTES + len;
    g->rank[rank].flagged = (flags & TG__FLAG_NONFINITE) != 0;
    g->flags |= flags;
    advance(g, store, ranks);
    return TG_OK;
}

bool tg__gathering_has_gradients(const tg__gathering *g)
{
    return g->star.combine != &tg__combine_parameters && g->star.combine != &tg__combine_state;
}

tg__robust_frame tg__gathering_frame(const tg__gathering *g, int rank)
{
    const tg__pushed *p = &g->rank[rank];
    return (tg__robust_frame){frame_of(p->msg + TG__ENVELOPE_BYTES), p->len, p->flagged, rank};
}

static tg_status combine(tg__gathering *g, tg__store *store, int ranks)
{
    tg__robust_frame *in TG__FREED = NULL;
    float *last;
    bool formed;
    TG_TRY(tg_alloc((size_t)ranks, sizeof *in, &in));
    TG_TRY(tg__robust_last_of(g->robust, &g->id, g->star.begin, g->n, &last));
    for (int rank = 0; rank < ranks; rank++)
        in[rank] = tg__gathering_frame(g, rank);
    TG_TRY(tg__robust_combine(g->robust, in, ranks, g->n, last, tg__gathering_values(g), &formed));
    g->flags &= (uint16_t)~TG__FLAG_NONFINITE;
    if (!formed)
        g->flags |= TG__FLAG_NONFINITE;
    for (int rank = 0; rank < ranks; rank++) {
        tg__store_give(store, g->rank[rank].msg);
        g->rank[rank].msg = NULL;
    }
    return TG_OK;
}

tg_status tg__gathering_finish(tg__gathering *g, tg__store *store, int ranks)
{
    if (g->robust != NULL)
        return combine(g, store, ranks);
    if (g->star.combine->finish != NULL)
        g->star.combine->finish(tg__gathering_values(g), g->n, g->only >= 0 ? 1 : ranks);
    return TG_OK;
}

void tg__gathering_code(tg__gathering *g, const uint8_t *frame, size_t len, uint64_t number)
{
    memcpy(g->answer + TG__ENVELOPE_BYTES, frame, len);
    g->coded_len = len;
    g->given = number;
}

/* Behind the frame: what the worker must know. Returns its length. */
static size_t put_tail(const tg__gathering *g, uint8_t *at, uint64_t step)
{
    if (g->coding != NULL) {
        tg__star_put_tail(at, &(tg__star_tail){g->coded_len > 0 ? TG__STAR_CHANGE
                                               : g->late        ? TG__STAR_LATE
                                                                : TG__STAR_WHOLE,
                                               g->given, g->late ? step : 0});
        return TG__STAR_TAIL;
    }
    if (g->star.combine != &tg__combine_parameters && !g->late)
        return 0;
    tg__put64(at, step);
    return TG__STAR_STEP;
}

size_t tg__gathering_seal(tg__gathering *g, int sender, uint64_t step)
{
    size_t len =
        g->coded_len > 0 ? g->coded_len : tg__f32_frame(g->answer + TG__ENVELOPE_BYTES, g->n);
    len += put_tail(g, g->answer + TG__ENVELOPE_BYTES + len, step);
    tg__envelope e = g->id;
    e.sender = (uint32_t)sender;
    e.flags = g->flags;
    e.round += TG__STAR_PULL;
    tg__envelope_seal(g->answer, &e, len);
    return TG__ENVELOPE_BYTES + len;
}

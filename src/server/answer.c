/* Answers: sums, or the parameters that this server keeps. */
#include "base/mem.h"
#include "exchange/star_state.h"
#include "kernel/kernel.h"
#include "server/round.h"
#include "server/snapshot.h"
#include "server/tensors.h"
#include "telegrad/clock.h"
#include <stdlib.h>
#include <string.h>

tg_status tg__gathering_new(tg_server *s, tg__gathering **g_p)
{
    tg__gathering *g = s->idle;
    if (g != NULL)
        s->idle = g->link;
    else
        TG_TRY(tg_alloc(1, sizeof *g + (size_t)s->ranks * sizeof g->rank[0], &g));
    g->link = s->active;
    g->next = g->sending = 0;
    g->held = false;
    g->from_ns = tg_now_ns(s->t->clock);
    s->active = g;
    *g_p = g;
    return TG_OK;
}

void tg__gathering_free_answer(tg_server *s, tg__gathering *g)
{
    if (g->only >= 0 && g->answer != NULL)
        s->in[g->only].owed -= TG__F32_BYTES(g->n);
    tg__store_give(&s->store, g->answer);
    g->answer = NULL;
}

void tg__gathering_end(tg_server *s, tg__gathering *g)
{
    tg__gathering **link = &s->active;
    while (*link != g)
        link = &(*link)->link;
    *link = g->link;
    if (g->only >= 0) { /* a frame that waited in a round */
        tg__store_give(&s->store, g->rank[g->only].msg);
        g->rank[g->only].msg = NULL;
    }
    tg__gathering_free_answer(s, g);
    tg__recoder_leave(g->recoder, g);
    free(g->coding);
    free(g->tensors);
    g->coding = NULL;
    g->tensors = NULL;
    g->link = s->idle;
    s->idle = g;
}

/* ---- answering ------------------------------------------------------------------------------- */

/* A rank that has left needs no answer. */
static tg_status answer_one(tg_server *s, tg__gathering *g, int rank, size_t len)
{
    tg__pushed *p = &g->rank[rank];
    if (tg__has_left(s, rank))
        return TG_OK;
    const tg_status status = s->t->ops->post_send(
        s->t, tg__server_peer(s, rank), tg__answer_tag(g->tag), g->answer, len, &p->answer);
    if (status == TG_E_PEER)
        return TG_OK;
    TG_TRY(status);
    p->open = true;
    g->sending++;
    s->stats.bytes_out += len;
    if (tg__gathering_has_gradients(g) && !g->again) {
        s->stats.answer_elements += g->n;
        s->stats.answer_bytes += len;
    }
    return TG_OK;
}

void tg__gathering_read(tg__gathering *g)
{
    tg__region *r = g->region;
    const tg__sent *sent = tg__region_sent(r, g->only);
    g->read = true;
    tg__region_read(r, g->only, (size_t)g->star.begin, tg__gathering_values(g), g->n);
    g->given = sent == NULL ? 0 : sent->number;
    if (g->only >= 0)
        r->rank[g->only].has |= tg__slice_bits(r, g->id.slice, g->n);
}

/* After the gradients of g: code what its ranks lack. */
static tg_status send_region(tg__gathering *g)
{
    tg__region *r = g->region;
    const bool dropped = (g->flags & TG__FLAG_NONFINITE) != 0;
    TG_TRY(tg__region_send(r, g->only, &g->star, g->n, g->codec, g->id.step, g->coding, dropped));
    if (r->frame_len > 0)
        tg__gathering_code(g, r->frame, r->frame_len, tg__region_sent(r, g->only)->number);
    return TG_OK;
}

/* The same of a rank that has something of its own, when it is answered. If its answer was lost, it
 * lacks that. */
static tg_status send_to_one(tg__gathering *g)
{
    const tg__pace_of *p = g->coding == NULL || g->only < 0 ? NULL : &g->region->rank[g->only];
    if (p == NULL || p->sent == NULL || p->has != UINT64_MAX || g->again)
        return TG_OK;
    tg__region_answered(g->region, g->only, g->star.begin);
    return send_region(g);
}

tg_status tg__gathering_answer(tg_server *s, tg__gathering *g)
{
    if (g->region != NULL && s->journal.dir != NULL && s->mode.compensate > 0)
        TG_TRY(tg__gathering_note_answer(s, g));
    TG_TRY(send_to_one(g));
    if (g->region != NULL && g->coded_len == 0 && !g->read)
        tg__gathering_read(g);
    uint64_t step = g->late ? g->told : s->hosts && g->only >= 0 ? s->in[g->only].base : 0;
    if (g->star.combine == &tg__combine_parameters)
        step |= (uint64_t)tg__clocks_age(s) << TG__STAR_AGE_AT;
    const size_t len = tg__gathering_seal(g, s->hosts ? 1 + s->shard : s->t->rank, step);
    for (int rank = 0; rank < s->ranks; rank++)
        if (g->only < 0 || g->only == rank)
            TG_TRY(answer_one(s, g, rank, len));
    s->stats.sums++;
    s->stats.step = TG__MAX(s->stats.step, g->id.step);
    if (g->sending == 0)
        tg__gathering_end(s, g);
    return TG_OK;
}

tg_status tg__answers_progress(tg_server *s, bool *any_p)
{
    for (tg__gathering *g = s->active, *next; g != NULL; g = next) {
        next = g->link;
        if (g->sending == 0)
            continue;
        const int from = g->only < 0 ? 0 : g->only, to = g->only < 0 ? s->ranks : g->only + 1;
        for (int rank = from; rank < to; rank++) {
            tg__pushed *p = &g->rank[rank];
            bool done = false;
            size_t len;
            if (!p->open)
                continue;
            const tg_status status = s->t->ops->test(s->t, &p->answer, &done, &len);
            if (status != TG_OK && status != TG_E_PEER)
                return status;
            if (status == TG_OK && !done)
                continue;
            p->open = false;
            g->sending--;
            *any_p = true;
        }
        if (g->sending == 0)
            tg__gathering_end(s, g);
    }
    return TG_OK;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static tg_status place(tg_server *s, tg__gathering *g)
{
    const bool begins = g->star.combine == &tg__combine_parameters;
    tg__region *r = tg__region_find(s->regions, &g->id);
    if (!s->mode.keeps ||
        (!begins && g->star.combine != &tg__combine_mean && g->star.combine != &tg__combine_vote))
        return begins ? tg_fail(TG_E_MISMATCH,
                                "parameters came, but this server only sums: its "
                                "mode is %s",
                                tg_spec_name(s->mode.spec))
                      : TG_OK;
    if (begins && g->form != TG__FORM_DENSE)
        return tg_fail(TG_E_CORRUPT, "parameters of bucket %u in a coded frame: allowed: f32",
                       g->id.bucket);
    if (r == NULL && begins && s->founded)
        return tg_fail(TG_E_MISMATCH,
                       "parameters of bucket %u, which the model that is trained here does not "
                       "have",
                       g->id.bucket);
    if (r == NULL && !begins)
        return tg_fail(TG_E_MISMATCH, "a gradient of bucket %u came before its parameters",
                       g->id.bucket);
    if (r != NULL &&
        (g->star.begin < r->lo || g->star.begin + g->n > r->lo + r->n || (begins && g->n != r->n)))
        return tg_fail(TG_E_MISMATCH,
                       "elements %llu to %llu of bucket %u: this server has %zu to %zu: it keeps "
                       "another model "
                       "(the first worker's, or its journal's), or this worker calls another "
                       "number of servers",
                       (unsigned long long)g->star.begin,
                       (unsigned long long)(g->star.begin + g->n), g->id.bucket, r->lo,
                       r->lo + r->n);
    g->region = r;
    return TG_OK;
}

/* Find what codes the answer of g, which a rank has begun by this payload. */
static tg_status find_recoder(tg_server *s, tg__gathering *g, const uint8_t *payload, size_t len)
{
    const tg__region *r = g->region;
    size_t frame_len;
    if ((g->star.flags & TG__STAR_CODED) == 0)
        return TG_OK;
    TG_TRY(tg__star_frame(payload, len, &g->star, &frame_len, NULL));
    const uint8_t *coding = payload + TG__STAR_HEAD + frame_len;
    if (r == NULL) {
        TG_TRY(tg__recoder_open(&s->recoders, g, coding));
        tg__recoder_restore(g->recoder, &s->kept, g);
        return TG_OK;
    }
    if (g->star.begin != r->lo || g->n != r->n)
        return tg_fail(TG_E_MISMATCH,
                       "elements %llu to %llu of bucket %u ask for coded answers: allowed: all "
                       "that this server has, %zu to %zu",
                       (unsigned long long)g->star.begin,
                       (unsigned long long)(g->star.begin + g->n), g->id.bucket, r->lo,
                       r->lo + r->n);
    TG_TRY(tg__sent_check(tg__region_sent(r, g->only), g->n, g->codec, &g->star, coding));
    return tg__gathering_keep_coding(g, coding);
}

/* Find the region of g, which a rank has begun, and whose gradients it takes. */
static tg_status find_place(tg_server *s, tg__gathering *g, int rank)
{
    if (g->star.combine == &tg__combine_state) {
        g->only = rank;
        return tg__keeping_check(s, g);
    }
    if ((g->star.flags & TG__STAR_CODED) != 0 && s->mode.compensate > 0 && s->journal.dir != NULL)
        return tg_fail(TG_E_MISMATCH,
                       "it asks for coded answers (exchange=twoway), but this server has a journal "
                       "and compensates (compensate=%g), and the journal cannot say what such "
                       "answers have led to: allowed: exchange=star, compensate=0, or no journal",
                       s->mode.compensate);
    TG_TRY(place(s, g));
    if (g->star.combine == &tg__combine_parameters ||
        (g->region != NULL && (s->hosts || !s->mode.gathers || s->deadline_ns > 0)))
        g->only = rank;
    g->waits = tg__rounds_take_it(s, g);
    if (s->hosts && g->only < 0)
        return tg_fail(TG_E_MISMATCH,
                       "it asks for a sum over all workers, but here workers come and go");
    if (s->mode.rule.kind == TG__ROBUST_NONE || g->star.combine != &tg__combine_mean)
        return TG_OK;
    TG_TRY(tg__robust_takes(&s->mode.rule, g->codec));
    g->robust = &s->robust;
    return TG_OK;
}

tg_status tg__gathering_open(tg_server *s, uint32_t tag, int rank, const tg__envelope *id,
                             const uint8_t *payload, size_t len, tg__gathering **g_p)
{
    tg__gathering *g;
    TG_TRY(tg__gathering_new(s, &g));
    tg_status status = tg__gathering_begin(g, tag, id, payload, len);
    if (status == TG_OK)
        status = tg__tensors_check(s, g, payload, len);
    if (status == TG_OK)
        status = find_place(s, g, rank);
    if (status == TG_OK)
        status = find_recoder(s, g, payload, len);
    if (status == TG_OK)
        status = tg__gathering_allocate(g, &s->store);
    if (status != TG_OK) {
        tg__gathering_end(s, g);
        return status;
    }
    if (g->only >= 0)
        s->in[g->only].owed += TG__F32_BYTES(g->n);
    *g_p = g;
    return TG_OK;
}

/* Keep the first parameters of a bucket that arrive. */
static tg_status keep_parameters(tg_server *s, tg__gathering *g)
{
    tg__region *r;
    if (g->region != NULL)
        return TG_OK;
    if (g->again) /* so they are not in the journal */
        return tg_fail(TG_E_CORRUPT, "parameters of bucket %u are sent again, but never came",
                       g->id.bucket);
    if (!tg__kernel()->all_finite(tg__gathering_values(g), g->n))
        return tg_fail(TG_E_CORRUPT, "the parameters of bucket %u are not finite", g->id.bucket);
    TG_TRY(tg__region_create(&s->mode, s->ranks, (size_t)g->star.begin, tg__gathering_values(g),
                             g->n, &r));
    r->channel = g->id.channel;
    r->bucket = g->id.bucket;
    r->next = s->regions;
    s->regions = g->region = r;
    TG_TRY(tg__keeping_restore(s, r));
    for (int rank = 0; rank < s->ranks; rank++)
        if (s->hosts && s->mode.gathers && (s->in[rank].met || s->in[rank].worker != 0))
            tg__region_admit(r, rank, s->in[rank].base);
        else if (!s->hosts) { /* all begin with the step that the offer is of */
            r->rank[rank].counts = true;
            r->rank[rank].clock = g->id.step;
        }
    return tg__tensors_keep(s, g);
}

tg_status tg__regions_abandon(tg_server *s)
{
    if (s->founded || s->regions == NULL)
        return TG_OK;
    for (tg__region *r; (r = s->regions) != NULL;) {
        s->regions = r->next;
        tg__region_destroy(r);
    }
    tg__tensors_forget(s);
    for (int rank = 0; rank < s->ranks; rank++) /* their workers are unknown now */
        s->in[rank].worker = 0;
    if (s->journal.dir == NULL)
        return TG_OK;
    TG_TRY(tg__journal_sync(&s->journal));
    return tg__snapshot_write(s, s->journal.number + 1);
}

int tg__gathering_waits_for(const tg_server *s, const tg__gathering *g)
{
    int rank = g->next;
    while (rank < s->ranks && g->rank[rank].msg != NULL)
        rank++;
    if (g->round != NULL)
        return tg__round_waits_for(s, g);
    return g->held ? tg__clocks_slowest(s, g->region) : rank < s->ranks ? rank : -1;
}

tg_status tg__gatherings_release(tg_server *s)
{
    if (s->unsynced) /* the gradients to be answered are not on disk yet */
        return TG_OK;
    for (tg__gathering *g = s->active, *next; g != NULL; g = next) {
        next = g->link;
        if (!g->held || g->round != NULL || tg__clocks_ahead(s, g))
            continue;
        g->held = false;
        TG_TRY(tg__gathering_answer(s, g));
    }
    return TG_OK;
}

tg_status tg__gatherings_forget(tg_server *s, int rank)
{
    for (tg__gathering *g = s->active, *next; g != NULL; g = next) {
        next = g->link;
        if (g->round != NULL) { /* what was sent counts */
            g->gone |= g->only == rank;
            continue;
        }
        g->sending -= g->rank[rank].open;
        g->rank[rank].open = false;
        g->held = g->held && g->only != rank;
        if (!g->held && g->sending == 0 && g->next == s->ranks)
            tg__gathering_end(s, g);
    }
    return tg__gatherings_release(s);
}

static void note_staleness(tg_server *s, uint64_t steps)
{
    const uint64_t all = steps;
    size_t i = 0;
    for (; steps > 0 && i < TG_STALENESS - 1; steps >>= 1)
        i++;
    s->stats.staleness[i]++;
    s->stats.staleness_sum += all;
}

/* Replace the mean by its coded frame. */
static tg_status code_answer(tg_server *s, tg__gathering *g)
{
    uint8_t *coded;
    const size_t room = tg__recoder_room(g->recoder);
    TG_TRY(tg__store_take(&s->store, TG__ENVELOPE_BYTES + room, &coded));
    const tg_status status =
        tg__recoder_code(g->recoder, g, coded + TG__ENVELOPE_BYTES, room, &g->coded_len);
    tg__store_give(&s->store, status == TG_OK ? g->answer : coded);
    if (status == TG_OK)
        g->answer = coded;
    return status;
}

/* Apply g, whose frames have all arrived. */
static tg_status apply(tg_server *s, tg__gathering *g)
{
    TG_TRY(tg__gathering_finish(g, &s->store, s->ranks));
    if (g->star.combine == &tg__combine_state) {
        tg__keeping_answer(s, g);
        return TG_OK;
    }
    s->stats.elements += g->n * (uint64_t)(g->only >= 0 ? 1 : s->ranks);
    if (g->star.combine == &tg__combine_parameters) {
        TG_TRY(keep_parameters(s, g));
        if (s->hosts && !g->again && !(s->mode.gathers && g->region->rank[g->only].counts))
            tg__region_admit(g->region, g->only, s->in[g->only].base);
        return tg__region_see(g->region, &s->mode, g->only);
    }
    if (g->recoder != NULL)
        return code_answer(s, g);
    if (g->region == NULL)
        return TG_OK;
    if (!tg__kernel()->all_finite(tg__gathering_values(g), g->n))
        g->flags |= TG__FLAG_NONFINITE;
    if (g->again)
        return TG_OK;
    s->founded = s->hosts;
    if (g->coding != NULL) {
        TG_TRY(tg__region_begin_sending(g->region, g->only, &g->star, g->codec, g->coding));
        tg__keeping_restore_coder(s, g->region);
    }
    if (g->only >= 0 && g->star.begin == g->region->lo)
        note_staleness(s, tg__region_staleness(g->region, g->only));
    if ((g->flags & TG__FLAG_NONFINITE) == 0 &&
        !tg__region_update(g->region, &s->mode, &g->star, g->id.slice, g->only,
                           tg__gathering_values(g), g->n))
        g->flags |= TG__FLAG_NONFINITE | TG__FLAG_SPOILS;
    for (int rank = 0; rank < s->ranks; rank++)
        if (g->only < 0 || g->only == rank)
            tg__clocks_note(s, g, rank);
    return g->only < 0 ? send_region(g) : TG_OK;
}

tg_status tg__gathering_take(tg_server *s, tg__gathering *g)
{
    if (!g->waits)
        return apply(s, g);
    s->founded = s->founded || !g->again; /* else the journal does not have it */
    s->stats.elements += g->again ? 0 : g->n;
    return tg__rounds_add(s, g);
}

tg_status tg__gathering_complete(tg_server *s, tg__gathering *g)
{
    /* if a worker's gradient says at which step it goes on, others may no longer wait for it */
    const bool begins = g->waits && (g->region->rank[g->only].fresh || s->deadline_ns > 0);
    const tg_status status = tg__gathering_take(s, g);
    if (status != TG_OK) {
        tg__gathering_end(s, g);
        return status;
    }
    if (g->round != NULL)
        return begins ? tg__rounds_advance(s) : tg__round_advance(s, g->round);
    tg__note_unfit(s, g);
    g->held = s->unsynced || tg__clocks_ahead(s, g);
    if (!g->held)
        TG_TRY(tg__gathering_answer(s, g));
    return begins ? tg__rounds_advance(s) : TG_OK;
}

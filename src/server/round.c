#include "server/round.h"
#include "base/mem.h"
#include "base/time_after.h"
#include "kernel/kernel.h"
#include "telegrad/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool tg__rounds_take_it(const tg_server *s, const tg__gathering *g)
{
    return (s->hosts || s->deadline_ns > 0) && s->mode.gathers && g->region != NULL &&
           g->star.combine != &tg__combine_parameters;
}

bool tg__rounds_wait(const tg_server *s)
{
    return s->rounds != NULL;
}

/* ---- who counts ------------------------------------------------------------------------------ */

int tg__round_waits_for(const tg_server *s, const tg__gathering *g)
{
    for (int rank = 0; rank < s->ranks; rank++)
        if (tg__round_lacks(g->round, rank))
            return rank;
    return -1;
}

int tg__round_count(const tg_server *s, const tg__round *round)
{
    int count = 0;
    for (int rank = 0; rank < s->ranks; rank++)
        count += round->of[rank] != NULL;
    return count;
}

/* A worker that cuts its gradients as no other does has rounds of its own. With a rule, the others
 * bear it: nothing is done by half of the workers that count, or fewer. */
static bool is_enough(const tg_server *s, const tg__round *round)
{
    int members = 0;
    for (int rank = 0; rank < s->ranks; rank++)
        members += round->region->rank[rank].counts;
    return s->mode.rule.kind == TG__ROBUST_NONE || 2 * tg__round_count(s, round) > members;
}

/* A step of which some elements are updated goes on with those who are left. */
static bool is_complete(const tg_server *s, const tg__round *round)
{
    if (tg__round_count(s, round) >= s->min_workers && is_enough(s, round) &&
        tg__round_is_over(s, round))
        return true;
    for (int rank = 0; rank < s->ranks; rank++)
        if (tg__round_lacks(round, rank))
            return false;
    return round->number < s->step || tg__round_count(s, round) >= s->min_workers;
}

void tg__round_free(tg_server *s, tg__round *round)
{
    tg__round **link = &s->rounds;
    while (*link != round)
        link = &(*link)->next;
    *link = round->next;
    free(round);
}

/* What a seat's former worker has sent, and was not answered, is forgotten. */
static void discard(tg_server *s, int rank)
{
    for (tg__round *round = s->rounds, *next; round != NULL; round = next) {
        next = round->next;
        if (round->of[rank] == NULL)
            continue;
        tg__gathering_end(s, round->of[rank]);
        round->of[rank] = NULL;
        if (tg__round_count(s, round) == 0)
            tg__round_free(s, round);
    }
}

bool tg__rounds_nobody_counts(const tg_server *s)
{
    for (const tg__region *r = s->regions; r != NULL; r = r->next)
        for (int rank = 0; rank < s->ranks; rank++)
            if (r->rank[rank].counts)
                return false;
    return true;
}

void tg__rounds_admit(tg_server *s, int rank, uint64_t base)
{
    discard(s, rank);
    for (tg__region *r = s->regions; r != NULL; r = r->next)
        tg__region_admit(r, rank, base);
}

tg_status tg__rounds_pass(tg_server *s, int rank)
{
    bool counted = false;
    for (tg__region *r = s->regions; r != NULL; r = r->next) {
        counted |= r->rank[rank].counts;
        r->rank[rank].counts = false;
    }
    if (s->mode.gathers)
        s->in[rank].worker = 0;
    if (counted && s->in[rank].worker == 0 && s->journal.dir != NULL) {
        TG_TRY(tg__journal_add(
            &s->journal, &(tg__journal_record){.kind = TG__RECORD_PASS, .rank = (uint32_t)rank},
            NULL));
        s->unsynced = true;
    }
    return s->mode.gathers ? tg__rounds_advance(s) : TG_OK;
}

tg_status tg__rounds_check_ranks(tg_server *s, int rank)
{
    if (s->hosts || s->stats.ranks >= s->min_workers)
        return TG_OK;
    s->culprit = rank;
    return tg_fail(TG_E_PEER, "%d rank%s left, but a step takes the gradients of %d",
                   s->stats.ranks, s->stats.ranks == 1 ? " is" : "s are", s->min_workers);
}

void tg__rounds_clear(tg_server *s)
{
    for (int rank = 0; rank < s->ranks; rank++)
        discard(s, rank);
}

/* ---- gradients that come --------------------------------------------------------------------- */

static void put(tg__round *round, tg__gathering *g)
{
    round->of[g->only] = g;
    g->round = round;
}

/* Its answer was lost, or the server has died since. What came first, which the journal has,
 * counts: g takes over its frame. */
static tg_status add_again(tg_server *s, tg__gathering *g)
{
    for (tg__round *round = s->rounds; round != NULL; round = round->next) {
        tg__gathering *first = round->of[g->only];
        if (first == NULL || round->region != g->region || round->begin != g->star.begin ||
            first->id.step != g->id.step)
            continue;
        if (first->n != g->n)
            return tg_fail(TG_E_CORRUPT, "%zu elements come again: they were %zu", g->n, first->n);
        const tg__pushed frame = first->rank[g->only];
        first->rank[g->only] = g->rank[g->only];
        g->rank[g->only] = frame;
        g->star = first->star;
        g->codec = first->codec;
        g->form = first->form;
        g->flags = first->flags;
        uint8_t *coding = g->coding;
        g->coding = first->coding;
        first->coding = coding;
        tg__gathering_end(s, first);
        put(round, g);
        return TG_OK;
    }
    tg__late_take_again(s, g);
    return TG_OK;
}

/* A worker may say that another server has told it a later step, which cannot be beyond the next
 * one: of its first gradient, and of any that is the first of a step. */
static void start(const tg_server *s, const tg__gathering *g)
{
    const uint64_t step = TG__MIN(g->id.step, s->step + 1);
    for (tg__region *r = s->regions; r != NULL; r = r->next) {
        tg__pace_of *p = &r->rank[g->only];
        if (p->fresh || (r == g->region && p->step != g->id.step))
            tg__pace_move(p, step);
        p->fresh = false;
    }
}

const tg__gathering *tg__round_first(const tg_server *s, const tg__round *round)
{
    int rank = 0;
    while (rank < s->ranks - 1 && round->of[rank] == NULL)
        rank++;
    return round->of[rank];
}

/* Those in which the gradients of a round must agree. One that has just come tells its coding as a
 * whole; and what was not applied, the server knows. */
static unsigned flags_of(const tg__gathering *g)
{
    return g->star.flags & ~(unsigned)(TG__STAR_FIRST | TG__STAR_DROPPED);
}

static tg_status compare_coding(const tg_server *s, const tg__round *round, const tg__gathering *g)
{
    for (int rank = 0; rank < s->ranks; rank++)
        if (round->of[rank] != NULL)
            TG_TRY(tg__sent_compare(&round->of[rank]->star, round->of[rank]->coding, &g->star,
                                    g->coding));
    return TG_OK;
}

/* Find the round of g. All workers must cut and combine alike. With a rule, which bears workers
 * that are wrong, one that does not is in a round of its own.
 * *round_p  [out] NULL: none yet */
static tg_status find(const tg_server *s, uint64_t number, const tg__gathering *g,
                      tg__round **round_p)
{
    *round_p = NULL;
    for (tg__round *round = s->rounds; round != NULL; round = round->next) {
        if (round->region != g->region || round->number != number || round->begin != g->star.begin)
            continue;
        const tg__gathering *first = tg__round_first(s, round);
        const bool alike = first->n == g->n && first->id.slice == g->id.slice &&
                           flags_of(first) == flags_of(g) &&
                           first->star.combine == g->star.combine && first->codec == g->codec;
        const tg_status status = alike && g->coding != NULL ? compare_coding(s, round, g) : TG_OK;
        if (alike && status == TG_OK) {
            *round_p = round;
            return TG_OK;
        }
        if (s->mode.rule.kind == TG__ROBUST_NONE && alike)
            return status;
        if (s->mode.rule.kind == TG__ROBUST_NONE)
            return tg_fail(TG_E_MISMATCH,
                           "codec %u, %zu elements, combine=%s, flags %#x: worker %d has sent "
                           "codec %u, %zu, %s, %#x",
                           g->codec, g->n, g->star.combine->name, g->star.flags, first->only,
                           first->codec, first->n, first->star.combine->name, first->star.flags);
    }
    return TG_OK;
}

tg_status tg__rounds_add(tg_server *s, tg__gathering *g)
{
    tg__region *r = g->region;
    tg__pace_of *p = &r->rank[g->only];
    if (g->again)
        return add_again(s, g);
    start(s, g);
    if (tg__late_take(s, g))
        return TG_OK;
    TG_TRY(tg__rounds_check_ranks(s, -1));
    tg__round *round;
    TG_TRY(find(s, p->clock, g, &round));
    if (round == NULL) {
        TG_TRY(tg_alloc(1, sizeof *round + (size_t)s->ranks * sizeof round->of[0], &round));
        round->region = r;
        round->number = p->clock;
        round->begin = g->star.begin;
        round->n = g->n;
        round->slice = g->id.slice;
        round->from_ns = tg_now_ns(s->t->clock);
        s->expires_ns = TG__MIN(s->expires_ns, tg__time_after(round->from_ns, s->deadline_ns));
        round->next = s->rounds;
        s->rounds = round;
    }
    if (round->of[g->only] != NULL)
        return tg_fail(TG_E_CORRUPT, "elements from %llu on came twice in a step",
                       (unsigned long long)g->star.begin);
    put(round, g);
    tg__late_note_stop(s, g, round->number);
    p->came |= tg__slice_bits(r, g->id.slice, g->n);
    tg__region_note(r, g->only, g->id.step, g->n);
    return TG_OK;
}

/* ---- the end of a round ---------------------------------------------------------------------- */

/* Those who had what all have, and take part, get the coded answer; the others must read what all
 * have now. */
static void give(const tg_server *s, const tg__round *round)
{
    const tg__region *r = round->region;
    const uint64_t bits = tg__slice_bits(r, round->slice, round->n);
    for (int rank = 0; rank < s->ranks; rank++) {
        tg__gathering *g = round->of[rank];
        uint64_t *has = &round->region->rank[rank].has;
        if (g != NULL && g->coding != NULL && r->frame_len > 0 && *has == UINT64_MAX)
            tg__gathering_code(g, r->frame, r->frame_len, r->sent->number);
        else
            *has &= ~bits;
    }
}

/* The ranks' gradients are applied, or dropped: see what they are sent. */
static tg_status send(tg_server *s, const tg__round *round, const tg__gathering *first,
                      bool dropped)
{
    TG_TRY(tg__region_send(round->region, -1, &first->star, round->n, first->codec, first->id.step,
                           first->coding, dropped));
    if (first->coding != NULL || !dropped)
        give(s, round);
    return TG_OK;
}

/* The round is over for those who have sent a gradient.
 * flags  NONFINITE if it was not applied; and SPOILS if parameters would not have been finite */
static tg_status release(tg_server *s, tg__round *round, uint16_t flags)
{
    tg_status status = TG_OK;
    for (int rank = 0; rank < s->ranks; rank++) {
        tg__gathering *g = round->of[rank];
        if (g == NULL)
            continue;
        g->round = NULL;
        g->flags |= flags & TG__FLAG_SPOILS ? flags : 0;
        tg__note_unfit(s, g);
        g->flags = (uint16_t)((g->flags & ~TG__FLAG_NONFINITE) | flags);
        tg__late_say_stop(s, g, round->number);
        g->held = s->unsynced;
        if (!g->gone && g->coded_len == 0) /* before other rounds change it */
            tg__gathering_read(g);
        if (g->gone)
            tg__gathering_end(s, g);
        else if (!g->held && status == TG_OK)
            status = tg__gathering_answer(s, g);
    }
    tg__round_free(s, round);
    return status;
}

/* Of several workers that have just come, all say the same. */
static tg_status begin_sending(tg_server *s, const tg__round *round)
{
    for (int rank = 0; rank < s->ranks; rank++) {
        const tg__gathering *g = round->of[rank];
        if (g != NULL)
            TG_TRY(tg__region_begin_sending(round->region, -1, &g->star, g->codec, g->coding));
    }
    return TG_OK;
}

static tg_status update(tg_server *s, tg__round *round, bool enough)
{
    tg__region *r = round->region;
    bool formed = false;
    const tg__gathering *first = tg__round_first(s, round);
    tg__star star = first->star;
    star.rate = tg__round_rate(s, round);
    if (first->coding != NULL && enough)
        TG_TRY(begin_sending(s, round));
    if (enough)
        TG_TRY(tg__round_form(s, round, r->g, &formed));
    uint16_t flags = formed ? 0 : TG__FLAG_NONFINITE;
    tg__round_note_end(round);
    if (formed && !tg__region_update(r, &s->mode, &star, round->slice, -1, r->g, round->n))
        flags = TG__FLAG_NONFINITE | TG__FLAG_SPOILS;
    if (enough) /* else the others are not concerned */
        TG_TRY(send(s, round, first, flags != 0));
    s->step = TG__MAX(s->step, round->number + 1);
    return release(s, round, flags);
}

/* A round of the journal: its place, as in other records, its number, whether they are enough, and
 * its ranks. */
enum { ROUND_HEAD = 28 };

static tg_status note(tg_server *s, const tg__round *round, bool enough)
{
    const size_t count = (size_t)tg__round_count(s, round), len = ROUND_HEAD + 4 * count;
    TG__FREED uint8_t *body = NULL;
    if (s->journal.dir == NULL)
        return TG_OK;
    TG_TRY(tg_alloc(len, 1, &body));
    tg__put16(body, round->region->channel);
    tg__put16(body + 2, round->region->bucket);
    tg__put32(body + 4, (uint32_t)round->begin);
    tg__put32(body + 8, (uint32_t)round->n);
    tg__put32(body + 12, (uint32_t)count);
    tg__put64(body + 16, round->number);
    tg__put32(body + 24, enough);
    uint8_t *to = body + ROUND_HEAD;
    for (int rank = 0; rank < s->ranks; rank++) {
        if (round->of[rank] == NULL)
            continue;
        tg__put32(to, (uint32_t)rank);
        to += 4;
    }
    s->unsynced = true;
    return tg__journal_add(&s->journal, &(tg__journal_record){.kind = TG__RECORD_ROUND, .len = len},
                           body);
}

static tg_status end(tg_server *s, tg__round *round)
{
    const bool enough = is_enough(s, round);
    TG_TRY(note(s, round, enough));
    return update(s, round, enough);
}

tg_status tg__rounds_advance(tg_server *s)
{
    for (;;) { /* a step that has begun may let others end */
        tg__round *first = NULL;
        for (tg__round *round = s->rounds; round != NULL; round = round->next)
            if ((first == NULL || round->number < first->number) && is_complete(s, round))
                first = round;
        if (first == NULL)
            return TG_OK;
        TG_TRY(end(s, first));
    }
}

tg_status tg__round_advance(tg_server *s, tg__round *round)
{
    const uint64_t step = s->step;
    if (!is_complete(s, round))
        return TG_OK;
    TG_TRY(end(s, round));
    return s->step > step ? tg__rounds_advance(s) : TG_OK;
}

/* ---- reading the journal --------------------------------------------------------------------- */

/* The round has the elements and the ranks of a record. */
static bool is_told(const tg_server *s, const tg__round *round, const uint8_t *body)
{
    const uint32_t count = tg__get32(body + 12);
    if (round->begin != tg__get32(body + 4) || round->n != tg__get32(body + 8) ||
        count != (uint32_t)tg__round_count(s, round))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t rank = tg__get32(body + ROUND_HEAD + 4 * (size_t)i);
        if (rank >= (uint32_t)s->ranks || round->of[rank] == NULL)
            return false;
    }
    return true;
}

tg_status tg__rounds_replay(tg_server *s, const tg__journal_record *record, const uint8_t *body)
{
    if (record->len < ROUND_HEAD || record->len != ROUND_HEAD + 4 * (uint64_t)tg__get32(body + 12))
        return tg_fail(TG_E_CORRUPT, "a round of %llu bytes", (unsigned long long)record->len);
    const tg__envelope id = {.channel = tg__get16(body), .bucket = tg__get16(body + 2)};
    const uint64_t number = tg__get64(body + 16);
    const uint32_t count = tg__get32(body + 12);
    const tg__region *r = tg__region_find(s->regions, &id);
    tg__round *round = s->rounds;
    while (round != NULL &&
           (round->region != r || round->number != number || !is_told(s, round, body)))
        round = round->next;
    if (round == NULL)
        return tg_fail(TG_E_CORRUPT,
                       "round %llu of %u worker%s: not all of its gradients are in the journal",
                       (unsigned long long)number, count, count == 1 ? "" : "s");
    for (int rank = 0; rank < s->ranks; rank++) /* who is to be answered is not known yet */
        if (round->of[rank] != NULL)
            round->of[rank]->gone = true;
    return update(s, round, tg__get32(body + 24) != 0);
}

tg_status tg__rounds_replay_pass(tg_server *s, int rank)
{
    s->in[rank].worker = 0;
    for (tg__region *r = s->regions; r != NULL; r = r->next)
        r->rank[rank].counts = false;
    return TG_OK;
}

void tg__rounds_end_replay(tg_server *s)
{
    for (tg__round *round = s->rounds; round != NULL; round = round->next)
        for (int rank = 0; rank < s->ranks; rank++)
            if (round->of[rank] != NULL)
                round->of[rank]->gone = true;
    for (tg__region *r = s->regions; r != NULL && s->mode.gathers; r = r->next) {
        s->step = TG__MAX(s->step, r->began);
        for (int rank = 0; rank < s->ranks; rank++)
            r->rank[rank].counts = s->in[rank].worker != 0;
    }
}

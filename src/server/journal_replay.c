/* What a server writes to its journal about messages and answers, and what it does when it reads
 * it.
 *
 * Mode compensate needs the parameters that a worker was sent. The record of an answer reaches the
 * disk with the next push only, so the last ones may be missing. A push without such a record was
 * answered, if at all, with the parameters at the end of the journal. So it stays active until the
 * end of the replay. */
#include "base/mem.h"
#include "server/round.h"
#include <string.h>

/* End a rank's pushes of these elements, except one, and those that wait in rounds. */
static void end_pushes(tg_server *s, int rank, const tg__region *r, uint64_t begin,
                       const tg__gathering *except)
{
    for (tg__gathering *g = s->active, *next; g != NULL; g = next) {
        next = g->link;
        if (g != except && g->round == NULL && g->only == rank && g->region == r &&
            g->star.begin == begin)
            tg__gathering_end(s, g);
    }
}

tg_status tg__gatherings_end_replay(tg_server *s, tg_status status)
{
    for (tg__gathering *g = s->active, *next; g != NULL; g = next) {
        next = g->link;
        if (g->round != NULL)
            continue;
        if (status == TG_OK) {
            tg__region_read(g->region, g->only, (size_t)g->star.begin, g->region->g, g->n);
            status = tg__gathering_note_answer(s, g);
        }
        tg__gathering_end(s, g);
    }
    tg__rounds_end_replay(s);
    return status;
}

tg_status tg__gathering_replay(tg_server *s, const tg__journal_record *record, const uint8_t *body)
{
    const int rank = (int)record->rank;
    const size_t least = TG__ENVELOPE_BYTES + TG__STAR_HEAD + TG__FRAME_HEAD;
    tg__envelope id;
    uint16_t flags;
    size_t len;
    uint8_t *msg;
    tg__gathering *g;
    if (record->len < least)
        return tg_fail(TG_E_CORRUPT, "a message of %llu bytes: allowed: at least %zu",
                       (unsigned long long)record->len, least);
    tg__envelope_peek(body, &id);
    TG_TRY(tg__envelope_open(body, (size_t)record->len, &id, &flags, &len));
    TG_TRY(tg__gathering_open(s, record->tag, rank, &id, body + TG__ENVELOPE_BYTES, len, &g));
    TG_TRY(tg__store_take(&s->store, (size_t)record->len, &msg));
    memcpy(msg, body, (size_t)record->len);
    TG_TRY(tg__gathering_add(g, &s->store, s->ranks, rank, msg, len, flags));
    s->in[rank].worker = record->worker;
    s->in[rank].number = record->number;
    if (g->star.combine == &tg__combine_parameters) /* the first of all */
        s->in[rank].base = 0;
    const tg_status status = tg__gathering_take(s, g);
    if (status == TG_OK && g->round != NULL)
        return TG_OK;
    if (status == TG_OK)
        tg__region_answered(g->region, rank, g->star.begin);
    if (status == TG_OK && s->mode.compensate > 0) {
        tg__gathering_free_answer(s, g);
        end_pushes(s, rank, g->region, g->star.begin, g);
        return TG_OK;
    }
    const bool refused = status == TG_E_CORRUPT || (g->waits && status == TG_E_MISMATCH);
    tg__gathering_end(s, g);
    return refused ? TG_OK : status; /* as when it arrived */
}

enum { PLACE = 24, ANEW = 1, FIRST = 2, ALONE = 4 }; /* flags of COME: journal.h */

/* The body of ANSWER and COME. */
static void put_place(uint8_t body[PLACE], const tg__gathering *g, uint64_t step)
{
    memset(body, 0, PLACE);
    tg__put16(body, g->id.channel);
    tg__put16(body + 2, g->id.bucket);
    tg__put32(body + 4, (uint32_t)g->star.begin);
    tg__put32(body + 8, (uint32_t)g->n);
    tg__put32(body + 12, (g->anew ? ANEW : 0u) | (g->first ? FIRST : 0u) | (g->alone ? ALONE : 0u));
    tg__put64(body + 16, step);
}

tg_status tg__gathering_note_answer(tg_server *s, const tg__gathering *g)
{
    uint8_t body[PLACE];
    const tg__journal_record record = {
        .kind = TG__RECORD_ANSWER, .rank = (uint32_t)g->only, .tag = g->tag, .len = PLACE};
    put_place(body, g, 0);
    return tg__journal_add(&s->journal, &record, body);
}

tg_status tg__gathering_note_return(tg_server *s, int rank, uint64_t step)
{
    uint8_t body[8];
    const tg__journal_record record = {
        .kind = TG__RECORD_BACK, .rank = (uint32_t)rank, .len = sizeof body};
    tg__put64(body, step);
    return tg__journal_add(&s->journal, &record, body);
}

tg_status tg__gathering_note(tg_server *s, const tg__gathering *g, int rank, const uint8_t *msg)
{
    const tg__stamp *said = &s->in[rank].said;
    const bool comes = g->region != NULL && g->star.combine == &tg__combine_parameters;
    const tg__journal_record record = {.kind = comes ? TG__RECORD_COME : TG__RECORD_PUSH,
                                       .rank = (uint32_t)rank,
                                       .tag = said->tag,
                                       .len = comes ? PLACE : said->len,
                                       .worker = said->worker,
                                       .number = said->number};
    uint8_t body[PLACE];
    put_place(body, g, s->in[rank].base);
    return tg__journal_add(&s->journal, &record, comes ? body : msg);
}

tg_status tg__gathering_replay_place(tg_server *s, const tg__journal_record *record,
                                     const uint8_t *body)
{
    const int rank = (int)record->rank;
    if (record->len != PLACE)
        return tg_fail(TG_E_CORRUPT, "kind %u, %llu bytes", record->kind,
                       (unsigned long long)record->len);
    const tg__envelope id = {.channel = tg__get16(body), .bucket = tg__get16(body + 2)};
    const size_t begin = tg__get32(body + 4), n = tg__get32(body + 8);
    tg__region *r = tg__region_find(s->regions, &id);
    if (r == NULL || begin < r->lo || begin + n > r->lo + r->n)
        return tg_fail(TG_E_CORRUPT, "elements that are not kept");
    const uint64_t how = tg__get32(body + 12), base = tg__get64(body + 16);
    if (how > (ANEW | FIRST | ALONE) || base > TG__STAR_STEP_MOST)
        return tg_fail(TG_E_CORRUPT, "flags %#llx, step %llu: allowed: 0 to 0x7, 0 to 2^53",
                       (unsigned long long)how, (unsigned long long)base);
    end_pushes(s, rank, r, begin, NULL);
    if (record->kind == TG__RECORD_ANSWER) {
        tg__region_read(r, rank, begin, r->g, n);
        return TG_OK;
    }
    if ((how & ANEW) != 0)
        tg__clocks_clear(s);
    if ((how & ALONE) != 0)
        tg__rounds_clear(s);
    s->in[rank].worker = record->worker;
    s->in[rank].number = record->number;
    s->in[rank].base = base;
    if (s->mode.gathers && (how & FIRST) != 0)
        tg__rounds_admit(s, rank, base);
    else if (!s->mode.gathers || !r->rank[rank].counts)
        tg__region_admit(r, rank, base);
    tg__region_answered(r, rank, begin);
    TG_TRY(tg__region_see(r, &s->mode, rank));
    if (s->mode.compensate <= 0)
        return TG_OK;
    tg__gathering *g;
    TG_TRY(tg__gathering_new(s, &g));
    g->tag = record->tag;
    g->id = id;
    g->star.begin = begin;
    g->n = n;
    g->only = rank;
    g->region = r;
    return TG_OK;
}

#include "server/snapshot.h"
#include "base/c_locale.h"
#include "base/mem.h"
#include "server/round.h"
#include "server/snapshot_layout.h"
#include "server/tensors.h"
#include "state/checkpoint.h"
#include "state/state.h"
#include "strategy/optimizers.h"
#include "telegrad/clock.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

tg_status tg__snapshot_identity(const tg_server *s, char *text, size_t room)
{
    const char *optimizer = tg_spec_text(tg_optimizer_spec(s->mode.optimizer));
    const char *lr = strstr(optimizer, "lr=");
    const size_t before = lr == NULL ? strlen(optimizer) : (size_t)(lr - optimizer),
                 rate = lr == NULL ? 0 : strcspn(lr, ",") + (strchr(lr, ',') != NULL);
    char compensate[32];
    const locale_t old = tg__c_locale_enter();
    for (int digits = 1; digits <= 17; digits++) { /* as it was given */
        snprintf(compensate, sizeof compensate, "%.*g", digits, s->mode.compensate);
        if (strtod(compensate, NULL) == s->mode.compensate)
            break;
    }
    tg__c_locale_leave(old);
    const int len = snprintf(
        text, room, "server=2\nshard=%d\nshards=%d\nmode=%s\ncompensate=%s\noptimizer=%.*s%s\n",
        s->shard, s->shards, s->mode.gathers ? tg_spec_text(s->mode.spec) : "async", compensate,
        (int)before, optimizer, optimizer + before + rate);
    return len > 0 && (size_t)len < room
               ? TG_OK
               : tg_fail(TG_E_ARG, "optimizer of %zu characters is too long", strlen(optimizer));
}

uint64_t tg__snapshot_bytes(const tg_server *s)
{
    uint64_t bytes = 0;
    for (const tg__region *r = s->regions; r != NULL; r = r->next)
        bytes += sizeof *r->w * (uint64_t)r->n *
                 (1 + tg_optimizer_slots(s->mode.optimizer) + (r->sent != NULL));
    return bytes;
}

static void put_entry(const tg_server *s, const tg__region *r, uint8_t entry[ENTRY])
{
    const uint64_t began = s->mode.gathers ? s->step : tg__clocks_newest(s, r),
                   head[HEAD] = {r->channel, r->bucket, r->lo, r->n, began, s->founded};
    for (size_t i = 0; i < TG_COUNT(head); i++)
        tg__put64(entry + 8 * i, head[i]);
    for (size_t i = 0; i < TG__REGION_SLICES; i++)
        tg__put64(entry + 8 * (TG_COUNT(head) + i), r->updates[i]);
}

static tg_status put_clocks(const tg_server *s, const tg__region *r, size_t i, tg__ckpt_writer *w)
{
    TG__FREED uint8_t *entries = NULL;
    char name[64];
    TG_TRY(tg_alloc((size_t)s->ranks, CLOCK, &entries));
    for (int rank = 0; rank < s->ranks; rank++) {
        const tg__pace_of *p = &r->rank[rank];
        const uint64_t entry[] = {p->clock, p->step, p->elements, p->fresh, p->known};
        for (size_t k = 0; k < TG_COUNT(entry); k++)
            tg__put64(entries + CLOCK * rank + 8 * k, entry[k]);
    }
    return tg__ckpt_put(w, section(name, "clocks", i, 0), entries, CLOCK * (size_t)s->ranks);
}

static tg_status put_late(const tg_server *s, const tg__region *r, size_t i, tg__ckpt_writer *w)
{
    TG__FREED uint8_t *entries = NULL;
    const size_t len = ENDED + LATE * (size_t)s->ranks;
    char name[64];
    uint64_t any = 0;
    TG_TRY(tg_alloc(1, len, &entries));
    for (size_t k = 0; k < TG__REGION_SLICES; k++) {
        tg__put64(entries + 8 * k, r->ended[k]);
        any |= r->ended[k];
    }
    for (int rank = 0; rank < s->ranks; rank++) {
        tg__put64(entries + ENDED + LATE * rank, r->rank[rank].late);
        tg__put64(entries + ENDED + LATE * rank + 8, r->rank[rank].late_step);
        tg__put64(entries + ENDED + LATE * rank + 16, r->rank[rank].came);
    }
    return any == 0 ? TG_OK : tg__ckpt_put(w, section(name, "late", i, 0), entries, len);
}

static tg_status put_vectors(const tg_server *s, const tg__region *r, size_t i, tg__ckpt_writer *w)
{
    char name[64];
    const size_t len = r->n * sizeof *r->w;
    TG_TRY(put_clocks(s, r, i, w));
    TG_TRY(put_late(s, r, i, w));
    TG_TRY(tg__ckpt_put(w, section(name, "w", i, 0), r->w, len));
    for (size_t k = 0; k < TG__REGION_SLOTS; k++)
        if (r->slot[k] != NULL)
            TG_TRY(tg__ckpt_put(w, section(name, "slot", i, k), r->slot[k], len));
    return TG_OK;
}

static tg_status put_told(const tg__sent *sent, size_t i, size_t k, tg__ckpt_writer *w)
{
    TG__FREED uint8_t *told = NULL;
    char name[64];
    const size_t len = sent->coder.codec == NULL ? 0 : sent->coding_len;
    TG_TRY(tg_alloc(SENT + len, 1, &told));
    tg__put64(told, sent->number);
    if (len > 0)
        memcpy(told + SENT, sent->coding, len);
    return tg__ckpt_put(w, section(name, "sent", i, k), told, SENT + len);
}

static tg_status put_sent(const tg__sent *sent, size_t i, tg__ckpt_writer *w)
{
    char name[64];
    if (sent == NULL)
        return TG_OK;
    TG_TRY(put_told(sent, i, 0, w));
    TG_TRY(tg__ckpt_put(w, section(name, "v", i, 0), sent->v, sent->n * sizeof *sent->v));
    return sent->coder.memory == NULL
               ? TG_OK
               : tg__ckpt_put(w, section(name, "coder", i, 0), sent->coder.memory,
                              tg__coder_memory(&sent->coder) * sizeof *sent->coder.memory);
}

/* What each rank has: compensation needs it, and of the others, the codings of those who are there
 * or may be back. */
static tg_status put_own(const tg_server *s, const tg__region *r, size_t i, tg__ckpt_writer *w)
{
    char name[64];
    for (int rank = 0; rank < s->ranks; rank++) {
        const tg__sent *sent = r->rank[rank].sent;
        if (sent != NULL && s->mode.compensate > 0)
            TG_TRY(tg__ckpt_put(w, section(name, "seen", i, (size_t)rank), sent->v,
                                sent->n * sizeof *sent->v));
        else if (sent != NULL)
            TG_TRY(put_told(sent, i, (size_t)rank, w));
    }
    return TG_OK;
}

static tg_status put_centers(const tg__robust_last *last, tg__ckpt_writer *w)
{
    TG__FREED uint8_t *entries = NULL;
    size_t count = 0, i = 0;
    char name[64];
    for (const tg__robust_last *l = last; l != NULL; l = l->next)
        count++;
    if (count == 0)
        return TG_OK;
    TG_TRY(tg_alloc(count, CENTER, &entries));
    for (const tg__robust_last *l = last; l != NULL; l = l->next, i++) {
        const uint64_t entry[] = {l->channel, l->bucket, l->round, l->begin, l->n};
        for (size_t k = 0; k < TG_COUNT(entry); k++)
            tg__put64(entries + CENTER * i + 8 * k, entry[k]);
        TG_TRY(tg__ckpt_put(w, section(name, "center", i, 0), l->v, l->n * sizeof *l->v));
    }
    return tg__ckpt_put(w, "centers", entries, CENTER * count);
}

/* Which workers have the seats, so that no message is applied twice. */
static tg_status put_workers(const tg_server *s, tg__ckpt_writer *w)
{
    TG__FREED uint8_t *entries = NULL;
    TG_TRY(tg_alloc((size_t)s->ranks, WORKER, &entries));
    for (int rank = 0; rank < s->ranks; rank++) {
        tg__put32(entries + WORKER * rank, s->in[rank].worker);
        tg__put64(entries + WORKER * rank + 4, s->in[rank].number);
        tg__put64(entries + WORKER * rank + 12, s->in[rank].base);
    }
    return tg__ckpt_put(w, "workers", entries, WORKER * (size_t)s->ranks);
}

static tg_status put_all(const tg_server *s, tg__ckpt_writer *w)
{
    TG__FREED uint8_t *entries = NULL;
    size_t count = 0, i = 0;
    for (const tg__region *r = s->regions; r != NULL; r = r->next)
        count++;
    TG_TRY(put_workers(s, w));
    TG_TRY(tg_alloc(count, ENTRY, &entries));
    for (const tg__region *r = s->regions; r != NULL; r = r->next)
        put_entry(s, r, entries + ENTRY * i++);
    TG_TRY(tg__ckpt_put(w, "regions", entries, ENTRY * count));
    i = 0;
    for (const tg__region *r = s->regions; r != NULL; r = r->next) {
        TG_TRY(s->mode.gathers ? put_sent(r->sent, i, w) : put_own(s, r, i, w));
        TG_TRY(put_vectors(s, r, i++, w));
    }
    TG_TRY(tg__tensors_put(s, w));
    return put_centers(s->robust.last, w);
}

static tg_status write_snapshot(tg_server *s, uint64_t number)
{
    char identity[1024];
    tg__ckpt_writer *w;
    TG__FREED char *path = tg__journal_snapshot(&s->journal, number);
    if (path == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory: snapshot");
    TG_TRY(tg__snapshot_identity(s, identity, sizeof identity));
    TG_TRY(tg__ckpt_create(path, identity, &w));
    const tg_status status = put_all(s, w);
    if (status == TG_OK)
        return tg__ckpt_commit(w);
    tg__ckpt_abandon(w);
    return status;
}

struct tg__snapshot_work tg__snapshot_work = {.least_ns = INT64_C(30000000000), .times = 10};

bool tg__snapshot_is_due(const tg_server *s)
{
    const bool slow = s->worked_ns > tg__snapshot_work.least_ns &&
                      s->worked_ns > tg__snapshot_work.times * s->snapshot_ns;
    return (slow || s->journal.len > TG__MAX(s->journal_bytes, tg__snapshot_bytes(s))) &&
           !tg__rounds_wait(s); /* the log has what waits */
}

tg_status tg__snapshot_write(tg_server *s, uint64_t number)
{
    const int64_t begin = tg_now_ns(s->t->clock);
    TG_TRY(tg__journal_begin(&s->journal, number));
    const tg_status status = write_snapshot(s, number);
    if (status != TG_OK) {
        s->journal.broken = true; /* its log, which has begun, would not be read */
        return status;
    }
    s->worked_ns = 0;
    s->snapshot_ns = tg_now_ns(s->t->clock) - begin;
    return tg__journal_forget(&s->journal);
}

static tg_status replay(void *arg, const tg__journal_record *record, const uint8_t *body)
{
    tg_server *s = arg;
    if (s->stop != NULL && *s->stop)
        return tg_fail(TG_E_STOPPED, "asked to stop");
    if (s->on_replay != NULL)
        s->on_replay(s->on_replay_arg, s->journal.read, s->journal.to_read);
    if (record->rank >= (uint32_t)s->ranks)
        return tg_fail(TG_E_MISMATCH, "of worker %u: this server is for %d worker%s", record->rank,
                       s->ranks, s->ranks == 1 ? "" : "s");
    if (record->kind == TG__RECORD_PUSH)
        return tg__gathering_replay(s, record, body);
    if (record->kind == TG__RECORD_BACK && record->len == 8) {
        tg__clocks_return(s, (int)record->rank, tg__get64(body));
        return TG_OK;
    }
    if (record->kind == TG__RECORD_ROUND)
        return tg__rounds_replay(s, record, body);
    if (record->kind == TG__RECORD_PASS && record->len == 0)
        return tg__rounds_replay_pass(s, (int)record->rank);
    if (record->kind == TG__RECORD_ANSWER || record->kind == TG__RECORD_COME)
        return tg__gathering_replay_place(s, record, body);
    return tg_fail(TG_E_CORRUPT, "kind %u, %llu bytes", record->kind,
                   (unsigned long long)record->len);
}

/* The snapshot is damaged, or not there: say how to go on. */
static tg_status without_snapshot(tg_status status)
{
    return status != TG_E_CORRUPT
               ? status
               : tg_fail(status,
                         "%s; a log is of no use without its snapshot: put back a copy of this "
                         "folder, or begin a journal in another folder, with a first worker that "
                         "has saved weights as its initial parameters",
                         tg_error());
}

tg_status tg__snapshot_recover(tg_server *s, const char *dir)
{
    bool found;
    TG_TRY(without_snapshot(tg__journal_open(&s->journal, dir, &found)));
    if (!found)
        return tg__snapshot_write(s, 0);
    TG_TRY(without_snapshot(tg__snapshot_read(s)));
    const uint64_t step = tg__clocks_now(s);
    const int64_t begin = tg_now_ns(s->t->clock);
    tg_status status = tg__journal_replay(&s->journal, replay, s);
    s->worked_ns = tg_now_ns(s->t->clock) - begin;
    if (status == TG_E_STOPPED)
        status = tg_fail(status,
                         "the server was asked to stop while it read its journal, which stays as "
                         "it is: the next start reads it again");
    if (status == TG_E_CORRUPT)
        status = tg_fail(status,
                         "%s; to continue from the snapshot, after step %llu, move that log to "
                         "another folder: all gradients that came since then are lost",
                         tg_error(), (unsigned long long)step);
    return tg__gatherings_end_replay(s, status);
}

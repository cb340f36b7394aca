#include "server/snapshot.h"
#include "server/round.h"
#include "base/mem.h"
#include "base/settings.h"
#include "state/checkpoint.h"
#include "state/state.h"
#include "strategy/optimizers.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A region in the section "regions": numbers, little-endian. The vectors of region 3 are sections:
 * "w 3 0", "slot 3 1", "seen 3 5", which is what rank 5 was answered. */
enum { HEAD = 6, ENTRY = 8 * (HEAD + TG__REGION_SLICES) };
/* A seat in the section "workers": tg__stamp.worker (4), number of the last message taken (8), step
 * at which it began (8). */
enum { WORKER = 20 };
/* A seat in the section "clocks 3 0", of region 3: clock (8), step that is coming (8), elements of
 * it that have come (8), fresh (8), updates[0] when it was answered last (8). */
enum { CLOCK = 40 };
/* The section "late 3 0", which is there if steps have ended in rounds: 1 + the last step, of each
 * slice (8); then for each seat its late slices (8), their step (8), and the slices of the step
 * that is coming (8). */
enum { ENDED = 8 * TG__REGION_SLICES, LATE = 24 };

/* If answers of region 3 are coded, sections "sent 3 0", how often they were (8), and the coding if
 * one was told; "v 3 0", what workers have; "coder 3 0", the codec's memory if it has one. If each
 * rank has something of its own, "sent 3 5" of rank 5 alone: it is answered with all of w next. */
enum { SENT = 8 };
/* The section "centers", with combine=clipped: for each last result, channel (8), bucket (8), round
 * (8), first element (8), elements (8). Result 3 is the section "center 3 0". */
enum { CENTER = 40 };

static const char *section(char text[64], const char *what, size_t region, size_t k)
{
    snprintf(text, 64, "%s %zu %zu", what, region, k);
    return text;
}

/* What must be the same when it is read. The learning rate comes with each gradient. */
static tg_status write_identity(const tg_server *s, char *text, size_t room)
{
    const char *optimizer = tg_spec_text(tg_optimizer_spec(s->mode.optimizer));
    const char *lr = strstr(optimizer, "lr=");
    const size_t before = lr == NULL ? strlen(optimizer) : (size_t)(lr - optimizer),
                 rate = lr == NULL ? 0 : strcspn(lr, ",") + (strchr(lr, ',') != NULL);
    char compensate[32];
    for (int digits = 1; digits <= 17; digits++) { /* as it was given */
        snprintf(compensate, sizeof compensate, "%.*g", digits, s->mode.compensate);
        if (strtod(compensate, NULL) == s->mode.compensate)
            break;
    }
    const int len = snprintf(
        text, room, "server=2\nshard=%d\nshards=%d\nmode=%s\ncompensate=%s\noptimizer=%.*s%s\n",
        s->shard, s->shards, s->mode.gathers ? tg_spec_text(s->mode.spec) : "async", compensate,
        (int)before, optimizer, optimizer + before + rate);
    return len > 0 && (size_t)len < room
               ? TG_OK
               : tg_fail(TG_E_ARG, "optimizer of %zu characters is too long", strlen(optimizer));
}

/* ---- writing --------------------------------------------------------------------------------- */

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

/* What each rank has: compensation needs it, and of the others, the codings of those who may be
 * back. */
static tg_status put_own(const tg_server *s, const tg__region *r, size_t i, tg__ckpt_writer *w)
{
    char name[64];
    for (int rank = 0; rank < s->ranks; rank++) {
        const tg__sent *sent = r->rank[rank].sent;
        if (sent != NULL && s->mode.compensate > 0)
            TG_TRY(tg__ckpt_put(w, section(name, "seen", i, (size_t)rank), sent->v,
                                sent->n * sizeof *sent->v));
        else if (sent != NULL && s->in[rank].worker != 0)
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
    return put_centers(s->robust.last, w);
}

static tg_status write_snapshot(tg_server *s, uint64_t number)
{
    char identity[1024];
    tg__ckpt_writer *w;
    TG__FREED char *path = tg__journal_snapshot(&s->journal, number);
    if (path == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory: snapshot");
    TG_TRY(write_identity(s, identity, sizeof identity));
    TG_TRY(tg__ckpt_create(path, identity, &w));
    const tg_status status = put_all(s, w);
    if (status == TG_OK)
        return tg__ckpt_commit(w);
    tg__ckpt_abandon(w);
    return status;
}

tg_status tg__snapshot_write(tg_server *s, uint64_t number)
{
    TG_TRY(tg__journal_begin(&s->journal, number));
    const tg_status status = write_snapshot(s, number);
    if (status != TG_OK) {
        s->journal.broken = true; /* its log, which has begun, would not be read */
        return status;
    }
    return tg__journal_forget(&s->journal);
}

/* ---- reading --------------------------------------------------------------------------------- */

static tg_status get_clocks(const tg_server *s, tg__ckpt_reader *c, size_t i, tg__region *r)
{
    const void *entries;
    char name[64];
    size_t len;
    TG_TRY(tg__ckpt_get(c, section(name, "clocks", i, 0), SIZE_MAX, &entries, &len));
    if (len % CLOCK != 0)
        return tg_fail(TG_E_CORRUPT, "snapshot: %s takes %zu bytes", name, len);
    for (size_t rank = 0; rank < len / CLOCK && rank < (size_t)s->ranks; rank++) {
        const uint8_t *entry = (const uint8_t *)entries + CLOCK * rank;
        tg__pace_of *p = &r->rank[rank];
        p->clock = tg__get64(entry);
        p->step = tg__get64(entry + 8);
        p->elements = (size_t)tg__get64(entry + 16);
        p->fresh = tg__get64(entry + 24) != 0;
        p->known = tg__get64(entry + 32);
    }
    return TG_OK;
}

static tg_status get_late(const tg_server *s, tg__ckpt_reader *c, size_t i, tg__region *r)
{
    const void *entries;
    char name[64];
    size_t len;
    if (!tg__ckpt_has(c, section(name, "late", i, 0)))
        return TG_OK;
    TG_TRY(tg__ckpt_get(c, name, SIZE_MAX, &entries, &len));
    if (len < ENDED || (len - ENDED) % LATE != 0)
        return tg_fail(TG_E_CORRUPT, "snapshot: %s takes %zu bytes", name, len);
    for (size_t k = 0; k < TG__REGION_SLICES; k++)
        r->ended[k] = tg__get64((const uint8_t *)entries + 8 * k);
    for (size_t rank = 0; rank < (len - ENDED) / LATE && rank < (size_t)s->ranks; rank++) {
        const uint8_t *entry = (const uint8_t *)entries + ENDED + LATE * rank;
        r->rank[rank].late = tg__get64(entry);
        r->rank[rank].late_step = tg__get64(entry + 8);
        r->rank[rank].came = tg__get64(entry + 16);
    }
    return TG_OK;
}

static tg_status get_told(tg__ckpt_reader *c, size_t i, size_t k, const tg__region *r,
                          tg__sent **sent_p)
{
    const void *told;
    char name[64];
    size_t len;
    if (!tg__ckpt_has(c, section(name, "sent", i, k)))
        return TG_OK;
    TG_TRY(tg__ckpt_get(c, name, SIZE_MAX, &told, &len));
    if (len < SENT)
        return tg_fail(TG_E_CORRUPT, "snapshot: %s takes %zu bytes", name, len);
    TG_TRY(tg__sent_create(r->w, r->n, sent_p));
    (*sent_p)->number = tg__get64(told);
    return len == SENT ? TG_OK
                       : tg__sent_adopt(*sent_p, -1, (const uint8_t *)told + SENT, len - SENT);
}

static tg_status get_sent(tg__ckpt_reader *c, size_t i, tg__region *r)
{
    char name[64];
    TG_TRY(get_told(c, i, 0, r, &r->sent));
    if (r->sent == NULL)
        return TG_OK;
    TG_TRY(tg__ckpt_read(c, section(name, "v", i, 0), r->sent->v, r->n * sizeof *r->sent->v));
    return r->sent->coder.memory == NULL
               ? TG_OK
               : tg__ckpt_read(c, section(name, "coder", i, 0), r->sent->coder.memory,
                               tg__coder_memory(&r->sent->coder) * sizeof *r->sent->coder.memory);
}

static tg_status get_own(const tg_server *s, tg__ckpt_reader *c, size_t i, tg__region *r)
{
    char name[64];
    for (int rank = 0; rank < s->ranks; rank++) {
        tg__pace_of *p = &r->rank[rank];
        TG_TRY(get_told(c, i, (size_t)rank, r, &p->sent));
        if (!tg__ckpt_has(c, section(name, "seen", i, (size_t)rank)))
            continue;
        TG_TRY(tg__region_see(r, &s->mode, rank));
        if (p->sent != NULL)
            TG_TRY(tg__ckpt_read(c, name, p->sent->v, r->n * sizeof *r->w));
    }
    return TG_OK;
}

static tg_status get_centers(tg_server *s, tg__ckpt_reader *c)
{
    const void *entries;
    char name[64];
    size_t len;
    if (!tg__ckpt_has(c, "centers"))
        return TG_OK;
    TG_TRY(tg__ckpt_get(c, "centers", SIZE_MAX, &entries, &len));
    if (len % CENTER != 0)
        return tg_fail(TG_E_CORRUPT, "snapshot: its centers take %zu bytes", len);
    for (size_t i = 0; i < len / CENTER; i++) {
        const uint8_t *entry = (const uint8_t *)entries + CENTER * i;
        const uint64_t channel = tg__get64(entry), bucket = tg__get64(entry + 8),
                       round = tg__get64(entry + 16), begin = tg__get64(entry + 24),
                       n = tg__get64(entry + 32);
        if (channel > UINT16_MAX || bucket > UINT16_MAX || round > UINT16_MAX ||
            begin > TG_MAX_ELEMENTS || n > TG_MAX_ELEMENTS)
            return tg_fail(TG_E_CORRUPT, "snapshot: center %zu is malformed", i);
        const tg__envelope id = {
            .channel = (uint16_t)channel, .bucket = (uint16_t)bucket, .round = (uint16_t)round};
        float *last;
        TG_TRY(tg__robust_last_of(&s->robust, &id, begin, (size_t)n, &last));
        if (last != NULL)
            TG_TRY(tg__ckpt_read(c, section(name, "center", i, 0), last, (size_t)n * sizeof *last));
    }
    return TG_OK;
}

static tg_status get_region(tg_server *s, tg__ckpt_reader *c, size_t i, const uint8_t *entry)
{
    uint64_t head[HEAD];
    char name[64];
    const void *w;
    tg__region *r;
    for (size_t k = 0; k < TG_COUNT(head); k++)
        head[k] = tg__get64(entry + 8 * k);
    if (head[0] > UINT16_MAX || head[1] > UINT16_MAX || head[2] > TG_MAX_ELEMENTS ||
        head[3] > TG_MAX_ELEMENTS)
        return tg_fail(TG_E_CORRUPT, "snapshot: region %zu is malformed", i);
    const size_t n = (size_t)head[3], len = n * sizeof(float);
    TG_TRY(tg__ckpt_get(c, section(name, "w", i, 0), len, &w, NULL));
    TG_TRY(tg__region_create(&s->mode, s->ranks, (size_t)head[2], w, n, &r));
    r->next = s->regions;
    s->regions = r;
    r->channel = (uint16_t)head[0];
    r->bucket = (uint16_t)head[1];
    r->began = head[4];
    TG_TRY(get_clocks(s, c, i, r));
    TG_TRY(get_late(s, c, i, r));
    TG_TRY(s->mode.gathers ? get_sent(c, i, r) : get_own(s, c, i, r));
    if (s->mode.gathers) {
        s->step = TG__MAX(s->step, r->began);
        for (int rank = 0; rank < s->ranks; rank++)
            r->rank[rank].counts = s->in[rank].worker != 0;
    }
    s->founded |= head[5] != 0;
    for (size_t k = 0; k < TG__REGION_SLICES; k++)
        r->updates[k] = tg__get64(entry + 8 * (TG_COUNT(head) + k));
    for (size_t k = 0; k < TG__REGION_SLOTS; k++)
        if (r->slot[k] != NULL)
            TG_TRY(tg__ckpt_read(c, section(name, "slot", i, k), r->slot[k], len));
    return TG_OK;
}

/* The server may have been restarted with another number of seats. */
static tg_status get_workers(tg_server *s, tg__ckpt_reader *c)
{
    const void *entries;
    size_t len;
    TG_TRY(tg__ckpt_get(c, "workers", SIZE_MAX, &entries, &len));
    if (len % WORKER != 0)
        return tg_fail(TG_E_CORRUPT, "snapshot: its workers take %zu bytes", len);
    for (size_t rank = 0; rank < len / WORKER && rank < (size_t)s->ranks; rank++) {
        const uint8_t *entry = (const uint8_t *)entries + WORKER * rank;
        s->in[rank].worker = tg__get32(entry);
        s->in[rank].number = tg__get64(entry + 4);
        s->in[rank].base = tg__get64(entry + 12);
    }
    return TG_OK;
}

static tg_status get_all(tg_server *s, tg__ckpt_reader *c)
{
    const void *entries;
    size_t len;
    TG_TRY(get_workers(s, c));
    TG_TRY(tg__ckpt_get(c, "regions", SIZE_MAX, &entries, &len));
    if (len % ENTRY != 0)
        return tg_fail(TG_E_CORRUPT, "snapshot: its regions take %zu bytes", len);
    for (size_t i = len / ENTRY; i-- > 0;) /* the last one becomes the first of the list */
        TG_TRY(get_region(s, c, i, (const uint8_t *)entries + ENTRY * i));
    return get_centers(s, c);
}

static tg_status check_identity(const tg_server *s, tg__ckpt_reader *c, const char *identity)
{
    const void *text;
    size_t len;
    tg__unlike u;
    TG_TRY(tg__ckpt_get(c, TG__CKPT_IDENTITY, SIZE_MAX, &text, &len));
    if (!tg__settings_differ((tg__settings){text, len}, (tg__settings){identity, strlen(identity)},
                             NULL, &u))
        return TG_OK;
    return tg_fail(TG_E_MISMATCH,
                   "journal %s is of another server: it was written with \"%s\", this server has "
                   "\"%s\"",
                   s->journal.dir, u.has[0] ? u.text[0] : "", u.has[1] ? u.text[1] : "");
}

static tg_status read_snapshot(tg_server *s)
{
    char identity[1024];
    tg__ckpt_reader *c;
    TG__FREED char *path = tg__journal_snapshot(&s->journal, s->journal.number);
    if (path == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory: snapshot");
    TG_TRY(write_identity(s, identity, sizeof identity));
    TG_TRY(tg__ckpt_open(path, NULL, &c));
    tg_status status = check_identity(s, c, identity);
    if (status == TG_OK)
        status = get_all(s, c);
    tg__ckpt_close(c);
    return status == TG_OK || status == TG_E_MISMATCH ? status
                                                      : tg_fail(status, "%s: %s", path, tg_error());
}

static tg_status replay(void *arg, const tg__journal_record *record, const uint8_t *body)
{
    tg_server *s = arg;
    if (record->rank >= (uint32_t)s->ranks)
        return tg_fail(TG_E_MISMATCH, "of worker %u: this server is for %d workers", record->rank,
                       s->ranks);
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

tg_status tg__snapshot_recover(tg_server *s, const char *dir)
{
    bool found;
    TG_TRY(tg__journal_open(&s->journal, dir, &found));
    if (!found)
        return tg__snapshot_write(s, 0);
    TG_TRY(read_snapshot(s));
    const uint64_t step = tg__clocks_now(s);
    tg_status status = tg__journal_replay(&s->journal, replay, s);
    if (status == TG_E_CORRUPT)
        status = tg_fail(status,
                         "%s; to continue from the snapshot, after step %llu, move that log to "
                         "another folder: all gradients that came since then are lost",
                         tg_error(), (unsigned long long)step);
    return tg__gatherings_end_replay(s, status);
}

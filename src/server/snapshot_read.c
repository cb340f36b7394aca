/* Reads what snapshot.c has written. */
#include "base/mem.h"
#include "base/settings.h"
#include "server/server_impl.h"
#include "server/snapshot_layout.h"
#include "server/tensors.h"
#include "state/checkpoint.h"
#include "state/state.h"
#include <string.h>

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
            r->rank[rank].counts = true; /* while the log is read: it says who comes and goes */
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
    for (const tg__region *r = s->regions; r != NULL; r = r->next)
        TG_TRY(tg__tensors_get(s, c, r->channel));
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

tg_status tg__snapshot_read(tg_server *s)
{
    char identity[1024];
    tg__ckpt_reader *c;
    TG__FREED char *path = tg__journal_snapshot(&s->journal, s->journal.number);
    if (path == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory: snapshot");
    TG_TRY(tg__snapshot_identity(s, identity, sizeof identity));
    TG_TRY(tg__ckpt_open(path, NULL, &c));
    tg_status status = check_identity(s, c, identity);
    if (status == TG_OK)
        status = get_all(s, c);
    tg__ckpt_close(c);
    return status == TG_OK || status == TG_E_MISMATCH ? status
                                                      : tg_fail(status, "%s: %s", path, tg_error());
}

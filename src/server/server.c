/* The server's loop, and the public functions. */
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/time_after.h"
#include "server/round.h"
#include "server/snapshot.h"
#include "server/tensors.h"
#include "telegrad/clock.h"
#include "transport/endpoint.h"
#include <stdlib.h>

#define SECOND INT64_C(1000000000)
#define TIMEOUT_MS 50000
#define JOURNAL_BYTES ((uint64_t)256 << 20)

/* ---- the loop -------------------------------------------------------------------------------- */

/* Leave the transport, and blame a rank; -1: nobody. */
static tg_status leave(tg_server *s, int rank, tg_status status)
{
    if (s->failed)
        return status;
    s->failed = true;
    if (rank >= 0 && s->t->ops->blame != NULL)
        s->t->ops->blame(s->t, tg__server_peer(s, rank));
    s->released = s->t->ops->shut(s->t);
    return status;
}

/* Since when nothing comes from the rank that g waits for, as far as moving bytes count.
 * moves_p  [out] they move, but have done so for too long */
static int64_t silent_since(const tg_server *s, const tg__gathering *g, int rank, bool *moves_p)
{
    const int64_t since = TG__MAX(g->from_ns, s->in[rank].heard_ns);
    const int64_t moved = tg__active_ns(s->t, tg__server_peer(s, rank));
    const int64_t most = s->timeout_ns > INT64_MAX / 2 / TG__MESSAGE_TIMEOUTS
                             ? INT64_MAX
                             : since + (TG__MESSAGE_TIMEOUTS - 1) * s->timeout_ns;
    *moves_p = moved > most;
    return TG__MAX(since, TG__MIN(moved, most));
}

/* Find a rank that has kept others waiting for too long. *due_ns_p: when to check again. */
static tg_status check_late(tg_server *s, int64_t now, int64_t *due_ns_p)
{
    char where[64];
    *due_ns_p = now + SECOND;
    for (const tg__gathering *g = s->active; g != NULL; g = g->link) {
        const int rank = tg__gathering_waits_for(s, g);
        if (rank < 0)
            continue;
        bool moves;
        const int64_t since = silent_since(s, g, rank, &moves);
        *due_ns_p = TG__MIN(*due_ns_p, now + s->timeout_ns / 16); /* to see what moves */
        if (now - since >= s->timeout_ns) {
            const int times = moves ? TG__MESSAGE_TIMEOUTS : 1;
            (void)tg_fail(TG_E_PEER,
                          "%s %d sent nothing%s for %.1f s, but others wait for its gradient %s",
                          s->hosts ? "worker" : "rank", tg__server_peer(s, rank),
                          moves ? " that was whole" : "",
                          (double)(now - since + (times - 1) * s->timeout_ns) * 1e-9,
                          tg__server_where(&g->id, where));
            if (!s->hosts)
                return leave(s, rank, TG_E_PEER);
            if (s->in[rank].here)
                TG_TRY(tg__intake_vacate(s, rank));
            *due_ns_p = now;
            return tg__rounds_pass(s, rank);
        }
        *due_ns_p = TG__MIN(*due_ns_p, tg__time_after(since, s->timeout_ns));
    }
    const int absent = tg__late_absent(s, now, due_ns_p);
    if (absent >= 0) {
        *due_ns_p = now;
        return tg__rounds_pass(s, absent);
    }
    if (s->rounds != NULL && s->deadline_ns > 0)
        *due_ns_p = TG__MIN(*due_ns_p, s->expires_ns);
    return TG_OK;
}

/* Put the gradients that have arrived on disk, and answer them. */
static tg_status commit(tg_server *s, bool *any_p)
{
    if (!s->unsynced) /* a record of an answer alone goes with the next gradient */
        return TG_OK;
    *any_p = true;
    TG_TRY(tg__journal_sync(&s->journal));
    s->unsynced = false;
    s->stats.journal_syncs = s->journal.syncs;
    s->stats.journal_ns = s->journal.sync_ns;
    TG_TRY(tg__gatherings_release(s)); /* before the snapshot, which holds what was answered */
    if (tg__snapshot_is_due(s))
        TG_TRY(tg__snapshot_write(s, s->journal.number + 1));
    s->stats.journal_bytes = s->journal.len;
    return TG_OK;
}

/* Replace the journal's log by a snapshot, so that the next start is quick. */
static tg_status settle(tg_server *s)
{
    if (s->journal.dir == NULL || s->journal.records == 0)
        return TG_OK;
    TG_TRY(tg__journal_sync(&s->journal));
    if (tg__rounds_wait(s)) /* the log has what waits */
        return TG_OK;
    return tg__snapshot_write(s, s->journal.number + 1);
}

static tg_status serve(tg_server *s)
{
    bool idle = false;
    while (s->stats.ranks > 0 || s->active != NULL || s->hosts) {
        bool any = false;
        for (int rank = 0; rank < s->ranks; rank++) {
            const tg_status status = tg__intake_receive(s, rank, &any);
            if (status == TG_OK)
                continue;
            if (s->hosts && status != TG_E_NOMEM && !s->journal.broken)
                TG_TRY(tg__intake_vacate(s, rank));
            else
                return s->culprit >= 0 ? leave(s, s->culprit, status)
                                       : leave(s, rank,
                                               tg_fail(status, "from rank %d: %s",
                                                       tg__server_peer(s, rank), tg_error()));
        }
        TG_TRY(tg__rounds_expire(s));
        if (s->journal.dir != NULL)
            TG_TRY(commit(s, &any));
        TG_TRY(tg__answers_progress(s, &any));
        if (s->stop != NULL && *s->stop) {
            TG_TRY(settle(s));
            return tg_fail(TG_E_STOPPED, "the server was asked to stop");
        }
        if (any) {
            idle = false;
            continue;
        }
        if (s->hosts && !idle) { /* after a long round: see what has arrived first */
            idle = true;
            TG_TRY(s->t->ops->poll(s->t, tg_now_ns(s->t->clock)));
            continue;
        }
        idle = false;
        int64_t due;
        const int64_t now = tg_now_ns(s->t->clock);
        TG_TRY(check_late(s, now, &due));
        if (s->unsynced) /* what it has changed goes to disk first */
            continue;
        TG_TRY(s->t->ops->poll(s->t, due));
        s->stats.waited_ns += tg_now_ns(s->t->clock) - now;
    }
    return TG_OK;
}

typedef struct seat_age {
    uint64_t steps;
    int rank;
} seat_age;

static int compare_ages(const void *a, const void *b)
{
    const seat_age *x = a, *y = b;
    return x->steps != y->steps ? (x->steps > y->steps) - (x->steps < y->steps)
                                : (x->rank > y->rank) - (x->rank < y->rank);
}

/* A server that was started again: the workers that it remembers may be back. Those that have made
 * the fewest steps are the least likely to, so their seats are the first that others get. */
static tg_status expect_workers(tg_server *s)
{
    TG__FREED seat_age *age = NULL;
    int count = 0;
    if (!TG_HAS(tg_transport_ops, s->t->ops, expect) || s->t->ops->expect == NULL)
        return TG_OK;
    TG_TRY(tg_alloc((size_t)s->ranks, sizeof *age, &age));
    for (int rank = 0; rank < s->ranks; rank++) {
        uint64_t steps = 0;
        for (const tg__region *r = s->regions; r != NULL; r = r->next)
            steps = TG__MAX(steps, r->rank[rank].clock);
        if (s->in[rank].worker != 0)
            age[count++] = (seat_age){.steps = steps, .rank = rank};
    }
    qsort(age, (size_t)count, sizeof *age, compare_ages);
    for (int i = 0; i < count; i++)
        s->t->ops->expect(s->t, age[i].rank);
    return TG_OK;
}

tg_status tg_server_run(tg_server *s)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    if (s->failed)
        return tg_fail(TG_E_STATE, "tg_server_run: this server has left its transport");
    if (s->ran)
        return tg_fail(TG_E_STATE, "tg_server_run: this server has run already");
    s->ran = true;
    const tg_status expected = expect_workers(s);
    if (expected != TG_OK)
        return leave(s, -1, expected);
    for (int rank = 0; rank < s->ranks; rank++) {
        const tg_status began = tg__intake_begin(s, rank);
        if (began != TG_OK && began != TG_E_PEER)
            return leave(s, -1, began);
        if (began == TG_E_PEER) /* it has left already */
            s->in[rank].awaits = TG__AWAITS_NOTHING;
        s->in[rank].here = began == TG_OK && !s->hosts;
        s->stats.ranks += s->in[rank].here;
    }
    const tg_status status = serve(s);
    return status == TG_OK ? TG_OK : leave(s, -1, status);
}

static tg_status set_min_workers(tg_server *s, int64_t asked)
{
    if (asked < 0 || asked > s->ranks)
        return tg_fail(TG_E_ARG, "tg_server_create: config->min_workers=%lld: allowed: 0..%d",
                       (long long)asked, s->ranks);
    if (asked > 0 && !((s->hosts || s->deadline_ns > 0) && s->mode.gathers))
        return tg_fail(TG_E_UNSUPPORTED,
                       "tg_server_create: config->min_workers=%lld requires workers that come and "
                       "go, or deadline_ms, and mode sync or async:staleness=0; this one is "
                       "\"%s\"",
                       (long long)asked, tg_spec_text(s->mode.spec));
    s->min_workers = TG__MAX(TG__MAX((int)asked, 1), tg__robust_least(&s->mode.rule));
    return TG_OK;
}

static tg_status set_deadline(tg_server *s, int64_t asked)
{
    if (asked < 0 || asked >= s->timeout_ns / 1000000)
        return tg_fail(TG_E_ARG,
                       "tg_server_create: config->deadline_ms=%lld: allowed: 0 to less than "
                       "timeout_ms, %lld",
                       (long long)asked, (long long)(s->timeout_ns / 1000000));
    if (asked > 0 && !(s->mode.keeps && s->mode.gathers))
        return tg_fail(TG_E_UNSUPPORTED,
                       "tg_server_create: config->deadline_ms=%lld requires mode sync or "
                       "async:staleness=0; this one is \"%s\"",
                       (long long)asked, tg_spec_text(s->mode.spec));
    s->deadline_ns = asked * INT64_C(1000000);
    s->expires_ns = INT64_MAX;
    s->stops_after = UINT64_MAX;
    return TG_OK;
}

/* With nodes, only their leaders send gradients. */
static tg_status set_nodes(tg_server *s, const tg_server_config *c)
{
    if (c->nodes == NULL)
        return TG_OK;
    if (s->hosts)
        return tg_fail(TG_E_UNSUPPORTED, "tg_server_create: config->nodes with workers that come "
                                         "and go, of which each stands alone");
    if (c->deadline_ms > 0)
        return tg_fail(TG_E_UNSUPPORTED, "tg_server_create: config->nodes and deadline_ms cannot "
                                         "be combined: only a leader would learn that it is late");
    if (s->mode.rule.kind != TG__ROBUST_NONE)
        return tg_fail(TG_E_UNSUPPORTED,
                       "tg_server_create: config->nodes with mode \"%s\": only a leader would "
                       "learn that it is left out: allowed: combine=mean",
                       tg_spec_text(s->mode.spec));
    TG_TRY(tg__nodes_create("tg_server_create", c->nodes, 0, s->ranks, &s->nodes));
    s->ranks = tg__nodes_talkers(s->nodes, s->ranks);
    return TG_OK;
}

static tg_status set_up(tg_server *s, tg_transport *t, int servers, const tg_server_config *c)
{
    s->t = t;
    s->ranks = s->first_server = t->size - servers;
    s->timeout_ns = (c->timeout_ms == 0 ? TIMEOUT_MS : c->timeout_ms) * INT64_C(1000000);
    s->stop = c->stop;
    s->on_event = c->on_event;
    s->on_event_arg = c->on_event_arg;
    s->on_replay = c->on_replay;
    s->on_replay_arg = c->on_replay_arg;
    s->released = true;
    s->culprit = -1;
    s->hosts = TG_HAS(tg_transport_ops, t->ops, drop) && t->ops->drop != NULL;
    s->shard = c->shard;
    s->shards = c->shards;
    TG_TRY(tg__mode_parse(c->mode == NULL ? "sum" : c->mode, c->optimizer, &s->mode));
    if (s->hosts && !s->mode.keeps)
        return tg_fail(TG_E_UNSUPPORTED,
                       "server mode \"%s\": workers that come and go need a server that keeps the "
                       "parameters: allowed: sync, async",
                       tg_spec_text(s->mode.spec));
    TG_TRY(set_nodes(s, c));
    TG_TRY(tg__robust_init(&s->robust, &s->mode.rule, s->ranks));
    s->robust.kept = &s->kept;
    TG_TRY(set_deadline(s, c->deadline_ms));
    TG_TRY(set_min_workers(s, c->min_workers));
    TG_TRY(tg_alloc((size_t)s->ranks, sizeof *s->in, &s->in));
    if (c->journal == NULL)
        return TG_OK;
    if (!s->hosts)
        return tg_fail(TG_E_UNSUPPORTED,
                       "tg_server_create: config->journal requires a transport whose workers come "
                       "and go");
    s->journal_bytes = c->journal_bytes == 0 ? JOURNAL_BYTES : c->journal_bytes;
    TG_TRY(tg__snapshot_recover(s, c->journal));
    for (const tg__region *r = s->regions; r != NULL; r = r->next)
        s->stats.recovered += r->n;
    for (int rank = 0; rank < s->ranks; rank++) { /* no worker is connected */
        s->in[rank].heard_ns = tg_now_ns(t->clock);
        for (tg__region *r = s->regions; r != NULL && !s->mode.gathers; r = r->next) {
            r->rank[rank].counts = false;
            if (s->in[rank].worker == 0) /* nor will this one be back */
                tg__region_forget(r, rank);
        }
    }
    const uint64_t step = tg__clocks_now(s);
    s->stats = (tg_server_stats){.recovered = s->stats.recovered, /* not of the replay */
                                 .recovered_step = step,
                                 .step = step > 0 ? step - 1 : 0,
                                 .journal_bytes = s->journal.len};
    return TG_OK;
}

tg_status tg_server_create(tg_transport *transport, int servers, const tg_server_config *config,
                           tg_server **s_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(transport, s_p);
    tg_server_config own = {.struct_size = sizeof own};
    TG_TRY(tg__transport_check("tg_server_create", "transport", transport));
    TG_TRY(tg__servers_check("tg_server_create", transport, servers));
    if (config != NULL)
        TG_TRY(tg__sized_in("tg_server_create: config", &own, sizeof own,
                            TG__FIRST_SIZE(tg_server_config, optimizer), config));
    if (own.timeout_ms < 0 || own.timeout_ms > INT64_MAX / 1000000)
        return tg_fail(TG_E_ARG, "tg_server_create: config->timeout_ms=%lld: allowed: 0..%lld",
                       (long long)own.timeout_ms, (long long)(INT64_MAX / 1000000));
    if (transport->rank < transport->size - servers)
        return tg_fail(TG_E_ARG,
                       "tg_server_create: transport->rank=%d is no server: allowed: %d..%d",
                       transport->rank, transport->size - servers, transport->size - 1);
    if (own.shard < 0 || own.shard >= TG_SERVERS_MAX)
        return tg_fail(TG_E_ARG, "tg_server_create: config->shard=%d: allowed: 0..%d", own.shard,
                       TG_SERVERS_MAX - 1);
    if (own.shards < 0 || own.shards > TG_SERVERS_MAX ||
        (own.shards > 0 && own.shard >= own.shards))
        return tg_fail(TG_E_ARG,
                       "tg_server_create: config->shards=%d: allowed: 0 (not known), or more than "
                       "shard (%d), at most %d",
                       own.shards, own.shard, TG_SERVERS_MAX);
    tg_server *s;
    TG_TRY(tg_alloc(1, sizeof *s, &s));
    const tg_status status = set_up(s, transport, servers, &own);
    if (status != TG_OK) {
        tg_server_destroy(s);
        return status;
    }
    *s_p = s;
    return TG_OK;
}

tg_status tg_server_get_stats(const tg_server *s, tg_server_stats *stats)
{
    TG__OWN_FLOATS;
    TG__ARGS(s, stats);
    TG_TRY(tg__sized_room("tg_server_get_stats: stats", stats,
                          TG__FIRST_SIZE(tg_server_stats, combined_ns)));
    tg_server_stats own = s->stats;
    for (const tg__region *r = s->regions; r != NULL; r = r->next)
        own.parameters += r->n;
    tg__sized_out(stats, &own, sizeof own);
    return TG_OK;
}

static void free_gatherings(tg_server *s, tg__gathering *list)
{
    while (list != NULL) {
        tg__gathering *g = list;
        list = g->link;
        for (int rank = 0; rank < s->ranks; rank++)
            tg__store_give(&s->store, g->rank[rank].msg);
        tg__store_give(&s->store, g->answer);
        free(g->coding);
        free(g->tensors);
        free(g);
    }
}

void tg_server_destroy(tg_server *s)
{
    if (s == NULL)
        return;
    bool posted = s->active != NULL;
    for (int rank = 0; s->in != NULL && rank < s->ranks; rank++)
        posted = posted || s->in[rank].awaits != TG__AWAITS_NOTHING;
    if (posted && !s->failed)
        (void)leave(s, -1, TG_OK);
    while (s->rounds != NULL) /* their gatherings are active ones */
        tg__round_free(s, s->rounds);
    if (s->released) { /* otherwise the transport may still use posted memory */
        free_gatherings(s, s->active);
        free_gatherings(s, s->idle);
        for (int rank = 0; s->in != NULL && rank < s->ranks; rank++)
            tg__store_give(&s->store, s->in[rank].msg);
        tg__store_fini(&s->store);
        while (s->regions != NULL) {
            tg__region *r = s->regions;
            s->regions = r->next;
            tg__region_destroy(r);
        }
        tg__recoders_free(s->recoders);
        tg__robust_fini(&s->robust);
        tg__mode_free(&s->mode);
        tg__kept_free(&s->kept);
        tg__keeping_fini(s);
        tg__journal_close(&s->journal);
        tg__nodes_destroy(s->nodes);
        free(s->in);
        tg__intake_forget_sessions(s);
        tg__tensors_forget(s);
        free(s->channels);
        free(s);
    }
}

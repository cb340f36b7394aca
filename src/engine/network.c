/* If each of P ranks sends m bytes to each of the P-1 others, the exchange takes
 *
 *     T(m) = delay + (P-1) (m + envelope) byte
 *
 * so two sizes determine both. The larger size grows until its bytes take longer than the
 * disturbances: jitter, which is a fraction of the delay, and other work on the same cores. */
#include "engine/network.h"
#include "base/mem.h"
#include "engine/collect.h"
#include "exchange/gather.h"
#include "telegrad/clock.h"

#include <math.h>
#include <string.h>

enum {
    SMALL = 8,      /* bytes per message */
    FIRST = 16384,  /* bytes that a rank sends: at first, */
    LAST = 1048576, /* at most; each step is GROWTH times the one before */
    GROWTH = 8,
    SMALL_RUN = 2, /* consecutive exchanges; each begins when the one before is complete */
    LARGE_RUN = 1,
    SMALL_RUNS = 4, /* repetitions; the shortest counts */
    LARGE_RUNS = 3
};

/* In seconds; `longest`: the largest plausible measurement. */
static const double long_enough = 0.02, longest = 1e9;

/* The ranks that measure: all, or the leaders of nodes. */
typedef struct talkers {
    tg__engine *engine;
    /* count: of the measuring ranks; rank: this rank's number among them, 0 if it is not one */
    int count, rank;
    bool talks;        /* this rank measures */
    tg__group leaders; /* rank NULL: all ranks */
} talkers;

static tg_status once(tg__engine *e, tg__op *op)
{
    TG_TRY(tg__engine_submit(e, op));
    return tg__engine_wait(e, op);
}

/* Seconds of one exchange on this rank. */
static tg_status time_runs(tg__engine *e, tg__op *op, int run, int runs, double *seconds_p)
{
    const tg_clock *clock = tg__engine_transport(e)->clock;
    double least = INFINITY;
    TG_TRY(once(e, op)); /* all ranks are here now; buffers and connections are warm */
    for (int i = 0; i < runs; i++) {
        const int64_t begin_ns = tg_now_ns(clock);
        for (int k = 0; k < run; k++)
            TG_TRY(once(e, op));
        least = fmin(least, (double)(tg_now_ns(clock) - begin_ns) / 1e9 / run);
    }
    *seconds_p = least;
    return TG_OK;
}

/* Seconds of this rank's exchanges of m bytes with the other measuring ranks. Other ranks run as
 * many empty exchanges, so that all ranks count alike. */
static tg_status time_own(const talkers *k, size_t m, int run, int runs, double *seconds_p)
{
    tg__op *op;
    TG_TRY(tg_alloc(1, sizeof *op, &op));
    op->task.group = k->talks ? &k->leaders : NULL;
    tg_status status = tg__gather_create(k->rank, k->talks ? k->count : 1, m, 0, &op->x);
    op->flight.no_step = true;
    if (status == TG_OK) {
        tg__gather_set(op->x, NULL, m);
        status = time_runs(k->engine, op, run, runs, seconds_p);
    }
    tg__op_release(k->engine, op);
    if (status == TG_OK && !k->talks)
        *seconds_p = 0;
    return status;
}

static tg_status largest(tg__engine *e, const tg__exchange *x, double *seconds_p)
{
    double most = 0, one;
    size_t len;
    for (int rank = 0; rank < x->size; rank++) {
        const uint8_t *bytes = tg__gather_get(x, rank, &len);
        memcpy(&one, bytes, sizeof one);
        if (!(one >= 0 && one <= longest)) {
            const tg_status status =
                tg_fail(TG_E_CORRUPT, "rank %d says that an exchange took %g s: allowed: 0 to %g",
                        rank, one, longest);
            tg__engine_give_up(e, status, rank);
            return status;
        }
        most = fmax(most, one);
    }
    *seconds_p = most;
    return TG_OK;
}

/* The longest time of all ranks in seconds, for messages of m bytes. Ranks that do not measure have
 * waited since the last common exchange. */
static tg_status time_messages(const talkers *k, size_t m, int run, int runs, double *seconds_p)
{
    const tg__group all = {.patience = k->talks ? 1 : 2 + (unsigned)(run * runs)};
    double own;
    TG_TRY(time_own(k, m, run, runs, &own));
    const tg__speech speech = {.own = &own,
                               .len = sizeof own,
                               .cap = sizeof own,
                               .full = tg__engine_transport(k->engine)->size,
                               .group = &all};
    tg__op *op;
    TG_TRY(tg__collect(k->engine, "how long exchanges took", &speech, &op));
    const tg_status status = largest(k->engine, op->x, seconds_p);
    tg__op_release(k->engine, op);
    return status;
}

static tg_status measure(const talkers *k, tg__network *net_p)
{
    const double others = k->count - 1;
    double small, large, few = others * (SMALL + TG__ENVELOPE_BYTES);
    TG_TRY(time_messages(k, SMALL, SMALL_RUN, SMALL_RUNS, &small));
    for (size_t sent = FIRST;; sent *= GROWTH) {
        const size_t m = (size_t)((double)sent / others) + SMALL;
        TG_TRY(time_messages(k, m, LARGE_RUN, LARGE_RUNS, &large));
        if (large - small > fmax(long_enough, small) || sent * GROWTH > LAST) {
            net_p->byte = fmax(0, large - small) / (others * (double)(m - SMALL));
            net_p->delay = fmax(0, small - few * net_p->byte);
            return TG_OK;
        }
    }
}

tg_status tg__network_measure(tg__engine *e, const tg__nodes *nodes, tg__network *net_p)
{
    const tg_transport *t = tg__engine_transport(e);
    talkers k = {
        .engine = e, .count = t->size, .rank = t->rank, .talks = true, .leaders = {.patience = 1}};
    if (tg__nodes_talkers(nodes, t->size) == 1) {
        *net_p = (tg__network){0};
        return TG_OK;
    }
    if (nodes != NULL) {
        k.count = nodes->count;
        k.talks = nodes->index == 0;
        k.rank = k.talks ? nodes->node : 0;
        k.leaders.rank = nodes->leader;
    }
    return measure(&k, net_p);
}

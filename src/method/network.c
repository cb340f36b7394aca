/* An exchange in which every rank sends m bytes to each of P-1 others takes
 *
 *     T(m) = delay + (P-1) (m + envelope) byte
 *
 * so two sizes give both. The larger one grows until its bytes take longer than what disturbs the
 * measuring: jitter, which is some part of the delay, and other work on the same cores. */
#include "method/network.h"
#include "base/mem.h"
#include "exchange/gather.h"
#include "method/handshake.h"

#include <math.h>
#include <stdlib.h>

enum {
    SMALL = 8,      /* bytes a message */
    FIRST = 16384,  /* bytes a rank sends: ... */
    LAST = 1048576, /* ... the most; each step in between is GROWTH times the one before */
    GROWTH = 8,
    SMALL_RUN = 2, /* exchanges in a row, each beginning when the one before is over ... */
    LARGE_RUN = 1,
    SMALL_RUNS = 4, /* ... so often, of which the shortest counts */
    LARGE_RUNS = 3
};

static const double long_enough = 0.02; /* seconds */

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
    TG_TRY(once(e, op)); /* all are here now, and buffers and connections are warm */
    for (int i = 0; i < runs; i++) {
        const int64_t begin_ns = tg_now_ns(clock);
        for (int k = 0; k < run; k++)
            TG_TRY(once(e, op));
        least = fmin(least, (double)(tg_now_ns(clock) - begin_ns) / 1e9 / run);
    }
    *seconds_p = least;
    return TG_OK;
}

/* The longest of all ranks' seconds, for messages of m bytes. */
static tg_status time_messages(tg__engine *e, size_t m, int run, int runs, double *seconds_p)
{
    const tg_transport *t = tg__engine_transport(e);
    double own = 0, *all;
    tg__op *op;
    TG_TRY(tg__alloc(1, sizeof *op, &op));
    tg_status status = tg__gather_create(t->rank, t->size, m, &op->x);
    if (status == TG_OK) {
        tg__gather_say_all(op->x);
        status = time_runs(e, op, run, runs, &own);
    }
    tg__op_release(e, op, status);
    TG_TRY(status);
    TG_TRY(tg__alloc((size_t)t->size, sizeof *all, &all));
    status = tg__gather_all(e, &own, sizeof own, all);
    for (int rank = 0; rank < t->size && status == TG_OK; rank++)
        own = fmax(own, all[rank]);
    free(all);
    if (status == TG_OK)
        *seconds_p = own;
    return status;
}

tg_status tg__network_measure(tg__engine *e, tg__network *net_p)
{
    const double others = tg__engine_transport(e)->size - 1;
    double small, large, few = others * (SMALL + TG__ENVELOPE_BYTES);
    if (others == 0) {
        *net_p = (tg__network){0};
        return TG_OK;
    }
    TG_TRY(time_messages(e, SMALL, SMALL_RUN, SMALL_RUNS, &small));
    for (size_t sent = FIRST;; sent *= GROWTH) {
        const size_t m = (size_t)((double)sent / others) + SMALL;
        TG_TRY(time_messages(e, m, LARGE_RUN, LARGE_RUNS, &large));
        if (large - small > fmax(long_enough, small) || sent * GROWTH > LAST) {
            net_p->byte = fmax(0, large - small) / (others * (double)(m - SMALL));
            net_p->delay = fmax(0, small - few * net_p->byte);
            return TG_OK;
        }
    }
}

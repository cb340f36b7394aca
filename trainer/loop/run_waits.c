/* Who waits for whom: reported during a wait, and summed up. */
#include "trainer/loop/run.h"
#include "telegrad/tools.h"

#include <stdlib.h>
#include <string.h>

#define SUMS_MOST 4096 /* numbers in one tg_session_sum */

void run_on_wait(void *arg, const tg_wait *wait)
{
    const run *r = arg;
    r->all_events->wait(r->all_events->arg, r->transport->rank, wait);
}

tg_status run_waits_begin(run *r)
{
    const size_t world = (size_t)r->transport->size;
    struct run_waits *w = &r->waits;
    TG_TRY(tg_alloc(3 * world, sizeof *w->ns, &w->ns));
    TG_TRY(tg_alloc(world, sizeof *w->for_rank, &w->for_rank));
    TG_TRY(tg_alloc(RUN_SUMS + world, sizeof *w->sums, &w->sums));
    TG_TRY(tg_session_waited(r->session, w->ns));
    memcpy(w->ns + world, w->ns, world * sizeof *w->ns);
    return TG_OK;
}

void run_waits_free(run *r)
{
    free(r->waits.ns);
    free(r->waits.for_rank);
    free(r->waits.sums);
}

/* The waits since tg_session_waited was `then` (world) and this rank's wait_ns was own_ns. by_rank:
 * this rank's entry; the sum over ranks gives all entries. */
static tg_status add_up(run *r, const int64_t *then, int64_t own_ns, double *by_rank)
{
    const int world = r->transport->size;
    int64_t *now = r->waits.ns + 2 * (size_t)world;
    TG_TRY(tg_session_waited(r->session, now));
    for (int i = 0; i < world; i++) {
        r->waits.for_rank[i] = (double)(now[i] - then[i]) / 1e9;
        by_rank[i] = i == r->transport->rank ? (double)(r->wait_ns - own_ns) / 1e9 : 0;
    }
    return TG_OK;
}

tg_status run_sum_epoch(run *r, double x[RUN_SUMS], train_waits *waits_p)
{
    const size_t world = (size_t)r->transport->size, n = RUN_SUMS + world;
    struct run_waits *w = &r->waits;
    *waits_p = (train_waits){.world = 0};
    if (world == 1 || n > SUMS_MOST)
        return tg_session_sum(r->session, x, RUN_SUMS);
    memcpy(w->sums, x, RUN_SUMS * sizeof *x);
    TG_TRY(add_up(r, w->ns + world, w->told_ns, w->sums + RUN_SUMS));
    memcpy(w->ns + world, w->ns + 2 * world, world * sizeof *w->ns);
    w->told_ns = r->wait_ns;
    TG_TRY(tg_session_sum(r->session, w->sums, n));
    memcpy(x, w->sums, RUN_SUMS * sizeof *x);
    *waits_p = (train_waits){(int)world, w->for_rank, w->sums + RUN_SUMS};
    return TG_OK;
}

tg_status run_waits_tell(run *r)
{
    const int world = r->transport->size;
    double *by_rank = r->waits.sums + RUN_SUMS;
    if (world == 1 || r->job->share)
        return TG_OK;
    TG_TRY(add_up(r, r->waits.ns, 0, by_rank));
    TG_TRY(tg_session_sum(r->session, by_rank, (size_t)world));
    const train_waits waits = {world, r->waits.for_rank, by_rank};
    return r->events != NULL && r->events->waited != NULL
               ? r->events->waited(r->events->arg, &waits)
               : TG_OK;
}

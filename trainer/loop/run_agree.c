/* Agreement between ranks outside of the session: settings, sums, stopping. */
#include "trainer/loop/run.h"
#include "telegrad/tools.h"
#include <stdlib.h>
#include <string.h>

/* With exchange=none no message carries a request to stop, so ranks sum their requests. Done this
 * rarely, the sum does not hold up ranks that otherwise never wait for each other. */
#define STOP_EVERY 16

typedef struct setting {
    const char *name;
    double value;
} setting;

/* all (world): scratch */
static tg_status compare(run *r, const setting *own, double *all)
{
    const int world = r->transport->size, rank = r->transport->rank;
    for (int i = 0; i < world; i++)
        all[i] = i == rank ? own->value : 0;
    TG_TRY(tg_session_sum(r->session, all, (size_t)world));
    for (int i = 0; i < world; i++) {
        if (all[i] != own->value)
            return tg_fail(TG_E_MISMATCH,
                           "ranks were started differently: rank %d has %s=%.0f, rank %d has "
                           "%s=%.0f",
                           rank, own->name, own->value, i, own->name, all[i]);
    }
    return TG_OK;
}

static tg_status cost_of_sum(run *r, double *x, size_t n, uint64_t *bytes_p)
{
    const uint64_t sent = run_sent(r);
    memset(x, 0, n * sizeof *x);
    TG_TRY(tg_session_sum(r->session, x, n));
    *bytes_p = run_sent(r) - sent;
    return TG_OK;
}

tg_status run_agree(run *r)
{
    const train_job *job = r->job;
    const setting own[] = {{"steps", (double)r->steps},
                           {"evaluate", job->evaluate},
                           {"save_dir", job->save_dir != NULL},
                           {"save_every", (double)job->save_every},
                           {"stop", job->stop != NULL}};
    double *all;
    r->traffic.begun = run_sent(r);
    TG_TRY(tg_alloc(RUN_SUMS + (size_t)r->transport->size, sizeof *all, &all));
    tg_status status = TG_OK;
    for (size_t i = 0; i < TG_COUNT(own) && status == TG_OK; i++)
        status = compare(r, &own[i], all);
    /* Measure the bytes of a sum now: later an exchange may be in flight at the same time. */
    double zero[RUN_SUMS] = {0};
    if (status == TG_OK)
        status = cost_of_sum(r, zero, RUN_SUMS, &r->traffic.sum);
    if (status == TG_OK)
        status = cost_of_sum(r, all, run_waits_sums(r), &r->traffic.epoch_sum);
    free(all);
    TG_TRY(status);
    r->traffic.apart = run_sent(r) - r->traffic.begun;
    return TG_OK;
}

tg_status run_sum(run *r, double x[RUN_SUMS])
{
    TG_TRY(tg_session_sum(r->session, x, RUN_SUMS));
    r->traffic.apart += r->traffic.sum;
    return TG_OK;
}

tg_status run_agree_on_signal(run *r)
{
    const int world = r->transport->size,
              own = r->job->stop ? __atomic_load_n(r->job->stop, __ATOMIC_RELAXED) : 0;
    double *all;
    if (!r->end.interrupted)
        return TG_OK;
    TG_TRY(tg_alloc((size_t)world, sizeof *all, &all));
    all[r->transport->rank] = own;
    const tg_status status = tg_session_sum(r->session, all, (size_t)world);
    for (int i = 0; i < world && status == TG_OK; i++)
        if (all[i] > r->end.stopped_by)
            r->end.stopped_by = (int)all[i];
    free(all);
    return status;
}

tg_status run_agree_on_stop(run *r, bool *stop_p)
{
    if (!r->apart || !r->job->stop || r->step % STOP_EVERY != 0)
        return TG_OK;
    double wishes[RUN_SUMS] = {__atomic_load_n(r->job->stop, __ATOMIC_RELAXED) != 0};
    TG_TRY(run_sum(r, wishes));
    *stop_p = wishes[0] > 0;
    return TG_OK;
}

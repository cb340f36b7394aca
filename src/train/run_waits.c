/* Who waits for whom, while it does and in all. */
#include "train/run.h"
#include "train/train_util.h"

#include <stdlib.h>

void run_on_wait(void *arg, const tg_wait *wait)
{
    const run *r = arg;
    r->all_events->wait(r->all_events->arg, r->transport->rank, wait);
}

tg_status run_waits_begin(run *r)
{
    TG_TRY(train_alloc((size_t)r->transport->size, sizeof *r->waited_ns, &r->waited_ns));
    return tg_session_waited(r->session, r->waited_ns);
}

/* ns (world): since the session began. for_rank, by_rank (world): out. */
static tg_status add_up(const run *r, int64_t *ns, double *for_rank, double *by_rank)
{
    const int world = r->transport->size;
    TG_TRY(tg_session_waited(r->session, ns));
    for (int i = 0; i < world; i++) {
        for_rank[i] = (double)(ns[i] - r->waited_ns[i]) / 1e9;
        by_rank[i] = i == r->transport->rank ? (double)r->wait_ns / 1e9 : 0;
    }
    return tg_session_sum(r->session, by_rank, (size_t)world);
}

tg_status run_waits_tell(run *r)
{
    const int world = r->transport->size;
    int64_t *ns = NULL;
    double *seconds = NULL;
    if (world == 1)
        return TG_OK;
    tg_status status = train_alloc((size_t)world, sizeof *ns, &ns);
    if (status == TG_OK)
        status = train_alloc(2 * (size_t)world, sizeof *seconds, &seconds);
    if (status == TG_OK)
        status = add_up(r, ns, seconds, seconds + world);
    const train_waits waits = {world, seconds, seconds + world};
    if (status == TG_OK && r->events != NULL && r->events->waited != NULL)
        status = r->events->waited(r->events->arg, &waits);
    free(seconds);
    free(ns);
    return status;
}

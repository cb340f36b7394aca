/* Between steps: all ranks report to rank 0, then rank 0 tells all of them how to go on. */
#include "base/mem.h"
#include "bench/exchange/exchange_impl.h"
#include "telegrad/clock.h"
#include <math.h>
#include <stdlib.h>

#define TAG (TG_TAG_LIMIT - 1)                  /* of sequence 4095, which no exchange uses here */
#define PATIENCE_NS (INT64_C(600) * 1000000000) /* how long to wait for another rank's step */
#define EMPTY_TURNS 4                           /* to measure the round trip */

struct turn {
    tg_transport *t;
    step_figures mine, *theirs; /* (size) */
    tg_request *request;        /* (size) */
    uint64_t more;
    int64_t lead_ns; /* travel time of rank 0's message */
};

static tg_status wait_for(turn *u, int peer, size_t want)
{
    tg_transport *t = u->t;
    const int64_t until = tg_now_ns(t->clock) + PATIENCE_NS;
    for (;;) {
        bool done = false;
        size_t len = 0;
        TG_TRY(t->ops->test(t, &u->request[peer], &done, &len));
        if (done)
            return len == want ? TG_OK
                               : tg_fail(TG_E_CORRUPT, "rank %d said %zu bytes: allowed: %zu", peer,
                                         len, want);
        if (tg_now_ns(t->clock) >= until)
            return tg_fail(TG_E_PEER, "rank %d said nothing for %d s after a step", peer,
                           (int)(PATIENCE_NS / 1000000000));
        TG_TRY(t->ops->poll(t, until));
    }
}

static tg_status hear(turn *u)
{
    tg_transport *t = u->t;
    for (int r = 1; r < t->size; r++)
        TG_TRY(t->ops->post_recv(t, r, TAG, &u->theirs[r], sizeof u->mine, &u->request[r]));
    for (int r = 1; r < t->size; r++)
        TG_TRY(wait_for(u, r, sizeof u->mine));
    return TG_OK;
}

static tg_status tell(turn *u)
{
    tg_transport *t = u->t;
    for (int r = 1; r < t->size; r++)
        TG_TRY(t->ops->post_send(t, r, TAG, &u->more, sizeof u->more, &u->request[r]));
    for (int r = 1; r < t->size; r++)
        TG_TRY(wait_for(u, r, sizeof u->more));
    return TG_OK;
}

tg_status turn_end(turn *u, const step_figures *mine)
{
    tg_transport *t = u->t;
    u->mine = *mine;
    if (t->rank == 0) {
        u->theirs[0] = *mine;
        return hear(u);
    }
    TG_TRY(t->ops->post_send(t, 0, TAG, &u->mine, sizeof u->mine, &u->request[0]));
    return wait_for(u, 0, sizeof u->mine);
}

const step_figures *turn_figures(const turn *u)
{
    return u->theirs;
}

tg_status turn_begin(turn *u, bool *more_p)
{
    tg_transport *t = u->t;
    if (t->rank == 0) {
        const int64_t begin_ns = tg_now_ns(t->clock);
        u->more = *more_p;
        TG_TRY(tell(u));
        if (t->size > 1)
            t->clock->sleep_until_ns(t->clock->arg, begin_ns + u->lead_ns);
        return TG_OK;
    }
    TG_TRY(t->ops->post_recv(t, 0, TAG, &u->more, sizeof u->more, &u->request[0]));
    TG_TRY(wait_for(u, 0, sizeof u->more));
    *more_p = u->more != 0;
    return TG_OK;
}

/* Half the shortest of a few round trips to all ranks. */
static tg_status measure_lead(turn *u)
{
    const step_figures nothing = {0};
    int64_t shortest = INT64_MAX;
    for (int i = 0; i < EMPTY_TURNS; i++) {
        bool more = true;
        const int64_t begin_ns = tg_now_ns(u->t->clock);
        TG_TRY(turn_begin(u, &more));
        TG_TRY(turn_end(u, &nothing));
        const int64_t took_ns = tg_now_ns(u->t->clock) - begin_ns;
        shortest = TG__MIN(shortest, took_ns);
    }
    u->lead_ns = shortest / 2;
    return TG_OK;
}

static tg_status fill(turn *u)
{
    TG_TRY(tg_alloc((size_t)u->t->size, sizeof *u->theirs, &u->theirs));
    TG_TRY(tg_alloc((size_t)u->t->size, sizeof *u->request, &u->request));
    return measure_lead(u);
}

tg_status turn_open(tg_transport *t, turn **u_p)
{
    TG_TRY(tg_alloc(1, sizeof **u_p, u_p));
    (*u_p)->t = t;
    return fill(*u_p);
}

void turn_close(turn *u)
{
    if (!u)
        return;
    free(u->theirs);
    free(u->request);
    free(u);
}

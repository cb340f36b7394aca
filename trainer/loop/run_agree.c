/* Agreement between ranks outside of the session: settings, sums, stopping. */
#include "trainer/loop/run.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With exchange=none no message carries a request to stop, so ranks sum their requests. Done this
 * rarely, the sum does not hold up ranks that otherwise never wait for each other. */
#define STOP_EVERY 16

uint64_t run_stops_every(const run *r)
{
    return r->apart ? STOP_EVERY : r->job->uneven && r->job->save_dir ? r->job->save_every : 0;
}

typedef struct setting {
    const char *name; /* an option of telegrad train, a field of train_job, or a unit */
    double value;
    bool flag; /* the value is 0 or 1: not given, or given */
} setting;

static void setting_text(const setting *s, double value, char *text, size_t room)
{
    if (s->flag)
        snprintf(text, room, "%s %s", value != 0 ? "has" : "does not have", s->name);
    else if (s->name[0] == '-')
        snprintf(text, room, "has %s %.0f", s->name, value);
    else
        snprintf(text, room, "has %.0f %s", value, s->name);
}

static tg_status differ(const setting *s, int rank, double own, int peer, double theirs)
{
    char mine[64], other[64];
    setting_text(s, own, mine, sizeof mine);
    setting_text(s, theirs, other, sizeof other);
    return tg_fail(TG_E_MISMATCH, "ranks were started differently: rank %d %s, rank %d %s", rank,
                   mine, peer, other);
}

/* all (world): scratch */
static tg_status compare(run *r, const setting *own, double *all)
{
    const int world = r->transport->size, rank = r->transport->rank;
    for (int i = 0; i < world; i++)
        all[i] = i == rank ? own->value : 0;
    TG_TRY(tg_session_sum(r->session, all, (size_t)world));
    for (int i = 0; i < world; i++)
        if (all[i] != own->value)
            return differ(own, rank, own->value, i, all[i]);
    return TG_OK;
}

static bool asked_to_stop(const run *r)
{
    if (r->end.untold[0])
        return true;
    return r->job->stop && __atomic_load_n(r->job->stop, __ATOMIC_RELAXED) != 0;
}

/* The largest of all ranks' numbers, and the lowest rank that has it. */
static tg_status find_largest(run *r, int own, int *largest_p, int *rank_p)
{
    const int world = r->transport->size;
    double *all;
    TG_TRY(tg_alloc((size_t)world, sizeof *all, &all));
    all[r->transport->rank] = own;
    const tg_status status = tg_session_sum(r->session, all, (size_t)world);
    int rank = 0;
    for (int i = 1; i < world; i++)
        rank = all[i] > all[rank] ? i : rank;
    if (status == TG_OK) {
        *largest_p = (int)all[rank];
        *rank_p = rank;
    }
    free(all);
    return status;
}

tg_status run_agree(run *r)
{
    const train_job *job = r->job;
    const setting own[] = {{"steps", (double)r->steps, false},
                           {"steps before a pause", (double)r->until, false},
                           {"--no-eval", !job->evaluate, true},
                           {"--save", job->save_dir != NULL, true},
                           {"--save-weights", job->save_weights != NULL, true},
                           {"--save-every", (double)job->save_every, false},
                           {"train_job.stop", job->stop != NULL, true}};
    double *all;
    r->sent_before = run_sent(r);
    TG_TRY(tg_alloc((size_t)r->transport->size, sizeof *all, &all));
    tg_status status = TG_OK;
    for (size_t i = 0; i < TG_COUNT(own) && status == TG_OK; i++)
        status = compare(r, &own[i], all);
    const double wish = asked_to_stop(r); /* before the first step */
    double wishes[RUN_SUMS] = {wish};
    if (status == TG_OK)
        status = tg_session_sum(r->session, wishes, RUN_SUMS);
    free(all);
    TG_TRY(status);
    if (wishes[0] > 0) {
        int asked = 0, rank = 0;
        TG_TRY(find_largest(r, (int)wish, &asked, &rank));
        return wish > 0 ? tg_fail(TG_E_STOPPED, "stopped on request before the first step")
                        : tg_fail(TG_E_PEER, "rank %d was interrupted before the first step", rank);
    }
    return TG_OK;
}

tg_status run_agree_on_signal(run *r)
{
    const int own = r->job->stop ? __atomic_load_n(r->job->stop, __ATOMIC_RELAXED) : 0;
    if (!r->end.interrupted)
        return TG_OK;
    if (r->lost || r->job->share) {
        r->end.stopped_by = own;
        r->end.stopped_at = r->transport->rank;
        return TG_OK;
    }
    TG_TRY(find_largest(r, own, &r->end.stopped_by, &r->end.stopped_at));
    if (r->end.stopped_by == 0) {
        int failed = 0;
        return find_largest(r, r->end.untold[0] != 0, &failed, &r->end.stopped_at);
    }
    if (own == r->end.stopped_by)
        r->end.stopped_at = r->transport->rank;
    return TG_OK;
}

tg_status run_told(run *r, tg_status status)
{
    if (status != TG_E_IO || (r->apart && !r->job->stop))
        return status;
    snprintf(r->end.untold, sizeof r->end.untold, "%s", tg_error());
    tg_session_request_stop(r->session);
    return TG_OK;
}

tg_status run_agree_on_stop(run *r, bool *stop_p)
{
    const uint64_t every = run_stops_every(r);
    if (every == 0 || !r->job->stop || r->step % every != 0)
        return TG_OK;
    double wishes[RUN_SUMS] = {asked_to_stop(r)};
    TG_TRY(tg_session_sum(r->session, wishes, RUN_SUMS));
    *stop_p = wishes[0] > 0;
    return TG_OK;
}

#include "trainer/loop/run_share.h"
#include "telegrad/tools.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct train_share {
    pthread_mutex_t mutex; /* guards all below */
    int64_t staleness;     /* -1: no bound */
    uint64_t taken, most;  /* steps taken by all ranks; the most that one of them has taken */
    bool over;             /* stopped: nobody takes another one */
    int ended;             /* ranks that have made their last step */
    bool failed;           /* a rank has left after an error */
    int64_t end_ns;        /* when the last of them had */
    double loss_sum;       /* of the steps since the last record of an epoch */
    uint64_t loss_count;   /* those with a finite loss */
};

tg_status train_share_create(int64_t staleness, train_share **s_p)
{
    train_share *s;
    TG_TRY(tg_alloc(1, sizeof *s, &s));
    pthread_mutex_init(&s->mutex, NULL);
    s->staleness = staleness;
    *s_p = s;
    return TG_OK;
}

void train_share_destroy(train_share *s)
{
    if (!s)
        return;
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

static uint64_t all_steps(const run *r)
{
    return r->steps * (uint64_t)r->transport->size;
}

bool run_share_take(run *r)
{
    train_share *s = r->job->share;
    pthread_mutex_lock(&s->mutex);
    const bool left = !s->over && s->taken < all_steps(r);
    const bool waited_for = s->staleness >= 0 && s->most > r->step + (uint64_t)s->staleness;
    if (left || waited_for) {
        const uint64_t turn = s->taken++ / (uint64_t)r->transport->size;
        r->turn = turn < r->steps ? turn : r->steps - 1;
        s->most = s->most > r->step ? s->most : r->step + 1;
    }
    pthread_mutex_unlock(&s->mutex);
    return left || waited_for;
}

void run_share_note(run *r, double loss, bool stop)
{
    train_share *s = r->job->share;
    pthread_mutex_lock(&s->mutex);
    s->over = s->over || stop;
    if (isfinite(loss)) {
        s->loss_sum += loss;
        s->loss_count++;
    }
    pthread_mutex_unlock(&s->mutex);
}

/* The mean loss since the last call. */
static double take_loss(train_share *s)
{
    pthread_mutex_lock(&s->mutex);
    const double mean = s->loss_count > 0 ? s->loss_sum / (double)s->loss_count : (double)NAN;
    s->loss_sum = 0;
    s->loss_count = 0;
    pthread_mutex_unlock(&s->mutex);
    return mean;
}

static tg_status test(run *r)
{
    const size_t bytes = r->model->nstate * sizeof(float);
    run_tested sums = {0};
    for (size_t i = 0; i < r->model->ntensors; i++)
        TG_TRY(tg_session_param_wait(r->session, r->id[i]));
    if (bytes > 0)
        memcpy(r->state_aside, r->model->state, bytes);
    run_clear_state(r);
    TG_TRY(run_test(r->model, r->test_loader, loader_steps_per_epoch(r->test_loader), NULL, &sums));
    if (bytes > 0)
        memcpy(r->model->state, r->state_aside, bytes);
    run_tested_means(&sums, &r->end.test_accuracy, &r->end.test_loss);
    return TG_OK;
}

tg_status run_share_close(run *r, bool last)
{
    const uint64_t epochs = r->turn / r->steps_per_epoch,
                   step = last ? r->turn : epochs * r->steps_per_epoch;
    if (r->transport->rank != 0 || step == 0 || (!last && epochs == r->share_epochs))
        return TG_OK;
    const double seconds = last ? r->end.seconds : run_seconds(r);
    r->share_epochs = epochs;
    r->end.train_loss = take_loss(r->job->share);
    r->end.test_loss = r->end.test_accuracy = NAN;
    if (r->job->evaluate && !r->end.interrupted)
        TG_TRY(test(r));
    if (!run_tells(r) || !r->events->epoch)
        return TG_OK;
    const train_epoch_info info = {.epoch = (step - 1) / r->steps_per_epoch,
                                   .step = step,
                                   .train_loss = r->end.train_loss,
                                   .test_accuracy = r->end.test_accuracy,
                                   .test_loss = r->end.test_loss,
                                   .seconds = seconds,
                                   .bytes_sent = tg_session_bytes_sent(r->session)};
    return run_told(r, r->events->epoch(r->events->arg, &info));
}

void run_share_fail(train_share *s)
{
    pthread_mutex_lock(&s->mutex);
    s->failed = s->over = true;
    pthread_mutex_unlock(&s->mutex);
}

/* Whether all ranks have ended, or one has failed. */
static bool all_have_ended(train_share *s, int world, bool *failed_p)
{
    pthread_mutex_lock(&s->mutex);
    *failed_p = s->failed;
    const bool all = s->ended == world;
    pthread_mutex_unlock(&s->mutex);
    return all || *failed_p;
}

/* Looks now and then: the session of a rank numbers its messages by its own steps, so there is no
 * sum over ranks whose numbers of steps differ. */
tg_status run_share_meet(run *r)
{
    train_share *s = r->job->share;
    const tg_clock *clock = r->transport->clock;
    const int64_t now = run_now(r), pause = (now - r->start_ns) / 1000 + 1;
    bool failed = false;
    pthread_mutex_lock(&s->mutex);
    s->ended++;
    s->end_ns = s->end_ns > now ? s->end_ns : now;
    pthread_mutex_unlock(&s->mutex);
    while (r->transport->rank == 0 && !all_have_ended(s, r->transport->size, &failed))
        clock->sleep_until_ns(clock->arg, run_now(r) + pause);
    if (failed)
        return tg_fail(TG_E_PEER, "another rank has left");
    pthread_mutex_lock(&s->mutex);
    const uint64_t taken = s->taken; /* rank 0: by now nobody takes one */
    r->end.seconds = (double)(s->end_ns - r->start_ns) / 1e9;
    r->end.interrupted = s->over && taken < all_steps(r);
    pthread_mutex_unlock(&s->mutex);
    r->turn = r->end.interrupted ? taken / (uint64_t)r->transport->size : r->steps;
    return TG_OK;
}

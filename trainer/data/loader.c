#include "trainer/data/loader.h"
#include "telegrad/tools.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>

#define AHEAD 3 /* batches in memory: the one in use and the next ones */

struct loader {
    batcher *batcher;
    uint64_t first, per_step; /* number of the first batch; batches in a step */
    batch_arrays arrays[AHEAD];
    model_batch made_batch[AHEAD];
    pthread_t thread;
    bool started;

    pthread_mutex_t mutex; /* guards the members below */
    pthread_cond_t changed;
    bool stop;
    uint64_t made, given, returned; /* numbers of batches; given > returned: one is in use */
};

static void *make_batches(void *arg)
{
    loader *l = arg;
    pthread_mutex_lock(&l->mutex);
    while (!l->stop) {
        if (l->made == l->returned + AHEAD) {
            pthread_cond_wait(&l->changed, &l->mutex);
            continue;
        }
        const uint64_t number = l->made;
        pthread_mutex_unlock(&l->mutex);
        l->made_batch[number % AHEAD] =
            batcher_fill(l->batcher, l->first + number, &l->arrays[number % AHEAD]);
        pthread_mutex_lock(&l->mutex);
        l->made++;
        pthread_cond_signal(&l->changed);
    }
    pthread_mutex_unlock(&l->mutex);
    return NULL;
}

static tg_status start(loader *l)
{
    if (batcher_per_epoch(l->batcher) == 0)
        return tg_fail(TG_E_STATE, "a rank without test samples asked for a batch");
    sigset_t all, old; /* the loader's thread must not receive signals */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int error = pthread_create(&l->thread, NULL, make_batches, l);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (error)
        return tg_fail(TG_E_NOMEM, "cannot start a thread that makes batches: %s", strerror(error));
    l->started = true;
    return TG_OK;
}

tg_status loader_next(loader *l, model_batch *batch_p)
{
    if (!l->started)
        TG_TRY(start(l));
    pthread_mutex_lock(&l->mutex);
    l->returned = l->given;
    pthread_cond_signal(&l->changed);
    while (l->made == l->given)
        pthread_cond_wait(&l->changed, &l->mutex);
    *batch_p = l->made_batch[l->given++ % AHEAD];
    pthread_mutex_unlock(&l->mutex);
    return TG_OK;
}

uint64_t loader_steps_per_epoch(const loader *l)
{
    return batcher_per_epoch(l->batcher) / l->per_step;
}

tg_status loader_create(const train_data *d, data_split split, const loader_config *config,
                        loader **l_p)
{
    loader *l;
    TG_TRY(tg_alloc(1, sizeof *l, &l));
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->per_step = split == DATA_TRAIN && config->parts ? config->parts : 1;
    l->first = config->first_step * l->per_step;
    tg_status status = batcher_create(d, split, config, &l->batcher);
    for (int i = 0; i < AHEAD && status == TG_OK; i++)
        status = batch_alloc(l->batcher, &l->arrays[i]);
    if (status != TG_OK) {
        loader_destroy(l);
        return status;
    }
    *l_p = l;
    return TG_OK;
}

void loader_destroy(loader *l)
{
    if (!l)
        return;
    if (l->started) {
        pthread_mutex_lock(&l->mutex);
        l->stop = true;
        pthread_cond_signal(&l->changed);
        pthread_mutex_unlock(&l->mutex);
        pthread_join(l->thread, NULL);
    }
    for (int i = 0; i < AHEAD; i++)
        batch_free(&l->arrays[i]);
    batcher_destroy(l->batcher);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->mutex);
    free(l);
}

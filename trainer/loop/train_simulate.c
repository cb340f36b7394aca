/* Rank 0's run, simulated: the same figures as a run with a simulated clock. */
#include "trainer/loop/run_times.h"
#include "trainer/data/shard.h"
#include "telegrad/tools.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct told {
    const train_job *job;
    const train_events *events;
    const tg_lr_schedule *lr;
    const train_sim_servers *servers; /* NULL: none */
    run_stats stats;
    uint64_t steps_per_epoch, steps, done;
    tg_sim_end until; /* progress so far */
    bool stopped;     /* stopped by job->stop */
} told;

/* Records hold whole nanoseconds and bytes in 64 bits. */
#define MOST_NS 9.2e18
#define MOST_BYTES 1.8e19

static int64_t whole(double ns)
{
    return llround(fmin(ns, MOST_NS));
}

static uint64_t epochs(const told *w, uint64_t steps)
{
    return w->steps_per_epoch ? steps / w->steps_per_epoch : 0;
}

static double ms(double ns)
{
    return ns / 1e6;
}

static tg_status tell(const told *w, const tg_sim_step *x, const run_step *record, bool stop)
{
    if (!w->events || !w->events->step)
        return TG_OK;
    const train_step_info info = {
        .step = x->step + 1,
        .epoch = epochs(w, x->step),
        .loss = NAN,
        .lr = tg_lr_schedule_at(w->lr, x->step),
        .tg = {.struct_size = sizeof info.tg,
               .step = x->step,
               .coded = x->coded,
               .density = NAN,
               .coded_bytes = record->coded_bytes,
               .encode_ns = whole(x->encode_ns),
               .exchange_ns = whole(x->exchange_ns),
               .decode_ns = whole(x->decode_ns),
               .bytes_sent = (uint64_t)record->bytes_exchanged,
               .bytes_dense = record->bytes_dense,
               .grad_norm = NAN,
               .apply_ns = whole(x->apply_ns),
               .wait_ns = whole(x->wait_ns),
               .stop = stop},
        .compute_ms = record->compute_ms,
        .step_ms = record->step_ms,
        .seconds = x->end_ns / 1e9,
    };
    return w->events->step(w->events->arg, &info);
}

static tg_status on_step(void *arg, const tg_sim_step *x)
{
    told *w = arg;
    if (!(x->end_ns <= MOST_NS && x->bytes_sent <= MOST_BYTES))
        return tg_fail(TG_E_UNSUPPORTED,
                       "step %llu would end after %.3g years, having sent %.3g bytes: allowed: 290 "
                       "years, %g bytes a step",
                       (unsigned long long)x->step + 1, x->end_ns / 1e9 / (365.25 * 24 * 3600),
                       x->bytes_sent, MOST_BYTES);
    const run_step record = {.step_ms = ms(x->end_ns - x->begin_ns),
                             .compute_ms = ms(x->compute_ns),
                             .exchange_ms = ms(x->exchange_ns),
                             .apply_ms = ms(x->apply_ns),
                             .wait_ms = ms(x->wait_ns),
                             .bytes_exchanged = x->bytes_sent,
                             .exchanged = x->bytes_sent > 0,
                             .bytes_dense = (uint64_t)x->bytes_dense,
                             .coded_bytes = (uint64_t)x->coded_bytes,
                             .encode_ns = x->encode_ns,
                             .decode_ns = x->decode_ns,
                             .coded = x->coded};
    TG_TRY(run_stats_add(&w->stats, &record));
    w->done = x->step + 1;
    w->until = (tg_sim_end){.ns = x->end_ns, .bytes = w->until.bytes + x->bytes_sent};
    const bool stop =
        w->done < w->steps && w->job->stop && __atomic_load_n(w->job->stop, __ATOMIC_RELAXED) != 0;
    TG_TRY(tell(w, x, &record, stop));
    w->stopped = stop;
    return stop ? TG_E_STATE : TG_OK; /* this ends the simulation, see play() */
}

static double pace(void *arg, int rank, uint64_t step)
{
    const told *w = arg;
    return run_pace_of(w->job, rank, step);
}

static tg_status set_costs(const train_sim *s, const train_job *job, tg_simulation *sim,
                           train_times *times)
{
    *times = *train_sim_about(s).times;
    times->bucket = NULL;
    times->buckets = 0;
    times->known = true;
    if (job->times && job->times->layers > 0) {
        times->bucket = job->times->bucket;
        times->buckets = job->times->buckets;
    } else if (job->tau_ns == 0) {
        TG_TRY(tg_simulation_measure(sim, 0, NULL, &times->buckets));
        TG_TRY(tg_alloc(times->buckets, sizeof *times->bucket, &times->bucket));
        times->bucket[0].struct_size = sizeof *times->bucket;
        TG_TRY(tg_simulation_measure(sim, times->buckets, times->bucket, &times->buckets));
    }
    return times->buckets == 0 ? TG_OK
                               : tg_simulation_set_costs(sim, times->bucket, times->buckets);
}

static tg_status announce(const told *w, const train_sim *s, const tg_simulation *sim,
                          const train_start_info *start)
{
    const train_job *job = w->job;
    const train_sim_info about = train_sim_about(s);
    tg_spec *shard = NULL;
    tg_optimizer *optimizer = NULL;
    bool contiguous;
    tg_status status = shard_parse(job->shard ? job->shard : "iid", &shard);
    if (status == TG_OK)
        status = about.context > 0 ? shard_text(shard, "that the model reads", &contiguous)
                                   : shard_classes(shard, about.classes);
    if (status == TG_OK)
        status = tg_optimizer_create(job->optimizer, &optimizer);
    if (status == TG_OK && w->events && w->events->start) {
        train_start_info info = *start;
        info.method = tg_simulation_spec(sim, TG_KIND_METHOD);
        info.strategy = tg_simulation_spec(sim, TG_KIND_STRATEGY);
        info.optimizer = tg_spec_text(tg_optimizer_spec(optimizer));
        info.lr_schedule = tg_lr_schedule_text(w->lr);
        info.shard = tg_spec_text(shard);
        info.params = about.params;
        info.tensors = about.tensors;
        info.context = about.context;
        status = w->events->start(w->events->arg, &info);
    }
    tg_optimizer_destroy(optimizer);
    tg_spec_free(shard);
    return status;
}

static const char *mode_of(const train_job *job, const train_sim_servers *servers)
{
    return servers->mode ? servers->mode : run_servers_keep(job) ? "sync" : "sum";
}

static tg_status play(told *w, const train_sim *s, tg_simulation *sim, int world,
                      const tg_link *link, uint64_t steps, train_end_info *end)
{
    const train_sim_info about = train_sim_about(s);
    const train_sim_servers *servers = w->servers;
    int *rank;
    tg_sim_end last = {.struct_size = sizeof last};
    TG_TRY(tg_alloc((size_t)world, sizeof *rank, &rank));
    const tg_sim_run all = {.struct_size = sizeof all,
                            .world = world,
                            .link = *link,
                            .work = about.work,
                            .nwork = about.nwork,
                            .rank = rank,
                            .nranks = run_paced_ranks(w->job, world, rank),
                            .pace = pace,
                            .steps = steps,
                            .each = on_step,
                            .arg = w,
                            .servers = servers ? servers->count : 0,
                            .server_mode = servers ? mode_of(w->job, servers) : NULL,
                            .server = servers ? servers->link : (tg_link){0},
                            .links = servers ? servers->links : NULL};
    const tg_status status = tg_simulation_run(sim, &all, &last);
    free(rank);
    if (status == TG_OK)
        w->done = steps; /* by all ranks together, if they share them */
    if (w->stopped)      /* after a stop, exchanges in flight are not waited for */
        last = w->until;
    else
        TG_TRY(status);
    *end = (train_end_info){.world = world,
                            .steps = w->done,
                            .epochs = epochs(w, w->done),
                            .interrupted = w->stopped,
                            .test_accuracy = NAN,
                            .test_loss = NAN,
                            .train_loss = NAN,
                            .seconds = last.ns / 1e9,
                            .bytes_sent = (uint64_t)fmin(last.bytes, MOST_BYTES)};
    return run_stats_figures(&w->stats, about.params, last.ns / 1e9, last.bytes, end);
}

static tg_status simulate(told *w, const train_sim *s, tg_simulation *sim, int world,
                          const tg_link *link, uint64_t steps, train_end_info *end)
{
    train_times times;
    const train_start_info start = {.world = world,
                                    .steps = steps,
                                    .until = steps,
                                    .steps_per_epoch = w->steps_per_epoch,
                                    .times = &times};
    tg_status status = set_costs(s, w->job, sim, &times);
    if (status == TG_OK)
        status = announce(w, s, sim, &start);
    if (status == TG_OK)
        status = play(w, s, sim, world, link, steps, end);
    if (!(w->job->times && w->job->times->layers > 0))
        free(times.bucket);
    return status;
}

/* If the length of an epoch is unknown, the strategy's durations must be in steps. Methods send
 * what they send after all warm-ups. */
static tg_status exchanges(const told *w, const train_sim *s, tg_simulation **sim_p)
{
    if (w->steps_per_epoch > 0)
        return train_sim_exchanges(s, w->job, w->steps_per_epoch, w->steps, sim_p);
    tg_spec *spec;
    TG_TRY(tg_registry_parse(TG_KIND_STRATEGY, w->job->strategy, &spec));
    tg_status status = TG_OK;
    for (const tg_key *key = tg_spec_entry(spec)->keys; key && key->name; key++)
        if (status == TG_OK && key->type == TG_KEY_DURATION)
            status =
                tg_duration_steps(tg_spec_duration(spec, key->name), 0, key->name, &(uint64_t){0});
    tg_spec_free(spec);
    TG_TRY(status);
    return train_sim_exchanges(s, w->job, 1, w->steps, sim_p);
}

tg_status train_simulate(const train_sim *s, const train_job *job, size_t samples, int world,
                         const tg_link *link, const train_sim_servers *servers,
                         const train_events *events, train_end_info *end_p)
{
    const double step = (double)job->batch * (job->accumulate ? job->accumulate : 1) * world;
    told w = {.job = job, .events = events, .servers = servers};
    w.steps_per_epoch = samples == 0             ? 0
                        : (double)samples < step ? 1
                                                 : (uint64_t)((double)samples / step);
    const uint64_t steps = w.steps = job->steps ? job->steps : job->epochs * w.steps_per_epoch;
    tg_optimizer *optimizer;
    tg_lr_schedule *lr = NULL;
    tg_simulation *sim = NULL;
    train_end_info end;
    TG_TRY(tg_optimizer_create(job->optimizer, &optimizer));
    tg_status status =
        tg_lr_schedule_create(job->lr_schedule, tg_spec_real(tg_optimizer_spec(optimizer), "lr"),
                              steps, w.steps_per_epoch, &lr);
    w.lr = lr;
    if (status == TG_OK)
        status = exchanges(&w, s, &sim);
    if (status == TG_OK)
        status = simulate(&w, s, sim, world, link, steps, &end);
    run_stats_free(&w.stats);
    tg_simulation_destroy(sim);
    tg_lr_schedule_destroy(lr);
    tg_optimizer_destroy(optimizer);
    if (status == TG_OK)
        *end_p = end;
    return status;
}

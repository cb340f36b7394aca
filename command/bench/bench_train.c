/* Training steps, timed in alternating slices: ours, theirs, ours, ..., so that other load on the
 * machine affects both sides alike. */
#include "command/bench/bench_train.h"
#include "bench/torch/torch_peer.h"
#include "command/job/spec_words.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern const char bench_torch_models[], bench_torch_steps[]; /* bench/torch, by cmake/bench.cmake */

enum { WARM_UP = 3, SAMPLES_MIN = 3, LATE = 4, SLICE_MS = 50, SLICE_STEPS = 50 };

/* Python loads models.py from memory: the file need not be on this machine. */
static const char loader[] = "import sys, types\n"
                             "try:\n"
                             "    import torch\n"
                             "except ImportError as error:\n"
                             "    print('missing', error, flush=True)\n"
                             "    sys.exit(3)\n"
                             "models = types.ModuleType('models')\n"
                             "exec(sys.argv[1], models.__dict__)\n"
                             "sys.modules['models'] = models\n"
                             "exec(sys.argv[2])\n";

/* Target times, as ratios to those of PyTorch. */
static const struct {
    const char *model;
    double ratio;
} targets[] = {{"resnet20", 0.95}, {"resnet18", 1.0}, {"lenet5", 0.7}, {"lstm", 0.6}, {"gpt", 0.9}};
#define TARGET_TWO_WORKERS 1.9

/* ---- samples --------------------------------------------------------------------------------- */

/* Summary of the samples from number `from` on; NAN if there are none. */
static bench_ratio summary(const struct bench_samples *s, size_t from)
{
    struct bench_samples sorted = {.count = s->count - from};
    memcpy(sorted.x, s->x + from, sorted.count * sizeof *sorted.x);
    return bench_summary(sorted.x, sorted.count);
}

static double wall_seconds(void)
{
    return (double)tg_now_ns(tg_clock_monotonic()) / 1e9;
}

/* Whether all sides have enough samples, or the time is up. */
static bool over(const struct bench_samples *s, double begin, double seconds)
{
    const double spent = wall_seconds() - begin;
    return bench_samples_full(s) || (s->count >= SAMPLES_MIN && spent > seconds) ||
           (s->count >= 1 && spent > LATE * seconds);
}

static size_t slice_steps(double ms)
{
    return ms * SLICE_STEPS <= SLICE_MS ? SLICE_STEPS
           : ms >= SLICE_MS             ? 1
                                        : (size_t)(SLICE_MS / ms);
}

/* ---- one thread ------------------------------------------------------------------------------ */

/* Timed by processor time, so that other programs affect it as little as possible. */
static tg_status own_steps(train_bench *b, size_t steps, struct bench_samples *s)
{
    double loss;
    for (size_t i = 0; i < steps; i++) {
        const double begin = bench_processor_ms();
        TG_TRY(train_bench_step(b, &loss));
        bench_samples_add(s, bench_processor_ms() - begin);
    }
    return TG_OK;
}

static tg_status torch_steps(torch_peer *p, size_t steps, struct bench_samples *s)
{
    char question[32], answer[SLICE_STEPS * 24], *at = answer;
    snprintf(question, sizeof question, "steps %zu", steps);
    TG_TRY(torch_peer_ask(p, question, answer, sizeof answer));
    for (size_t i = 0; i < steps; i++) {
        char *end;
        const double ms = strtod(at, &end);
        if (end == at || !(ms > 0))
            return tg_fail(TG_E_STATE, "PyTorch says \"%.64s\" where times were asked for", answer);
        bench_samples_add(s, ms);
        at = end;
    }
    return TG_OK;
}

/* Create the same model in PyTorch. It must have as many parameters as ours. */
static tg_status torch_open(torch_peer *p, struct bench_train_row *row)
{
    const train_bench_info *a = &row->about;
    char *question, answer[256];
    size_t params;
    if (asprintf(&question, "open %s %zu %zu %zu %zu %zu %zu", a->model, a->batch, a->height,
                 a->width, a->channels, a->context, a->classes) < 0)
        return tg_fail(TG_E_NOMEM, "out of memory: a question to PyTorch");
    const tg_status status = torch_peer_ask(p, question, answer, sizeof answer);
    free(question);
    TG_TRY(status);
    if (sscanf(answer, "%31s %zu", row->format, &params) != 2)
        return tg_fail(TG_E_STATE, "PyTorch says \"%.64s\" where a format was asked for", answer);
    if (params != a->params)
        return tg_fail(TG_E_STATE, "PyTorch's model has %zu parameters, ours %zu", params,
                       a->params);
    return TG_OK;
}

static tg_status alone(const struct bench_train_options *o, train_bench *b, torch_peer *p,
                       struct bench_train_row *row)
{
    struct bench_samples own = {.count = 0}, torch = {.count = 0}, ratios = {.count = 0};
    row->about = train_bench_about(b);
    if (p)
        TG_TRY(torch_open(p, row));
    TG_TRY(own_steps(b, WARM_UP, &own));
    const size_t steps = slice_steps(summary(&own, 0).min);
    own.count = 0;
    for (double begin = wall_seconds(); !over(&own, begin, o->seconds * (p ? 2 : 1));) {
        const size_t from = own.count;
        TG_TRY(own_steps(b, steps, &own));
        if (!p)
            continue;
        const size_t torch_from = torch.count;
        TG_TRY(torch_steps(p, steps, &torch));
        bench_samples_add(&ratios, summary(&own, from).median / summary(&torch, torch_from).median);
    }
    row->samples = own.count;
    row->ms = summary(&own, 0);
    row->torch_samples = torch.count;
    row->torch_ms = summary(&torch, 0);
    row->ratio = summary(&ratios, 0);
    return TG_OK;
}

/* ---- workers --------------------------------------------------------------------------------- */

static tg_status together(const struct bench_train_options *o, struct bench_workers *one,
                          struct bench_workers *all, struct bench_train_row *row)
{
    struct bench_samples own = {.count = 0}, speedups = {.count = 0}, processor = {.count = 0};
    const double workers = (double)row->workers;
    double ms, cpu, one_ms, one_cpu;
    row->about = bench_workers_about(all);
    TG_TRY(bench_workers_steps(one, WARM_UP, &one_ms, &one_cpu));
    TG_TRY(bench_workers_steps(all, WARM_UP, &ms, &cpu));
    const size_t steps = slice_steps(ms);
    for (double begin = wall_seconds(); !over(&own, begin, o->seconds * 2);) {
        TG_TRY(bench_workers_steps(one, steps, &one_ms, &one_cpu));
        TG_TRY(bench_workers_steps(all, steps, &ms, &cpu));
        bench_samples_add(&own, ms);
        bench_samples_add(&speedups, workers * one_ms / ms);
        bench_samples_add(&processor, workers * workers * one_cpu / cpu);
    }
    row->samples = own.count;
    row->ms = summary(&own, 0);
    row->speedup = summary(&speedups, 0);
    row->processor_speedup = summary(&processor, 0);
    return TG_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static double target_of(const char *spec, size_t workers)
{
    if (workers > 0)
        return workers == 2 ? TARGET_TWO_WORKERS : NAN;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++)
        if (spec_same_name(spec, targets[i].model))
            return targets[i].ratio;
    return NAN;
}

static tg_status give_out(const struct bench_train_options *o, struct bench_train_row *row,
                          tg_status status)
{
    char text[1024];
    if (status != TG_OK) {
        snprintf(text, sizeof text, "%s", tg_error());
        row->error = text;
        row->about = (train_bench_info){.batch = row->about.batch};
    }
    return o->row(o->arg, row);
}

static tg_status one_row(const struct bench_train_options *o, torch_peer *p, const char *spec,
                         size_t batch, size_t workers)
{
    const bench_ratio none = {NAN, NAN, NAN};
    struct bench_train_row row = {.spec = spec,
                                  .precision = o->precision,
                                  .about = {.batch = batch},
                                  .workers = workers,
                                  .ms = none,
                                  .speedup = none,
                                  .processor_speedup = none,
                                  .torch_ms = none,
                                  .ratio = none,
                                  .target = target_of(spec, workers)};
    struct bench_workers *one = NULL, *all = NULL;
    train_bench *b = NULL;
    tg_status status;
    if (o->begin)
        o->begin(o->arg, spec, batch);
    if (workers == 0) {
        status = train_bench_create(spec, batch, o->precision, NULL, &b);
        if (status == TG_OK)
            status = alone(o, b, p, &row);
    } else {
        status = bench_workers_create(spec, batch, o->precision, 1, &one);
        if (status == TG_OK)
            status = bench_workers_create(spec, batch, o->precision, workers, &all);
        if (status == TG_OK)
            status = together(o, one, all, &row);
    }
    status = give_out(o, &row, status);
    bench_workers_destroy(all);
    bench_workers_destroy(one);
    train_bench_destroy(b);
    return status;
}

static tg_status one_model(const struct bench_train_options *o, torch_peer *p, const char *spec)
{
    size_t own[BENCH_TRAIN_BATCHES], batches = o->batches;
    if (batches == 0)
        TG_TRY(train_bench_batches(spec, BENCH_TRAIN_BATCHES, own, &batches));
    for (size_t i = 0; i < batches; i++) {
        const size_t batch = o->batches ? o->batch[i] : own[i];
        if (o->nworkers == 0)
            TG_TRY(one_row(o, p, spec, batch, 0));
        for (size_t j = 0; j < o->nworkers; j++)
            TG_TRY(one_row(o, p, spec, batch, o->workers[j]));
    }
    return TG_OK;
}

static tg_status introduce_torch(const struct bench_train_options *o, torch_peer *p)
{
    char answer[256], version[64];
    double gflops;
    TG_TRY(torch_peer_open(p, o->python,
                           (const char *[]){loader, bench_torch_models, bench_torch_steps, NULL}));
    TG_TRY(torch_peer_ask(p, "about", answer, sizeof answer));
    if (sscanf(answer, "%63s %lf", version, &gflops) != 2)
        return tg_fail(TG_E_STATE, "PyTorch says \"%.64s\" where its version was asked for",
                       answer);
    return o->torch(o->arg, version, gflops);
}

tg_status bench_train(const struct bench_train_options *o)
{
    for (size_t i = 0; i < o->count; i++) { /* check all before anything is measured */
        size_t batch, count;
        TG_TRY(train_bench_batches(o->specs[i], 1, &batch, &count));
    }
    torch_peer peer = {.fd = -1};
    tg_status status = TG_OK;
    if (o->nworkers == 0)
        bench_pin();
    if (o->python)
        status = introduce_torch(o, &peer);
    for (size_t i = 0; i < o->count && status == TG_OK; i++)
        status = one_model(o, o->python ? &peer : NULL, o->specs[i]);
    torch_peer_close(&peer);
    return status;
}

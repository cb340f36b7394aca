/* Times the layers in passes over a batch made for that purpose. */
#include "trainer/loop/layer_times.h"
#include "telegrad/tools.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>

enum { PASSES_LEAST = 3, PASSES_MOST = 9 }; /* not counting the first one, which is slower */

#define PASSES_NS INT64_C(2000000000) /* no further passes after this time */

/* ---- passes ---------------------------------------------------------------------------------- */

typedef struct stopwatch {
    size_t layers;
    double *ns; /* (MODEL_WORKS, layers) of this pass; < 0: the pass has no such work */
    size_t at;  /* the work under way; SIZE_MAX: none yet */
    int64_t since_ns;
} stopwatch;

static int64_t processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* End the work under way, and begin `next`. */
static void turn_to(stopwatch *s, size_t next)
{
    const int64_t now = processor_ns();
    if (s->at != SIZE_MAX)
        s->ns[s->at] += (double)(now - s->since_ns);
    if (next != SIZE_MAX)
        s->ns[next] = s->ns[next] < 0 ? 0 : s->ns[next];
    s->at = next;
    s->since_ns = now;
}

static void on_begins(void *arg, model_work work, size_t layer)
{
    stopwatch *s = arg;
    turn_to(s, (size_t)work * s->layers + layer);
}

static tg_status time_pass(model *m, const model_batch *batch, uint64_t seed, stopwatch *s)
{
    const model_hooks hooks = {.arg = s, .layer_begins = on_begins};
    const model_pass pass = {.training = true, .seed = seed, .parts = 1};
    model_result result;
    for (size_t i = 0; i < MODEL_WORKS * s->layers; i++)
        s->ns[i] = -1;
    s->at = SIZE_MAX;
    TG_TRY(model_forward(m, batch, &pass, &hooks, &result));
    TG_TRY(model_backward(m, &hooks));
    turn_to(s, SIZE_MAX);
    return TG_OK;
}

/* Fill ns (PASSES_MOST, MODEL_WORKS, layers) for *count_p passes; `once`: only one pass. */
static tg_status time_passes(model *m, const model_batch *batch, uint64_t seed, bool once,
                             double *ns, size_t *count_p)
{
    const size_t layers = model_layers(m);
    const int64_t end = processor_ns() + PASSES_NS;
    size_t count = 0;
    stopwatch s = {.layers = layers, .ns = ns};
    TG_TRY(time_pass(m, batch, seed, &s));
    while (!once && count < PASSES_MOST && (count < PASSES_LEAST || processor_ns() < end)) {
        s.ns = ns + count++ * MODEL_WORKS * layers;
        TG_TRY(time_pass(m, batch, seed, &s));
    }
    *count_p = once ? 1 : count;
    return TG_OK;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* For each work the median over `count` passes. */
static void take_medians(const double *ns, size_t count, size_t works, int64_t *taken)
{
    for (size_t i = 0; i < works; i++) {
        double one[PASSES_MOST];
        for (size_t k = 0; k < count; k++)
            one[k] = ns[k * works + i];
        qsort(one, count, sizeof *one, by_value);
        taken[i] = one[count / 2] > 0 ? (int64_t)one[count / 2] : 0;
    }
}

/* Divide sum_ns among the works that exist (ns >= 0), in proportion to their operations. Forward
 * and both kinds of backward work of a layer have equally many. */
static void spread(const model *m, const double *ns, size_t works, int64_t sum_ns, int64_t *taken)
{
    const size_t layers = works / MODEL_WORKS;
    double all = 0, sofar = 0;
    int64_t given = 0;
    for (size_t i = 0; i < works; i++)
        all += ns[i] < 0 ? 0 : model_layer_flops(m, i % layers);
    for (size_t i = 0; i < works; i++) {
        sofar += ns[i] < 0 ? 0 : model_layer_flops(m, i % layers);
        taken[i] = llround((double)sum_ns * (sofar / all)) - given; /* so that they add up */
        given += taken[i];
    }
}

/* sum_ns 0: measure. */
static tg_status take(model *m, const model_batch *batch, uint64_t seed, int64_t sum_ns,
                      int64_t *taken)
{
    const size_t works = MODEL_WORKS * model_layers(m);
    double *ns;
    size_t count = 0;
    TG_TRY(tg_alloc(PASSES_MOST * works, sizeof *ns, &ns));
    const tg_status status = time_passes(m, batch, seed, sum_ns > 0, ns, &count);
    if (status == TG_OK && sum_ns > 0)
        spread(m, ns, works, sum_ns, taken);
    else if (status == TG_OK)
        take_medians(ns, count, works, taken);
    free(ns);
    return status;
}

tg_status layer_times_measure(model *m, const model_batch *batch, uint64_t seed, int64_t *ns)
{
    return take(m, batch, seed, 0, ns);
}

tg_status layer_times_spread(model *m, const model_batch *batch, uint64_t seed, int64_t sum_ns,
                             int64_t *ns)
{
    return take(m, batch, seed, sum_ns, ns);
}

/* Ways are compared by their steps in the long run: a simulation covers twice the steps of a
 * period, and the second half counts. */
#include "trainer/loop/advice_impl.h"
#include "telegrad/registry.h"
#include "telegrad/spec.h"
#include "telegrad/tools.h"
#include "trainer/model/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_K = 64, MOST_H = 500, LEAST_STEPS = ADVICE_LEAST_STEPS };

const char *const advice_methods[] = {
    "dense", "dense:exchange=allgather", "fp16", "powersgd",   "2bit",
    "1bit",  "topk:density=0.01",        "dgc",  "qsgd:bits=4"};
const size_t advice_method_count = TG_COUNT(advice_methods);
_Static_assert(TG_COUNT(advice_methods) == ADVICE_METHODS, "a simulation for each method");

/* distance: how far the family is from plain SGD; methods have distances of their own. Each
 * doubling of k, D or H adds 1, as much as replacing a dense method by a coded one. */
static const struct {
    const char *form, *more; /* form: the number follows it; more: turns warm-up off */
    unsigned least, most;    /* range of numbers considered; 0: it has no number */
    double distance;
} families[ADVICE_FAMILIES] = {
    [ADVICE_SSGD] = {"ssgd", "", 0, 0, 0},
    [ADVICE_OD] = {"od", ":warmup=0", 0, 0, 2},
    [ADVICE_CD] = {"cd:k=", ",warmup=0", 1, MOST_K, 2},
    [ADVICE_DGA] = {"dga:delay=", "", 1, ADVICE_MOST_D, 3},
    [ADVICE_LOCAL] = {"local:every=", "", 1, MOST_H, 4},
    [ADVICE_STREAMING] = {"streaming:every=", "", 2, MOST_H, 5}, /* its mean is one step late */
};
static const double distance_of_method[] = {0, 0, 0.1, 1, 1, 1, 1, 1, 1};

double advice_method_distance(size_t method)
{
    return distance_of_method[method];
}

/* ---- making ---------------------------------------------------------------------------------- */

bool advice_has_exchange(size_t method, const char *exchange)
{
    tg_spec *spec;
    if (tg_registry_parse(TG_KIND_METHOD, advice_methods[method], &spec) != TG_OK)
        return false;
    const tg_key *key = tg_spec_entry(spec)->keys;
    while (key->name && strcmp(key->name, "exchange") != 0)
        key++;
    const bool has = key->name && key->choices && strstr(key->choices, exchange) != NULL &&
                     !tg_spec_given(spec, "exchange");
    tg_spec_free(spec);
    return has;
}

/* Leave out methods that accumulate SGD's momentum if the model has an optimizer of its own. */
static tg_status find_unfit(advice *a, const char *spec_of_model)
{
    const char *usual;
    TG_TRY(model_usual_optimizer(spec_of_model, &usual));
    for (size_t i = 0; usual && i < advice_method_count; i++) {
        tg_spec *spec;
        TG_TRY(tg_registry_parse(TG_KIND_METHOD, advice_methods[i], &spec));
        a->unfit[i] = tg_spec_has(spec, "momentum");
        tg_spec_free(spec);
    }
    return TG_OK;
}

/* also: the same without servers that code; NULL: there is none */
static tg_status measure_coding(tg_simulation *sim, tg_simulation *also)
{
    size_t count;
    tg_bucket_cost *cost;
    TG_TRY(tg_simulation_measure(sim, 0, NULL, &count));
    TG_TRY(tg_alloc(count, sizeof *cost, &cost));
    cost[0].struct_size = sizeof *cost;
    tg_status status = tg_simulation_measure(sim, count, cost, &count);
    if (status == TG_OK)
        status = tg_simulation_set_costs(sim, cost, count);
    if (status == TG_OK && also != NULL)
        status = tg_simulation_set_costs(also, cost, count);
    free(cost);
    return status;
}

static tg_status create(advice *a, const advice_request *request)
{
    train_job job = *request->job;
    a->world = request->world;
    a->spare = job.driver != TG_DRIVER_INLINE;
    job.strategy = "ssgd";
    TG_TRY(train_sim_create(&job, request->data, &a->steps));
    TG_TRY(find_unfit(a, job.model));
    for (size_t i = 0; i < advice_method_count; i++) {
        job.method = advice_methods[i];
        TG_TRY(train_sim_exchanges(a->steps, &job, 1000, 0, &a->sim[i]));
        if (advice_has_exchange(i, "twoway")) {
            job.method = a->twoway_text[i];
            snprintf(a->twoway_text[i], sizeof a->twoway_text[i], "%s%cexchange=twoway",
                     advice_methods[i], strchr(advice_methods[i], ':') ? ',' : ':');
            TG_TRY(train_sim_exchanges(a->steps, &job, 1000, 0, &a->twoway[i]));
        }
        if (!request->coding_is_free)
            TG_TRY(measure_coding(a->sim[i], a->twoway[i]));
    }
    return TG_OK;
}

tg_status advice_create(const advice_request *request, advice **a_p)
{
    advice *a;
    if (request->world < 2 || request->world > TG_SIM_WORLD_MAX)
        return tg_fail(TG_E_ARG, "%d workers: allowed: 2 to %d (one has nobody to exchange with)",
                       request->world, TG_SIM_WORLD_MAX);
    TG_TRY(tg_alloc(1, sizeof *a, &a));
    const tg_status status = create(a, request);
    if (status != TG_OK) {
        advice_destroy(a);
        return status;
    }
    *a_p = a;
    return TG_OK;
}

void advice_destroy(advice *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < advice_method_count; i++) {
        tg_simulation_destroy(a->sim[i]);
        tg_simulation_destroy(a->twoway[i]);
    }
    train_sim_destroy(a->steps);
    free(a);
}

double advice_tau(const advice *a)
{
    return (double)train_sim_about(a->steps).tau_ns / 1e9;
}

size_t advice_params(const advice *a)
{
    return train_sim_about(a->steps).params;
}

/* One exchange of the whole model by a method over such links. */
static tg_status exchange(const advice *a, size_t method, const tg_link *link, tg_sim_exchange *x_p)
{
    return tg_simulation_exchange(a->sim[method], a->world, link, x_p);
}

tg_status advice_take_times(const advice *a, size_t method, const tg_link *link, advice_times *t_p)
{
    tg_sim_exchange dense = {.struct_size = sizeof dense}, coded = dense;
    TG_TRY(exchange(a, 0, link, &dense));
    TG_TRY(exchange(a, method, link, &coded));
    *t_p = (advice_times){.tau = advice_tau(a),
                          .phi = dense.wire_ns[1] / 1e9,
                          .psi = coded.wire_ns[1] / 1e9,
                          .delta = (coded.encode_ns[1] + coded.decode_ns[1]) / 1e9,
                          .spare = a->spare};
    return TG_OK;
}

/* ---- one way --------------------------------------------------------------------------------- */

typedef struct half {
    uint64_t from; /* first step of the second half */
    double begin_ns, end_ns, bytes;
} half;

static tg_status on_step(void *arg, const tg_sim_step *x)
{
    half *h = arg;
    if (x->step == h->from)
        h->begin_ns = x->begin_ns;
    if (x->step >= h->from)
        h->bytes += x->bytes_sent;
    h->end_ns = x->end_ns;
    return TG_OK;
}

/* text: the spec as a user would write it; spec: the same without warm-up, because the steady state
 * is predicted. Returns the period: the number of steps after which the schedule repeats. */
static uint64_t name_way(const advice_way *w, char text[32], char spec[48])
{
    const bool numbered = families[w->family].most > 0;
    char number[16] = "";
    if (numbered)
        snprintf(number, sizeof number, "%u", w->number);
    snprintf(text, 32, "%s%s", families[w->family].form, number);
    snprintf(spec, 48, "%s%s", text, families[w->family].more);
    return numbered && w->number > 0 ? w->number : 1;
}

/* If several exchanges can be in flight, the first steps may run faster than the wire or the codec
 * can keep up with. In the long run a step takes at least as long as one exchange occupies them. */
static tg_status least_step(const advice *a, const tg_link *link, const advice_way *w,
                            double *least_p)
{
    tg_link no_delay = *link;
    tg_sim_exchange x = {.struct_size = sizeof x};
    no_delay.delay_ns = no_delay.jitter_ns = 0;
    TG_TRY(exchange(a, w->method, &no_delay, &x));
    *least_p = fmax(x.wire_ns[1], x.encode_ns[1] + x.decode_ns[1]) / 1e9;
    return TG_OK;
}

tg_status advice_predict(const advice *a, const tg_link *link, advice_way *w)
{
    double least = 0;
    if (a->unfit[w->method])
        return tg_fail(TG_E_UNSUPPORTED,
                       "method %s accumulates SGD's momentum: another optimizer "
                       "trains the model",
                       advice_methods[w->method]);
    const train_sim_info about = train_sim_about(a->steps);
    char spec[48];
    const uint64_t period = name_way(w, w->strategy, spec),
                   steps = period * ((LEAST_STEPS + period - 1) / period);
    half h = {.from = steps};
    const tg_sim_run run = {.struct_size = sizeof run,
                            .strategy = spec,
                            .world = a->world,
                            .link = *link,
                            .work = about.work,
                            .nwork = about.nwork,
                            .steps = 2 * steps,
                            .each = on_step,
                            .arg = &h};
    TG_TRY(tg_simulation_run(a->sim[w->method], &run, NULL));
    w->method_text = advice_methods[w->method];
    if (w->family == ADVICE_DGA)
        TG_TRY(least_step(a, link, w, &least));
    w->step_s = fmax((h.end_ns - h.begin_ns) / 1e9 / (double)steps, least);
    w->bytes = h.bytes / (double)steps;
    w->distance =
        families[w->family].distance + log2((double)period) + distance_of_method[w->method];
    return TG_OK;
}

/* ---- k, D, H --------------------------------------------------------------------------------- */

/* Find the smallest number for which a step takes at most `enough`; the largest if there is none.
 * Steps only get shorter as the number grows. */
static tg_status smallest(const advice *a, const tg_link *link, advice_way *w, double enough)
{
    unsigned low = families[w->family].least, high = families[w->family].most;
    while (low < high) {
        w->number = low + (high - low) / 2;
        TG_TRY(advice_predict(a, link, w));
        if (w->step_s <= enough)
            high = w->number;
        else
            low = w->number + 1;
    }
    w->number = low;
    return advice_predict(a, link, w);
}

static tg_status choose_number(const advice *a, const tg_link *link, advice_way *w)
{
    w->number = families[w->family].most;
    TG_TRY(advice_predict(a, link, w));
    return w->number == 0 ? TG_OK : smallest(a, link, w, ADVICE_HIDDEN * w->step_s);
}

/* ---- the list -------------------------------------------------------------------------------- */

bool advice_refused(tg_status status)
{
    return status == TG_E_SPEC || status == TG_E_UNSUPPORTED;
}

static int by_step(const void *a, const void *b)
{
    const advice_way *x = a, *y = b;
    return (x->step_s > y->step_s) - (x->step_s < y->step_s);
}

static bool better(const advice_way *a, const advice_way *b)
{
    return advice_as_far(a, b) ? a->bytes < b->bytes : a->distance < b->distance;
}

bool advice_as_far(const advice_way *a, const advice_way *b)
{
    return fabs(a->distance - b->distance) < 1e-6;
}

void advice_sort(advice_way *way, size_t count)
{
    size_t best = 0;
    qsort(way, count, sizeof *way, by_step);
    for (size_t i = 1; i < count && way[i].step_s <= ADVICE_NEAR * way[0].step_s; i++)
        if (better(&way[i], &way[best]))
            best = i;
    const advice_way taken = way[best];
    for (size_t i = best; i > 0; i--)
        way[i] = way[i - 1];
    way[0] = taken;
}

tg_status advice_list(const advice *a, const tg_link *link, advice_way *way, size_t *count_p)
{
    size_t count = 0;
    for (size_t m = 0; m < advice_method_count; m++)
        for (int f = 0; f < ADVICE_FAMILIES; f++) {
            if (f == (m < ADVICE_CODED ? ADVICE_CD : ADVICE_OD))
                continue; /* od is always dense, and cd with a dense method is od */
            advice_way *w = &way[count];
            *w = (advice_way){.family = (advice_family)f, .method = m};
            const tg_status status = choose_number(a, link, w);
            if (!advice_refused(status))
                TG_TRY(status);
            /* cd:k=1 equals od, local:every=1 equals ssgd */
            const bool same = (f == ADVICE_CD || f == ADVICE_LOCAL) && w->number == 1;
            count += status == TG_OK && !same;
        }
    advice_sort(way, count);
    *count_p = count;
    return TG_OK;
}

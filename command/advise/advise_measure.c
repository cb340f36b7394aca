#include "command/advise/advise_measure.h"
#include "command/advise/advise_fit.h"
#include "bench/exchange/bench_exchange.h"
#include "command/train/cli_run.h"
#include "command/output/console.h"
#include "trainer/model/model.h"
#include <math.h>
#include <stdlib.h>

enum { STEPS = 9, SIZES = 3 };
#define SECONDS 0.5 /* for each exchange */

/* ---- steps ----------------------------------------------------------------------------------- */

static tg_status run_steps(const struct launch *l, const struct run_options *o,
                           const train_data *data, const char *method, double *step_p)
{
    struct run_options own = *o;
    train_end_info end;
    own.method = method;
    own.strategy = "ssgd";
    own.overlap = TG_OVERLAP_NONE;
    own.steps = STEPS;
    own.evaluate = false;
    const train_job job = run_job_of(&own, NULL);
    console_status(method);
    const tg_status status = launch_run(l, &own, &job, data, NULL, &end);
    console_status("");
    TG_TRY(status);
    *step_p = end.step_ms_median / 1e3;
    return TG_OK;
}

tg_status advise_measure_data(const struct run_options *o, const char **data_p)
{
    const char *usual = NULL;
    model_input in;
    TG_TRY(model_usual_data(o->model, &usual, &in));
    *data_p = o->data ? o->data : usual ? usual : "glyphs";
    return TG_OK;
}

static tg_status measure_steps(const struct launch *l, const struct run_options *o,
                               struct advise_measured *m)
{
    const char *name;
    train_data *data;
    TG_TRY(advise_measure_data(o, &name));
    TG_TRY(train_data_open(name, 0, &data));
    tg_status status = run_steps(l, o, data, "dense:exchange=none", &m->tau);
    if (status == TG_OK)
        status = run_steps(l, o, data, "dense", &m->ssgd);
    if (status == TG_OK)
        status = run_steps(l, o, data, ADVISE_CODED, &m->bit);
    train_data_close(data);
    return status;
}

/* ---- exchanges ------------------------------------------------------------------------------- */

/* Seconds and sent bytes of the last row. */
struct seen {
    double all, codec, bytes;
};

static tg_status row(void *arg, const bench_exchange_row *r)
{
    struct seen *seen = arg;
    if (r->error)
        return tg_fail(TG_E_STATE, "%s: %s", r->method, r->error);
    *seen = (struct seen){r->ms.median / 1e3, r->codec_ms.median / 1e3, r->bytes};
    return TG_OK;
}

static tg_status begin(void *arg, const bench_exchange_row *r, double seconds)
{
    (void)arg;
    (void)seconds;
    console_status(r->method);
    return TG_OK;
}

/* Time an exchange of n elements. tensor (tensors): their layout; NULL: matrices. */
static tg_status exchange(const struct launch *l, const struct run_options *o, const char *method,
                          const bench_tensor *tensor, size_t tensors, size_t n, struct seen *seen)
{
    const size_t workers = (size_t)launch_world(l, o);
    bench_link link = {.text = o->link};
    if (o->link)
        TG_TRY(tg_link_parse(o->link, &link.link));
    bench_exchange_options b = {.method = &method,
                                .methods = 1,
                                .workers = &workers,
                                .nworkers = 1,
                                .link = &link,
                                .links = 1,
                                .n = n,
                                .tensor = tensor,
                                .tensors = tensors,
                                .seconds = SECONDS,
                                .arg = seen,
                                .begin = begin,
                                .row = row};
    if (l->processes)
        b.connect = l->transport->connect;
    const tg_status status = bench_exchange(&b);
    console_status("");
    return status;
}

static tg_status measure_gradient(const struct launch *l, const struct run_options *o,
                                  const train_sim_info *net, bench_tensor *tensor,
                                  struct advise_measured *m)
{
    size_t n = 0;
    struct seen dense = {0}, coded = {0};
    for (size_t i = 0; i < net->tensors; i++) {
        const tg_sim_tensor *t = &net->tensor[i];
        tensor[i] = (bench_tensor){.name = t->name, .n = 1, .rows = t->ndim > 0 ? t->shape[0] : 1};
        for (size_t d = 0; d < t->ndim; d++)
            tensor[i].n *= t->shape[d];
        n += tensor[i].n;
    }
    TG_TRY(exchange(l, o, "dense", tensor, net->tensors, n, &dense));
    TG_TRY(exchange(l, o, ADVISE_CODED, tensor, net->tensors, n, &coded));
    m->phi = dense.all;
    m->delta = coded.codec;
    m->psi = fmax(coded.all - coded.codec, 0);
    return TG_OK;
}

static tg_status measure_exchanges(const struct launch *l, const struct run_options *o,
                                   struct advise_measured *m)
{
    const char *data;
    train_job job = run_job_of(o, NULL);
    train_sim *net;
    TG_TRY(advise_measure_data(o, &data));
    job.tau_ns = 1; /* any value: only the tensors are used, no times */
    TG_TRY(train_sim_create(&job, data, &net));
    const train_sim_info about = train_sim_about(net);
    bench_tensor *tensor = calloc(about.tensors, sizeof *tensor);
    const tg_status status = tensor ? measure_gradient(l, o, &about, tensor, m)
                                    : tg_fail(TG_E_NOMEM, "out of memory: tensors");
    free(tensor);
    train_sim_destroy(net);
    return status;
}

/* Each exchange has one delay, so the line through the times has alpha at 0 bytes and slope
 * beta. */
static tg_status sweep(const struct launch *l, const struct run_options *o,
                       struct advise_measured *m)
{
    static const size_t sizes[SIZES] = {64, 16384, 131072};
    double bytes[SIZES], seconds[SIZES];
    for (size_t i = 0; i < SIZES; i++) {
        struct seen s = {0};
        TG_TRY(exchange(l, o, "dense:exchange=allgather", NULL, 0, sizes[i], &s));
        bytes[i] = s.bytes;
        seconds[i] = fmax(s.all - s.codec, 1e-9);
    }
    advise_fit(bytes, seconds, SIZES, &m->alpha, &m->beta);
    return TG_OK;
}

tg_status advise_measure(const struct launch *l, const struct run_options *o,
                         struct advise_measured *m)
{
    TG_TRY(measure_steps(l, o, m));
    TG_TRY(measure_exchanges(l, o, m));
    return sweep(l, o, m);
}

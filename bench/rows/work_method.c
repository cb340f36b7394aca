/* A method as a single rank runs it: everything but the network. */
#include "bench/rows/bench_impl.h"
#include "base/mem.h"
#include "telegrad/spec.h"
#include <math.h>
#include <string.h>

/* A step past every warm-up. */
#define FIRST_STEP UINT64_C(1000000)

double bench_error_norm(const float *x, const float *y, size_t n)
{
    double lost = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)x[i] - (double)y[i];
        lost += d * d;
        all += (double)x[i] * (double)x[i];
    }
    return sqrt(lost / all);
}

/* Whether the name at the start of a spec is in the list. */
static bool named(const char *spec, const tg_entry *const *list, size_t count)
{
    size_t len = strcspn(spec, ":");
    for (size_t i = 0; i < count; i++)
        if (strncmp(list[i]->name, spec, len) == 0 && list[i]->name[len] == '\0')
            return true;
    return false;
}

bool work_method_exists(const char *spec)
{
    size_t count;
    const tg_entry *const *list = tg__method_entries(&count);
    return named(spec, list, count);
}

bool work_codec_exists(const char *spec)
{
    size_t count;
    const tg_entry *const *list = tg__codec_entries(&count);
    return named(spec, list, count);
}

/* One step. *ns_p grows by its time, without decoding and combining in the last round. */
static tg_status step(work_method *w, int64_t *ns_p)
{
    const tg__program_ops *program = w->m->def->program;
    tg__exchange *x = NULL;
    tg__wish wish;
    w->task = (tg__task){.step = w->step, .g = w->b->g[w->step % 2], .coded = true, .eta = 0.125};
    w->step++;
    int64_t begin = bench_now(w->b);
    TG_TRY(program->begin(w->m, &w->task, &x));
    for (;;) {
        int64_t encoded = bench_now(w->b);
        *ns_p += encoded - begin;
        w->last = x;
        TG_TRY(x->ops->start(x));
        if (x->ops->wants(x, &wish, 1) > 0 || !x->ops->finished(x))
            return tg_fail(TG_E_STATE, "an exchange of one rank wants messages");
        TG_TRY(program->next(w->m, &w->task, &x));
        if (x == NULL) {
            w->combined_ns = bench_now(w->b) - encoded;
            return TG_OK;
        }
        begin = encoded; /* another round follows: the time so far counts */
    }
}

static tg_status make(work_method *w, const char *spec)
{
    bench *b = w->b;
    int64_t ns = 0;
    TG_TRY(tg__state_create(&w->state));
    const tg__method_setup setup = bench_method_setup(b, 0, 1, w->state);
    TG_TRY(tg__method_create(spec, &setup, &w->m));
    TG_TRY(step(w, &ns));
    const float *sent = w->m->def->program->aggregate(w->m, &w->task);
    w->error_norm = bench_error_norm(b->g[(w->step - 1) % 2], sent, b->n);
    w->bits = 8 * (double)w->task.coded_bytes / (double)b->n;
    w->vectors = w->m->feedback != NULL ? w->m->feedback->ops->vectors : tg__method_remembers(w->m);
    return TG_OK;
}

tg_status work_method_open(work_method *w, bench *b, const char *spec)
{
    *w = (work_method){.b = b, .step = FIRST_STEP};
    return make(w, spec);
}

void work_method_close(work_method *w)
{
    tg__method_destroy(w->m);
    tg__state_destroy(w->state);
    *w = (work_method){0};
}

tg_status work_method_encode(void *arg, int64_t *ns_p)
{
    return step(arg, ns_p);
}

tg_status work_method_cycle(void *arg, int64_t *ns_p)
{
    work_method *w = arg;
    TG_TRY(step(w, ns_p));
    *ns_p += w->combined_ns;
    return TG_OK;
}

/* Whether there is a frame of the whole vector. A program combines the values of a shared
 * support. */
static bool has_frame(const work_method *w)
{
    return w->last->n == w->b->n;
}

tg_status work_method_decode(void *arg, int64_t *ns_p)
{
    work_method *w = arg;
    const tg__part *part = &w->last->parts[0];
    if (!has_frame(w)) {
        int64_t encode_ns = 0;
        TG_TRY(step(w, &encode_ns));
        *ns_p += w->combined_ns;
        return TG_OK;
    }
    int64_t begin = bench_now(w->b);
    TG_TRY(tg__frame_check(part->dst, part->len, w->b->n, -1));
    tg__frame_decode_add(part->dst, part->len, w->b->out, w->b->pool);
    *ns_p += bench_now(w->b) - begin;
    return TG_OK;
}

/* The gradient is read, each vector of error feedback is read and written, the frame is written. */
double work_method_encode_bytes(const work_method *w)
{
    return (4 + 8 * (double)w->vectors) * (double)w->b->n + (double)w->task.coded_bytes;
}

/* The frame is read. For every kept element one cache line is read and written, at most all
 * lines. */
double work_method_decode_bytes(const work_method *w)
{
    return TG__MIN(8 * (double)w->b->n, 128 * (double)w->task.kept) + (double)w->task.coded_bytes;
}

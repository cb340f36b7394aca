/* The one-call reducer: one method and one bucket, driven inline by the calling thread. */
#include "telegrad/reducer.h"
#include "base/arg.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/spec_value.h"
#include "kernel/parallel.h"
#include "method/auto_exchange.h"
#include "engine/collect.h"
#include "engine/engine.h"
#include "engine/handshake.h"
#include "engine/network.h"
#include "exchange/nodes.h"
#include "transport/endpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tg_reducer {
    tg_transport *transport;
    tg__engine *engine;
    tg__pool *pool;
    tg__nodes *nodes; /* NULL: one level */
    tg__state *state;
    tg__method *method;
    const volatile sig_atomic_t *stop;
    size_t n;
    uint64_t step;
    double ratio;
    tg__op op;
    bool running;
    float *mean;
    void (*on_done)(void *arg, tg_status status);
    void *arg;
};

typedef struct layout { /* the vector's tensors, in the form that methods need */
    const char **name;
    size_t *len, *rows, *cols, *dims;
    char *names;
} layout;

static void free_layout(layout *l)
{
    free(l->name);
    free(l->len);
    free(l->rows);
    free(l->cols);
    free(l->dims);
    free(l->names);
}

static tg_status make_layout(layout *l, const tg_segment *segments, size_t count, size_t n)
{
    TG_TRY(tg_alloc(count, sizeof *l->name, &l->name));
    TG_TRY(tg_alloc(count, sizeof *l->len, &l->len));
    TG_TRY(tg_alloc(count, sizeof *l->rows, &l->rows));
    TG_TRY(tg_alloc(count, sizeof *l->cols, &l->cols));
    TG_TRY(tg_alloc(count, sizeof *l->dims, &l->dims));
    TG_TRY(tg_alloc(count, 32, &l->names));
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const tg_segment *s = &segments[i];
        if (s->begin != at || s->n == 0 || s->n > n - at || s->rows == 0 || s->n % s->rows != 0 ||
            s->n / s->rows != s->cols)
            return tg_fail(
                TG_E_ARG,
                "segment %zu: begin=%zu n=%zu rows=%zu cols=%zu: segments must follow each "
                "other without gaps, begin here at %zu, and rows * cols must be n",
                i, s->begin, s->n, s->rows, s->cols, at);
        l->len[i] = s->n;
        l->rows[i] = s->rows;
        l->cols[i] = s->cols;
        l->dims[i] = s->dims;
        snprintf(l->names + 32 * i, 32, "segment%zu", i);
        l->name[i] = l->names + 32 * i;
        at += s->n;
    }
    return at == n ? TG_OK : tg_fail(TG_E_ARG, "the segments cover %zu of %zu elements", at, n);
}

/* Fill in the method's setup, as far as it follows from the configuration; l holds its arrays. */
static tg_status make_setup(const tg_reducer_config *c, size_t n, layout *l,
                            tg__method_setup *setup)
{
    tg_segment whole = {.begin = 0, .n = n, .rows = n, .cols = 1};
    const tg_segment *segments = c->segments == NULL ? &whole : c->segments;
    const size_t count = c->segments == NULL ? 1 : c->nsegments;
    TG_TRY(make_layout(l, segments, count, n));
    *setup = (tg__method_setup){.seed = c->seed,
                                .steps_per_epoch = c->steps_per_epoch,
                                .tensor = l->name,
                                .len = l->len,
                                .rows = l->rows,
                                .cols = l->cols,
                                .dims = l->dims,
                                .count = count,
                                .lanes = 1,
                                .momentum = (double)NAN,
                                .nesterov = -1};
    return TG_OK;
}

/* Find what exchange=auto stands for: rank 0 chooses. */
static tg_status choose_exchange(const tg_reducer *r, const char *text, tg__method_setup setup,
                                 const char **name_p)
{
    const tg__exchange_ops *choice = NULL;
    tg__network net;
    tg_status status = TG_OK;
    TG_TRY(tg__network_measure(r->engine, r->nodes, &net));
    setup.size = tg__nodes_talkers(r->nodes, r->transport->size);
    if (r->transport->rank == 0)
        status = tg__auto_exchange(text, &setup, 0, &net, &choice);
    TG_TRY(tg__agree(r->engine, status));
    uint8_t number = tg__exchange_number(choice);
    TG_TRY(tg__share(r->engine, "the exchange chosen", &number, sizeof number));
    choice = tg__exchange_numbered(number);
    if (choice == NULL) {
        status = tg_fail(TG_E_CORRUPT, "rank 0 chose exchange number %u", number);
        tg__engine_give_up(r->engine, status, 0);
        return status;
    }
    *name_p = choice->entry.name;
    return TG_OK;
}

/* The text that all ranks must share; NULL: out of memory. */
static char *describe(const tg_reducer *r, const tg_spec *spec, const tg_reducer_config *c)
{
    uint64_t segments = TG_HASH_START;
    for (size_t i = 0; c->segments != NULL && i < c->nsegments; i++) {
        uint64_t s[] = {c->segments[i].begin, c->segments[i].n, c->segments[i].rows,
                        c->segments[i].dims};
        segments = tg_hash(segments, s, sizeof s);
    }
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    if (f == NULL)
        return NULL;
    fprintf(f, "reducer=%s\nworld=%d\nn=%zu\n", tg_spec_text(spec), r->transport->size, r->n);
    tg__nodes_print(r->nodes, f);
    fprintf(f, "seed=%llu\nsteps_per_epoch=%llu\nsegments=%016llx", (unsigned long long)c->seed,
            (unsigned long long)c->steps_per_epoch, (unsigned long long)segments);
    return fclose(f) == 0 ? text : NULL;
}

static tg_status handshake(const tg_reducer *r, const tg_spec *spec, const tg_reducer_config *c)
{
    char *text = describe(r, spec, c);
    if (text == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory in the handshake");
    tg_status status = tg__handshake(r->engine, text, TG__BLOCK);
    free(text);
    return status;
}

static tg_status make_method(tg_reducer *r, const tg_spec *spec, tg__method_setup *setup)
{
    if (tg__method_is_auto(spec) && tg__nodes_talkers(r->nodes, r->transport->size) > 1)
        TG_TRY(choose_exchange(r, tg_spec_text(spec), *setup, &setup->exchange));
    setup->rank = r->transport->rank;
    setup->size = r->transport->size;
    setup->state = r->state;
    setup->pool = r->pool;
    setup->nodes = r->nodes;
    return tg__method_create(tg_spec_text(spec), setup, &r->method);
}

static bool is_set(const void *flag)
{
    return __atomic_load_n((const volatile sig_atomic_t *)flag, __ATOMIC_RELAXED) != 0;
}

/* Each operation gets its second from the moment at which it is seen to wait. */
static void watch_stop(tg_reducer *r)
{
    if (r->stop != NULL)
        tg__engine_stop_if(r->engine, is_set, (const void *)r->stop);
}

static tg_status create(tg_reducer *r, const tg_spec *spec, const tg_reducer_config *c)
{
    int64_t timeout_ms = c->timeout_ms == 0 ? 60000 : c->timeout_ms;
    tg__method_setup setup;
    layout l = {0};
    TG_TRY(tg__transport_check("tg_reducer_create", "transport", r->transport));
    TG_TRY(tg__state_create(&r->state));
    TG_TRY(tg__pool_create(TG__MAX(c->codec_threads, 1u), &r->pool));
    TG_TRY(tg__nodes_create(c->nodes, r->transport->rank, r->transport->size, &r->nodes));
    TG_TRY(tg__engine_create(r->transport, TG_DRIVER_INLINE, timeout_ms * INT64_C(1000000), NULL,
                             &r->engine));
    if (r->nodes != NULL)
        tg__engine_set_near(r->engine, r->nodes->near);
    r->stop = c->stop;
    watch_stop(r);
    TG_TRY(handshake(r, spec, c));
    tg_status status = make_setup(c, r->n, &l, &setup);
    if (status == TG_OK)
        status = make_method(r, spec, &setup);
    free_layout(&l);
    return status;
}

/* Parse the method's spec and settle its warm-up for this run. */
static tg_status parse(const char *method, const tg_reducer_config *c, tg_spec **spec_p)
{
    tg_spec *spec;
    char *text;
    const tg__method_def *def;
    TG_TRY(tg__method_parse(method, &spec, &def));
    tg_status status = tg__spec_settle(spec, method, c->total_steps, c->steps_per_epoch, &text);
    tg_spec_free(spec);
    TG_TRY(status);
    status = tg__method_parse(text, spec_p, &def);
    free(text);
    return status;
}

tg_status tg_reducer_create(const char *method, tg_transport *transport, size_t n,
                            const tg_reducer_config *config, tg_reducer **r_p)
{
    TG__ARG(method);
    TG__ARG(transport);
    TG__ARG(r_p);
    tg_reducer_config own = {.struct_size = sizeof own};
    const tg_reducer_config *c = &own;
    if (config != NULL)
        TG_TRY(tg__sized_in("tg_reducer_create: config", &own, sizeof own,
                            TG__FIRST_SIZE(tg_reducer_config, total_steps), config));
    if (n == 0 || n > TG_MAX_ELEMENTS)
        return tg_fail(TG_E_ARG, "tg_reducer_create: n=%zu: allowed: 1 to %zu", n, TG_MAX_ELEMENTS);
    if (c->timeout_ms < 0 || c->timeout_ms > TG__TIMEOUT_MS_MAX)
        return tg_fail(TG_E_ARG, "tg_reducer_create: timeout_ms=%lld: allowed: 0 to %lld",
                       (long long)c->timeout_ms, (long long)TG__TIMEOUT_MS_MAX);
    if (c->codec_threads > TG__POOL_MAX)
        return tg_fail(TG_E_ARG, "tg_reducer_create: codec_threads=%u: allowed: 0 to %u",
                       c->codec_threads, TG__POOL_MAX);
    if (c->segments != NULL && (c->nsegments == 0 || c->nsegments > n))
        return tg_fail(TG_E_ARG, "tg_reducer_create: nsegments=%zu: allowed: 1 to n, which is %zu",
                       c->nsegments, n);
    if (c->segments == NULL && c->nsegments > 0)
        return tg_fail(TG_E_ARG,
                       "tg_reducer_create: segments is NULL with nsegments=%zu: allowed: "
                       "nsegments=0",
                       c->nsegments);
    tg_spec *spec = NULL;
    tg_reducer *r = NULL;
    tg_status status = parse(method, c, &spec);
    if (status == TG_OK)
        status = tg_alloc(1, sizeof *r, &r);
    if (status == TG_OK) {
        r->transport = transport;
        r->n = n;
        status = create(r, spec, c);
    }
    tg_spec_free(spec);
    if (status == TG_E_NOMEM && r != NULL && r->engine != NULL)
        tg__engine_give_up(r->engine, status, transport->rank);
    else if (status == TG_E_NOMEM)
        tg__leave_transport(transport, status);
    if (status != TG_OK) {
        tg_reducer_destroy(r);
        return status;
    }
    *r_p = r;
    return TG_OK;
}

void tg_reducer_destroy(tg_reducer *r)
{
    if (r == NULL)
        return;
    if (tg__engine_destroy(r->engine)) { /* otherwise the transport still holds message buffers */
        tg__flight_fini(&r->op.flight);
        tg__method_destroy(r->method);
        tg__state_destroy(r->state);
        tg__nodes_destroy(r->nodes);
    }
    tg__pool_destroy(r->pool);
    free(r);
}

static tg_status refuse_nonfinite(const tg_reducer *r)
{
    if (r->op.task.overflow != NULL)
        return tg_fail(TG_E_NONFINITE, "%s is not finite, though the gradient is",
                       r->op.task.overflow);
    return tg_fail(TG_E_NONFINITE, "a gradient%s is not finite on %s",
                   r->nodes == NULL ? "" : ", or a node's sum of them,",
                   r->op.flags & TG__FLAG_NONFINITE ? "this rank" : "another rank");
}

/* The operation ended with this status: take the result and report it to the caller. */
static tg_status conclude(tg_reducer *r, tg_status status)
{
    r->running = false;
    if (status == TG_OK) {
        const tg__program_ops *program = r->method->def->program;
        if ((r->op.flags | r->op.flags_in) & TG__FLAG_NONFINITE) {
            status = program->undo(r->method, &r->op.task);
            (void)tg__method_heal(r->method, false);
            if (status == TG_OK)
                status = refuse_nonfinite(r);
        } else {
            if (program->absorb != NULL)
                program->absorb(r->method, &r->op.task);
            tg__parallel_copy(r->pool, r->mean, program->aggregate(r->method, &r->op.task), r->n);
            r->ratio = 4.0 * (double)r->n / (double)(r->op.task.coded_bytes + TG__ENVELOPE_BYTES);
        }
    }
    if (r->on_done != NULL)
        r->on_done(r->arg, status);
    return status;
}

static tg_status start(const char *call, tg_reducer *r, const float *g, float *mean,
                       void (*on_done)(void *arg, tg_status status), void *arg)
{
    if (r->running)
        return tg_fail(TG_E_STATE, "%s: an operation is under way: wait for it first", call);
    tg__stats stats;
    tg__parallel_copy_stats(r->pool, NULL, g, r->n, &stats);
    r->op.method = r->method;
    r->op.task = (tg__task){.step = r->step, .g = g, .coded = true, .nonfinite = !stats.finite};
    r->op.step = r->step++;
    r->op.flags = TG__FLAG_CLOSES;
    if (!stats.finite)
        r->op.flags |= TG__FLAG_NONFINITE;
    r->mean = mean;
    r->on_done = on_done;
    r->arg = arg;
    watch_stop(r);
    TG_TRY(tg__engine_submit(r->engine, &r->op));
    r->running = true;
    return TG_OK;
}

tg_status tg_reducer_start(tg_reducer *r, const float *g, float *mean,
                           void (*on_done)(void *arg, tg_status status), void *arg)
{
    TG__ARG(r);
    TG__ARG(g);
    TG__ARG(mean);
    TG_TRY(start("tg_reducer_start", r, g, mean, on_done, arg));
    /* The exchange has started; if this fails, test or wait reports it. */
    const tg_status moved = tg__engine_progress(r->engine);
    (void)moved;
    return TG_OK;
}

tg_status tg_reducer_test(tg_reducer *r, bool *done_p)
{
    TG__ARG(r);
    TG__ARG(done_p);
    if (r->running) {
        tg_status status = tg__engine_progress(r->engine);
        if (status != TG_OK)
            return conclude(r, status);
        if (!tg__engine_is_done(r->engine, &r->op)) {
            *done_p = false;
            return TG_OK;
        }
        TG_TRY(conclude(r, TG_OK));
    }
    TG_TRY(tg__engine_progress(r->engine)); /* fails again if the reducer is dead */
    *done_p = true;
    return TG_OK;
}

tg_status tg_reducer_wait(tg_reducer *r)
{
    TG__ARG(r);
    if (!r->running)
        return tg__engine_progress(r->engine);
    return conclude(r, tg__engine_wait(r->engine, &r->op));
}

tg_status tg_reducer_mean(tg_reducer *r, const float *g, float *mean)
{
    TG__ARG(r);
    TG__ARG(g);
    TG__ARG(mean);
    TG_TRY(start("tg_reducer_mean", r, g, mean, NULL, NULL));
    return tg_reducer_wait(r);
}

uint64_t tg_reducer_bytes_sent(const tg_reducer *r)
{
    if (r == NULL)
        return 0;
    return tg__engine_bytes(r->engine);
}

double tg_reducer_ratio(const tg_reducer *r)
{
    if (r == NULL)
        return 0;
    return r->ratio;
}

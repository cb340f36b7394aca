/* The one-call reducer: one method and one bucket, driven inline by the calling thread. */
#include "engine/reducer_impl.h"
#include "base/arg.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/spec_value.h"
#include "codec/segments.h"
#include "engine/collect.h"
#include "engine/handshake.h"
#include "engine/network.h"
#include "kernel/parallel.h"
#include "method/auto_exchange.h"
#include "transport/endpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_set(const void *flag)
{
    return __atomic_load_n((const volatile sig_atomic_t *)flag, __ATOMIC_RELAXED) != 0;
}

/* End the next operation if *config.stop is set. Each operation gets its second from the moment at
 * which it is seen to wait. */
static void watch_stop(tg_reducer *r)
{
    if (r->stop != NULL)
        tg__engine_stop_if(r->engine, is_set, (const void *)r->stop);
}

/* ---- running --------------------------------------------------------------------------------- */

/* This rank's gradient is not finite: name the first such element. The caller must not have touched
 * it yet. */
static tg_status refuse_own(const tg_reducer *r)
{
    const float *g = r->op.task.g;
    const int rank = r->transport->rank;
    for (size_t i = 0; i < r->n; i++)
        if (!isfinite(g[i]))
            return tg_fail(TG_E_NONFINITE,
                           "rank %d: element %zu of the gradient is %g: allowed: "
                           "finite numbers",
                           rank, i, (double)g[i]);
    return tg_fail(TG_E_NONFINITE, "rank %d: the gradient was not finite when it was passed", rank);
}

static tg_status refuse_nonfinite(const tg_reducer *r)
{
    if (r->op.flags & TG__FLAG_NONFINITE)
        return refuse_own(r);
    if (r->op.task.overflow != NULL)
        return tg_fail(TG_E_NONFINITE, "%s is not finite, though the gradient is",
                       r->op.task.overflow);
    return tg_fail(TG_E_NONFINITE,
                   "a gradient%s is not finite on another rank: see that rank's error",
                   r->nodes == NULL ? "" : ", or a node's sum of them,");
}

void tg__reducer_settle(tg_reducer *r)
{
    const tg__program_ops *program = r->method->def->program;
    if (r->delivered && program->absorb != NULL)
        program->absorb(r->method, &r->op.task);
    r->delivered = false;
}

static void deliver(const tg_reducer *r, const float *mean)
{
    if (r->dtype == TG_F32)
        tg__parallel_copy(r->pool, r->mean, mean, r->n);
    else
        tg__parallel_narrow(r->pool, r->mean, mean, r->n, r->dtype == TG_BF16);
}

/* The operation ended with this status: take the result and report it to the caller. */
static tg_status conclude(tg_reducer *r, tg_status status)
{
    r->running = false;
    if (status == TG_OK) {
        const tg__program_ops *program = r->method->def->program;
        if (tg__op_flagged(&r->op)) {
            status = program->undo(r->method, &r->op.task);
            (void)tg__method_heal(r->method, false);
            if (status == TG_OK)
                status = refuse_nonfinite(r);
        } else {
            r->delivered = true;
            deliver(r, program->aggregate(r->method, &r->op.task));
            r->ratio = 4.0 * (double)r->n / (double)(r->op.task.coded_bytes + TG__ENVELOPE_BYTES);
        }
    }
    if (r->on_done != NULL)
        r->on_done(r->arg, status);
    return status;
}

static tg_status check_vectors(const char *call, tg_dtype dtype, const void *g, const void *mean,
                               size_t n)
{
    const size_t size = dtype == TG_F32 ? 4 : 2, bytes = n * size;
    const uintptr_t from = (uintptr_t)g, to = (uintptr_t)mean;
    if (from % size != 0 || to % size != 0)
        return tg_fail(TG_E_ARG, "%s: %s=%p: must be aligned to %zu bytes", call,
                       from % size != 0 ? "g" : "mean", from % size != 0 ? g : mean, size);
    if (from != to && tg__overlap(g, bytes, mean, bytes))
        return tg_fail(
            TG_E_ARG,
            "%s: mean begins %zu bytes %s g: it must be g itself, or at least %zu bytes away", call,
            (size_t)(to > from ? to - from : from - to), to > from ? "after" : "before", bytes);
    return TG_OK;
}

static tg_status start(const char *call, tg_reducer *r, tg_dtype dtype, const void *g, void *mean,
                       void (*on_done)(void *arg, tg_status status), void *arg)
{
    if (dtype != TG_F32 && dtype != TG_F16 && dtype != TG_BF16)
        return tg_fail(TG_E_ARG, "%s: dtype=%d: allowed: TG_F32, TG_F16, TG_BF16", call,
                       (int)dtype);
    if (r->running)
        return tg_fail(TG_E_STATE, "%s: an operation is under way: wait for it first", call);
    TG_TRY(check_vectors(call, dtype, g, mean, r->n));
    if (dtype != TG_F32 && r->wide == NULL)
        TG_TRY(tg_alloc(r->n, sizeof *r->wide, &r->wide));
    tg__reducer_settle(r);
    if (dtype != TG_F32) {
        tg__parallel_widen(r->pool, r->wide, g, r->n, dtype == TG_BF16);
        g = r->wide;
    }
    tg__stats stats;
    tg__parallel_copy_stats(r->pool, NULL, g, r->n, &stats);
    r->op.method = r->method;
    r->op.task = (tg__task){.step = r->step++, .g = g, .coded = true, .nonfinite = !stats.finite};
    r->op.flags = TG__FLAG_CLOSES;
    if (!stats.finite)
        r->op.flags |= TG__FLAG_NONFINITE;
    r->dtype = dtype;
    r->mean = mean;
    r->on_done = on_done;
    r->arg = arg;
    watch_stop(r);
    TG_TRY(tg__engine_submit(r->engine, &r->op));
    r->running = true;
    return TG_OK;
}

/* Begin to move bytes. If this fails, test or wait reports it. */
static void set_out(const tg_reducer *r)
{
    const tg_status moved = tg__engine_progress(r->engine);
    (void)moved;
}

tg_status tg_reducer_start(tg_reducer *r, const float *g, float *mean,
                           void (*on_done)(void *arg, tg_status status), void *arg)
{
    TG__ARGS(r, g, mean);
    TG_TRY(start("tg_reducer_start", r, TG_F32, g, mean, on_done, arg));
    set_out(r);
    return TG_OK;
}

tg_status tg_reducer_start_as(tg_reducer *r, tg_dtype dtype, const void *g, void *mean,
                              void (*on_done)(void *arg, tg_status status), void *arg)
{
    TG__ARGS(r, g, mean);
    TG_TRY(start("tg_reducer_start_as", r, dtype, g, mean, on_done, arg));
    set_out(r);
    return TG_OK;
}

tg_status tg_reducer_test(tg_reducer *r, bool *done_p)
{
    TG__ARGS(r, done_p);
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
    TG__ARGS(r, g, mean);
    TG_TRY(start("tg_reducer_mean", r, TG_F32, g, mean, NULL, NULL));
    return tg_reducer_wait(r);
}

/* ---- figures --------------------------------------------------------------------------------- */

uint64_t tg_reducer_bytes_sent(const tg_reducer *r)
{
    return r != NULL ? tg__engine_bytes(r->engine, NULL) : 0;
}

double tg_reducer_ratio(const tg_reducer *r)
{
    return r != NULL ? r->ratio : 0;
}

/* ---- creating and destroying: settings, handshake, method ------------------------------------ */

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

static void print_segments(const tg_reducer_config *c, FILE *f)
{
    if (c->segments == NULL)
        fputs("\nsegments=none", f);
    else
        fprintf(f, "\nsegments=%zu", c->nsegments);
    for (size_t i = 0; i < c->nsegments; i++)
        fprintf(f, "\nsegment %zu=%zu elements as %zu x %zu with dims %zu", i, c->segments[i].n,
                c->segments[i].rows, c->segments[i].cols, c->segments[i].dims);
}

/* The text that all ranks must share; NULL: out of memory. */
static char *describe(const tg_reducer *r, const tg_spec *spec, const tg_reducer_config *c)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    if (f == NULL)
        return NULL;
    fprintf(f, "reducer=%s\nworld=%d\nn=%zu\n", tg_spec_text(spec), r->transport->size, r->n);
    tg__nodes_print(r->nodes, true, f);
    fprintf(f, "seed=%llu\nsteps_per_epoch=%llu", (unsigned long long)c->seed,
            (unsigned long long)c->steps_per_epoch);
    print_segments(c, f);
    return fclose(f) == 0 ? text : NULL;
}

static tg_status handshake(const tg_reducer *r, const tg_spec *spec, const tg_reducer_config *c)
{
    TG__FREED char *text = describe(r, spec, c);
    if (text == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory in the handshake");
    return tg__handshake(r->engine, text, TG__BLOCK);
}

static tg_status make_method(tg_reducer *r, const tg_spec *spec, const tg_reducer_config *c)
{
    const tg_segment whole = {.begin = 0, .n = r->n, .rows = r->n, .cols = 1};
    const tg_segment *segments = c->segments == NULL ? &whole : c->segments;
    const size_t count = c->segments == NULL ? 1 : c->nsegments;
    TG__FREED const char **name = NULL;
    TG__FREED char(*names)[32] = NULL;
    TG__FREED size_t *len = NULL;
    TG_TRY(tg_alloc(count, sizeof *name, &name));
    TG_TRY(tg_alloc(count, sizeof *names, &names));
    TG_TRY(tg_alloc(4 * count, sizeof *len, &len));
    size_t *rows = len + count, *cols = rows + count, *dims = cols + count;
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "segment%zu", i);
        name[i] = names[i];
        len[i] = segments[i].n;
        rows[i] = segments[i].rows;
        cols[i] = segments[i].cols;
        dims[i] = segments[i].dims;
    }
    tg__method_setup setup = {.rank = r->transport->rank,
                              .size = r->transport->size,
                              .servers = tg__servers_of(r->transport),
                              .seat = tg__seat_of(r->transport),
                              .seed = c->seed,
                              .steps_per_epoch = c->steps_per_epoch,
                              .tensor = name,
                              .len = len,
                              .rows = rows,
                              .cols = cols,
                              .dims = dims,
                              .count = count,
                              .lanes = 1,
                              .momentum = (double)NAN,
                              .nesterov = -1,
                              .state = r->state,
                              .pool = r->pool,
                              .nodes = r->nodes};
    if (tg__method_is_auto(spec) && tg__nodes_talkers(r->nodes, r->transport->size) > 1)
        TG_TRY(choose_exchange(r, tg_spec_text(spec), setup, &setup.exchange));
    return tg__method_create(tg_spec_text(spec), &setup, &r->method);
}

static tg_status create(tg_reducer *r, const tg_spec *spec, const tg_reducer_config *c)
{
    int64_t timeout_ms = c->timeout_ms == 0 ? 60000 : c->timeout_ms;
    TG_TRY(tg__transport_check("tg_reducer_create", "transport", r->transport));
    TG_TRY(tg__state_create(&r->state));
    TG_TRY(tg__pool_create(TG__MAX(c->codec_threads, 1u), &r->pool));
    TG_TRY(tg__nodes_create("tg_reducer_create", c->nodes, r->transport->rank, r->transport->size,
                            &r->nodes));
    TG_TRY(tg__engine_create(r->transport, TG_DRIVER_INLINE, timeout_ms * INT64_C(1000000), NULL,
                             &r->engine));
    if (r->nodes != NULL)
        tg__engine_set_nodes(r->engine, r->nodes);
    r->stop = c->stop;
    watch_stop(r);
    TG_TRY(handshake(r, spec, c));
    return make_method(r, spec, c);
}

/* Parse the method's spec and settle its warm-up for this run. */
static tg_status parse(const char *method, const tg_reducer_config *c, tg_spec **spec_p)
{
    tg_spec *spec;
    TG__FREED char *text = NULL;
    const tg__method_def *def;
    TG_TRY(tg__method_parse(method, &spec, &def));
    tg_status status = tg__spec_settle(spec, method, c->total_steps, c->steps_per_epoch, &text);
    tg_spec_free(spec);
    TG_TRY(status);
    return tg__method_parse(text, spec_p, &def);
}

/* Everything that needs no other rank is checked before anything is sent. */
static tg_status check_config(const tg_reducer_config *c, size_t n)
{
    if (n == 0 || n > TG_MAX_ELEMENTS)
        return tg_fail(TG_E_ARG, "tg_reducer_create: n=%zu: allowed: 1 to %zu", n, TG_MAX_ELEMENTS);
    if (c->timeout_ms < 0 || c->timeout_ms > TG__TIMEOUT_MS_MAX)
        return tg_fail(TG_E_ARG, "tg_reducer_create: config->timeout_ms=%lld: allowed: 0 to %lld",
                       (long long)c->timeout_ms, (long long)TG__TIMEOUT_MS_MAX);
    if (c->codec_threads > TG__POOL_MAX)
        return tg_fail(TG_E_ARG, "tg_reducer_create: config->codec_threads=%u: allowed: 0 to %u",
                       c->codec_threads, TG__POOL_MAX);
    if (c->segments == NULL)
        return c->nsegments == 0
                   ? TG_OK
                   : tg_fail(TG_E_ARG,
                             "tg_reducer_create: config->segments is NULL with nsegments=%zu: "
                             "allowed: nsegments=0",
                             c->nsegments);
    if (c->nsegments == 0 || c->nsegments > n)
        return tg_fail(TG_E_ARG,
                       "tg_reducer_create: config->nsegments=%zu: allowed: 1 to n, which is %zu",
                       c->nsegments, n);
    return tg__segments_check("tg_reducer_create: config->", c->segments, c->nsegments, n, 1);
}

tg_status tg_reducer_create(const char *method, tg_transport *transport, size_t n,
                            const tg_reducer_config *config, tg_reducer **r_p)
{
    TG__ARGS(method, transport, r_p);
    tg_reducer_config own = {.struct_size = sizeof own};
    const tg_reducer_config *c = &own;
    if (config != NULL)
        TG_TRY(tg__sized_in("tg_reducer_create: config", &own, sizeof own,
                            TG__FIRST_SIZE(tg_reducer_config, total_steps), config));
    TG_TRY(check_config(c, n));
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
    }
    tg__state_destroy(r->state);
    tg__nodes_destroy(r->nodes);
    tg__pool_destroy(r->pool);
    free(r->wide);
    free(r);
}

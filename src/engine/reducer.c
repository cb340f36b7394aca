/* The one-call reducer: one method and one bucket, driven inline by the calling thread. */
#include "engine/reducer_impl.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "kernel/parallel.h"

#include <math.h>
#include <stdlib.h>

static bool is_set(const void *flag)
{
    return __atomic_load_n((const volatile sig_atomic_t *)flag, __ATOMIC_RELAXED) != 0;
}

void tg__reducer_watch_stop(tg_reducer *r)
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
    if (r->gpu.native) {
        const size_t bad = tg__on_device_bad(r->method);
        return tg_fail(TG_E_NONFINITE,
                       "rank %d: element %zu of the gradient is %g: allowed: finite numbers", rank,
                       bad, (double)tg__reducer_gpu_element(r, bad));
    }
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

static tg_status deliver(tg_reducer *r, const float *mean)
{
    if (r->gpu.queue != NULL)
        return tg__reducer_gpu_deliver(r, mean);
    if (r->dtype == TG_F32)
        tg__parallel_copy(r->pool, r->mean, mean, r->n);
    else
        tg__parallel_narrow(r->pool, r->mean, mean, r->n, r->dtype == TG_BF16);
    return TG_OK;
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
            status = deliver(r, program->aggregate(r->method, &r->op.task));
            r->ratio = 4.0 * (double)r->n / (double)(r->op.task.coded_bytes + TG__ENVELOPE_BYTES);
        }
    }
    if (status != TG_OK && status != TG_E_NONFINITE)
        tg__reducer_gpu_tell(r, status);
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

/* The caller's vectors, on the host unless the reducer is for those of a device. */
typedef struct vectors {
    tg_array g, mean;
} vectors;

static tg_status check_start(const char *call, const tg_reducer *r, const vectors *v)
{
    const tg_dtype dtype = v->g.dtype;
    const tg_memory memory = r->gpu.queue == NULL ? TG_HOST : TG_CUDA;
    if (dtype != TG_F32 && dtype != TG_F16 && dtype != TG_BF16)
        return tg_fail(TG_E_ARG, "%s: dtype=%d: allowed: TG_F32, TG_F16, TG_BF16", call,
                       (int)dtype);
    if (v->g.memory != memory || v->mean.memory != memory)
        return tg_fail(TG_E_ARG, "%s: vectors in %s memory: allowed: %s, as config->memory says",
                       call, memory == TG_HOST ? "a device's" : "host",
                       memory == TG_HOST ? "host memory"
                                         : "the device's, by tg_reducer_start_array");
    if (memory == TG_CUDA && (v->g.device != r->gpu.device || v->mean.device != r->gpu.device))
        return tg_fail(TG_E_ARG, "%s: vectors on device %d: allowed: %d, as config->device says",
                       call, v->g.device != r->gpu.device ? v->g.device : v->mean.device,
                       r->gpu.device);
    if (r->running)
        return tg_fail(TG_E_STATE, "%s: an operation is under way: wait for it first", call);
    return check_vectors(call, dtype, v->g.data, v->mean.data, r->n);
}

/* Find what the method reads, and whether that is finite, if the host can see it. */
static tg_status take_gradient(tg_reducer *r, const vectors *v, const float **g_p, bool *finite_p)
{
    const float *g = v->g.data;
    if (r->gpu.queue != NULL) {
        TG_TRY(tg__reducer_gpu_begin(r, &v->g, &g));
    } else if (v->g.dtype != TG_F32) {
        if (r->wide == NULL)
            TG_TRY(tg_alloc(r->n, sizeof *r->wide, &r->wide));
        tg__parallel_widen(r->pool, r->wide, v->g.data, r->n, v->g.dtype == TG_BF16);
        g = r->wide;
    }
    tg__stats stats = {.finite = true};
    if (!r->gpu.native)
        tg__parallel_copy_stats(r->pool, NULL, g, r->n, &stats);
    *g_p = g;
    *finite_p = stats.finite;
    return TG_OK;
}

static tg_status start(const char *call, tg_reducer *r, const vectors *v,
                       void (*on_done)(void *arg, tg_status status), void *arg)
{
    const float *g;
    bool finite;
    TG_TRY(check_start(call, r, v));
    tg__reducer_settle(r);
    const tg_status taken = take_gradient(r, v, &g, &finite);
    if (taken != TG_OK) {
        tg__reducer_gpu_tell(r, taken);
        return taken;
    }
    r->op.method = r->method;
    r->op.task = (tg__task){.step = r->step++, .g = g, .coded = true, .nonfinite = !finite};
    r->op.flags = TG__FLAG_CLOSES;
    if (!finite)
        r->op.flags |= TG__FLAG_NONFINITE;
    r->dtype = v->g.dtype;
    r->mean = v->mean.data;
    r->gpu.stream = v->mean.stream;
    r->on_done = on_done;
    r->arg = arg;
    tg__reducer_watch_stop(r);
    TG_TRY(tg__engine_submit(r->engine, &r->op));
    r->running = true;
    return TG_OK;
}

static vectors on_host(const tg_reducer *r, tg_dtype dtype, const void *g, void *mean)
{
    vectors v = {.g = tg_array_f32(g, r->n), .mean = tg_array_f32(mean, r->n)};
    v.g.dtype = v.mean.dtype = dtype;
    return v;
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
    TG__OWN_FLOATS;
    TG__ARGS(r, g, mean);
    const vectors v = on_host(r, TG_F32, g, mean);
    TG_TRY(start("tg_reducer_start", r, &v, on_done, arg));
    set_out(r);
    return TG_OK;
}

tg_status tg_reducer_start_as(tg_reducer *r, tg_dtype dtype, const void *g, void *mean,
                              void (*on_done)(void *arg, tg_status status), void *arg)
{
    TG__OWN_FLOATS;
    TG__ARGS(r, g, mean);
    const vectors v = on_host(r, dtype, g, mean);
    TG_TRY(start("tg_reducer_start_as", r, &v, on_done, arg));
    set_out(r);
    return TG_OK;
}

static tg_status check_array(const tg_reducer *r, const char *name, const tg_array *x)
{
    if (x->struct_size != sizeof *x)
        return tg_fail(TG_E_ARG,
                       "tg_reducer_start_array: %s->struct_size=%zu: sizeof(tg_array) is %zu", name,
                       x->struct_size, sizeof *x);
    if (x->n != r->n)
        return tg_fail(TG_E_ARG,
                       "tg_reducer_start_array: %s->n=%zu: allowed: %zu, as the reducer was "
                       "created for",
                       name, x->n, r->n);
    if (x->data == NULL)
        return tg_fail(TG_E_ARG, "tg_reducer_start_array: %s->data is NULL", name);
    return TG_OK;
}

tg_status tg_reducer_start_array(tg_reducer *r, const tg_array *g, const tg_array *mean,
                                 void (*on_done)(void *arg, tg_status status), void *arg)
{
    TG__OWN_FLOATS;
    TG__ARGS(r, g, mean);
    TG_TRY(check_array(r, "g", g));
    TG_TRY(check_array(r, "mean", mean));
    if (g->dtype != mean->dtype)
        return tg_fail(TG_E_ARG, "tg_reducer_start_array: mean->dtype=%d: allowed: %d, that of g",
                       (int)mean->dtype, (int)g->dtype);
    const vectors v = {.g = *g, .mean = *mean};
    TG_TRY(start("tg_reducer_start_array", r, &v, on_done, arg));
    set_out(r);
    return TG_OK;
}

tg_status tg_reducer_test(tg_reducer *r, bool *done_p)
{
    TG__OWN_FLOATS;
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
    TG__OWN_FLOATS;
    TG__ARG(r);
    if (!r->running)
        return tg__engine_progress(r->engine);
    return conclude(r, tg__engine_wait(r->engine, &r->op));
}

tg_status tg_reducer_mean(tg_reducer *r, const float *g, float *mean)
{
    TG__OWN_FLOATS;
    TG__ARGS(r, g, mean);
    const vectors v = on_host(r, TG_F32, g, mean);
    TG_TRY(start("tg_reducer_mean", r, &v, NULL, NULL));
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

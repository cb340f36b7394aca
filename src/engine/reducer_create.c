/* Creating and destroying reducers: settings, handshake, method. */
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "base/memstream.h"
#include "base/sized.h"
#include "base/spec_value.h"
#include "codec/segments.h"
#include "engine/collect.h"
#include "engine/handshake.h"
#include "engine/network.h"
#include "engine/reducer_impl.h"
#include "method/auto_exchange.h"
#include "transport/endpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
    FILE *f = tg__memstream_open(&text, &len);
    if (f == NULL)
        return NULL;
    fprintf(f, "reducer=%s\nworld=%d\nn=%zu\n", tg_spec_text(spec), r->transport->size, r->n);
    tg__nodes_print(r->nodes, true, f);
    fprintf(f, "seed=%llu\nsteps_per_epoch=%llu", (unsigned long long)c->seed,
            (unsigned long long)c->steps_per_epoch);
    print_segments(c, f);
    return tg__memstream_close(f, &text) == TG_OK ? text : NULL;
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
    setup.queue = r->gpu.queue;
    const tg_status status = tg__method_create(tg_spec_text(spec), &setup, &r->method);
    r->gpu.failed = status == TG_E_STATE && r->gpu.queue != NULL;
    TG_TRY(status);
    r->gpu.native = tg__on_device(r->method);
    return TG_OK;
}

static tg_status create(tg_reducer *r, const tg_spec *spec, const tg_reducer_config *c)
{
    int64_t timeout_ms = c->timeout_ms == 0 ? 60000 : c->timeout_ms;
    TG_TRY(tg__transport_check("tg_reducer_create", "transport", r->transport));
    if (c->memory == TG_CUDA)
        TG_TRY(tg__reducer_open(r, c->device));
    TG_TRY(tg__state_create(&r->state));
    TG_TRY(tg__pool_create(TG__MAX(c->codec_threads, 1u), &r->pool));
    TG_TRY(tg__nodes_create("tg_reducer_create", c->nodes, r->transport->rank, r->transport->size,
                            &r->nodes));
    TG_TRY(tg__engine_create(r->transport, TG_DRIVER_INLINE, timeout_ms * INT64_C(1000000), NULL,
                             &r->engine));
    if (r->nodes != NULL)
        tg__engine_set_nodes(r->engine, r->nodes);
    r->stop = c->stop;
    tg__reducer_watch_stop(r);
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
    if (c->memory != TG_HOST && c->memory != TG_CUDA)
        return tg_fail(TG_E_ARG, "tg_reducer_create: config->memory=%d: allowed: TG_HOST, TG_CUDA",
                       (int)c->memory);
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
    TG__OWN_FLOATS;
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
    const bool alone = status == TG_E_NOMEM || (r != NULL && r->gpu.failed);
    if (alone && r != NULL && r->engine != NULL)
        tg__engine_give_up(r->engine, status, transport->rank);
    else if (alone)
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
    TG__OWN_FLOATS;
    if (r == NULL)
        return;
    if (tg__engine_destroy(r->engine)) { /* otherwise the transport still holds message buffers */
        tg__flight_fini(&r->op.flight);
        tg__method_destroy(r->method);
    }
    tg__state_destroy(r->state);
    tg__nodes_destroy(r->nodes);
    tg__pool_destroy(r->pool);
    tg__reducer_close(r);
    free(r->wide);
    free(r);
}

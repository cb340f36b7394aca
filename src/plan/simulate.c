/* A simulation: a session of one rank that never begins, which provides the buckets and the setups
 * of their methods; and the bytes that each method's rounds carry. */
#include "plan/simulate_impl.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "base/sized.h"
#include "method/auto_exchange.h"
#include "telegrad/spec.h"

#include <stdlib.h>
#include <string.h>

/* ---- bytes of methods ------------------------------------------------------------------------ */

/* A bucket's method to be rehearsed. */
typedef struct finding {
    const tg_simulation *sim;
    tg__sim_bucket *found;
    int world;
    const tg__network *net;
} finding;

static void scale(tg__rehearsal *r, double by)
{
    for (size_t i = 0; i < r->rounds; i++) {
        r->round[i].n = (size_t)((double)r->round[i].n * by);
        r->round[i].frame *= by;
    }
    r->bytes = (size_t)((double)r->bytes * by);
}

/* Rehearse the method coded and dense, on a random gradient. Of the coded steps only the second
 * counts: by then thresholds have adapted. */
static tg_status rehearse(const finding *f, const char *text, const tg__sample *sample)
{
    tg__method *m = NULL;
    TG__FREED float *g = NULL;
    tg__method_setup setup = sample->setup;
    tg__sim_bucket *b = f->found;
    setup.exchange = b->exchange;
    TG_TRY(tg__state_create(&setup.state));
    tg_status status = tg__method_create(text, &setup, &m);
    if (status == TG_OK)
        status = tg__rehearsal_gradient(setup.seed, sample->n, &g);
    tg__task task = {.step = TG__LATE, .g = g, .coded = true, .eta = f->sim->session->lr};
    for (; task.step < TG__LATE + 2 && status == TG_OK; task.step++)
        status = tg__rehearse(m, task, &b->way[1]);
    if (status == TG_OK)
        status = tg__rehearse(m, (tg__task){.step = TG__LATE + 2, .g = g}, &b->way[0]);
    scale(&b->way[0], sample->scale);
    scale(&b->way[1], sample->scale);
    tg__method_destroy(m);
    tg__state_destroy(setup.state);
    return status;
}

static size_t elements(const tg__method_setup *setup)
{
    size_t n = 0;
    for (size_t i = 0; i < setup->count; i++)
        n += setup->len[i];
    return n;
}

static tg_status find_way(void *arg, const char *text, const tg__method_setup *setup)
{
    const finding *f = arg;
    tg__sim_bucket *b = f->found;
    tg_spec *spec;
    const tg__method_def *def;
    tg__sample sample;
    TG_TRY(tg__method_parse(text, &spec, &def));
    tg_status status = TG_OK;
    if (tg__method_is_auto(spec) && f->world > 1) {
        const tg__exchange_ops *x;
        tg__method_setup among = *setup;
        among.size = f->world;
        status = tg__auto_exchange(text, &among, f->sim->session->lr, f->net, &x);
        b->exchange = status == TG_OK ? x->entry.name : NULL;
    }
    if (status == TG_OK)
        status = tg__sample_create(setup, TG__AUTO_ELEMENTS, &sample);
    if (status == TG_OK) {
        status = rehearse(f, text, &sample);
        tg__sample_free(&sample);
    }
    if (status == TG_OK && def->program->foresee != NULL) {
        tg__method_setup among = *setup;
        among.exchange = b->exchange != NULL ? b->exchange : tg_spec_word(spec, "exchange");
        b->way[1] = (tg__rehearsal){0};
        def->program->foresee(spec, &among, &b->way[1]);
    }
    b->way[TG__SIM_PUSHED] = (tg__rehearsal){0};
    tg__rehearsal_add_dense(&b->way[TG__SIM_PUSHED], tg__exchange_find("push"), elements(setup));
    tg_spec_free(spec);
    return status;
}

tg_status tg__sim_find_way(tg_simulation *sim, uint32_t b, int world, const tg__network *net)
{
    const tg_session *s = sim->session;
    tg__sim_bucket *found = &sim->bucket[b];
    finding f = {.sim = sim, .found = found, .world = world, .net = net};
    const tg__method_setup setup = {
        .size = 1, .measures = true, .lanes = 1, .may_bypass = true}; /* no server answers */
    const bool depends = world > 1 && tg__method_is_auto(s->rules.rule[s->bucket[b].rule].spec);
    if (found->way[0].rounds > 0 && !depends)
        return TG_OK;
    return tg__session_with_setup(s, &s->bucket[b], b, setup, find_way, &f);
}

/* ---- creating -------------------------------------------------------------------------------- */

/* The session uses shapes only; the tensors' memory is never read. */
static tg_status add_tensors(tg_session *s, const tg_sim_tensor *tensors, size_t ntensors)
{
    static float nothing;
    for (size_t i = 0; i < ntensors; i++) {
        const tg_sim_tensor *x = &tensors[i];
        size_t n = 1;
        uint32_t id;
        if (x->shape == NULL && x->ndim > 0)
            return tg_fail(TG_E_ARG, "tensor %zu of a simulation: shape is NULL", i);
        for (size_t d = 0; d < x->ndim && n <= TG_MAX_ELEMENTS; d++)
            n *= x->shape[d];
        tg_tensor t = {.struct_size = sizeof t,
                       .name = x->name,
                       .shape = x->shape,
                       .ndim = x->ndim,
                       .kind = TG_TENSOR_TRAINED,
                       .param = tg_array_f32(&nothing, n),
                       .grad = tg_array_f32(&nothing, n)};
        t.grad.data = (void *)((uintptr_t)&nothing + n * sizeof nothing); /* after the parameter */
        TG_TRY(tg_session_add(s, &t, &id));
    }
    return TG_OK;
}

static tg_status create(tg_simulation *sim, const tg_session_config *config,
                        const tg_sim_tensor *tensors, size_t ntensors)
{
    tg_session_config alone;
    TG_TRY(tg__session_take_config("tg_simulation_create: config", config, &alone));
    if (alone.nodes != NULL)
        return tg_fail(TG_E_UNSUPPORTED, "a simulation has one level: config->nodes must be NULL");
    if (alone.optimizer != NULL && strcmp(alone.optimizer, TG__EXTERNAL) == 0)
        return tg_fail(TG_E_UNSUPPORTED, "a simulation takes the steps itself: config->optimizer "
                                         "must not be \"external\"");
    if (ntensors == 0)
        return tg_fail(TG_E_ARG, "a simulation needs at least 1 tensor");
    const tg_driver driver = alone.driver;
    alone.driver = TG_DRIVER_INLINE;
    TG_TRY(tg_transport_inproc(1, &sim->transport));
    TG_TRY(tg_session_create(&alone, sim->transport, &sim->session));
    tg_session *s = sim->session;
    s->config.driver = driver;
    TG_TRY(add_tensors(s, tensors, ntensors));
    TG_TRY(tg__session_settle(s));
    TG_TRY(tg__session_layout(s));
    TG_TRY(tg__owned_alloc(&s->owned, s->nbuckets, sizeof *sim->bucket, &sim->bucket));
    TG_TRY(tg__owned_alloc(&s->owned, s->ntrained, sizeof *sim->zero, &sim->zero));
    TG_TRY(tg__owned_alloc(&s->owned, s->ntrained, sizeof *sim->none, &sim->none));
    return tg__owned_alloc(&s->owned, s->ntrained, sizeof *s->wtensor, &s->wtensor);
}

tg_status tg_simulation_create(const tg_session_config *config, const tg_sim_tensor *tensors,
                               size_t ntensors, tg_simulation **sim_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(config, tensors, sim_p);
    tg_simulation *sim;
    TG_TRY(tg_alloc(1, sizeof *sim, &sim));
    const tg_status status = create(sim, config, tensors, ntensors);
    if (status != TG_OK) {
        tg_simulation_destroy(sim);
        return status;
    }
    *sim_p = sim;
    return TG_OK;
}

void tg_simulation_destroy(tg_simulation *sim)
{
    if (sim == NULL)
        return;
    tg_session_destroy(sim->session);
    tg_transport_destroy(sim->transport);
    free(sim);
}

/* ---- times ----------------------------------------------------------------------------------- */

tg_status tg_simulation_measure(tg_simulation *sim, size_t room, tg_bucket_cost *cost,
                                size_t *count_p)
{
    TG__OWN_FLOATS;
    TG__ARG(sim);
    if (room > 0)
        TG__ARG(cost);
    TG__ARG(count_p);
    TG_TRY(tg__sim_open_strategy(sim, tg__sim_unserved(sim->session->config.strategy), 1));
    const tg_status status =
        tg__session_tell_costs("tg_simulation_measure: cost", sim->session, room, cost, count_p);
    tg__sim_close_strategy(sim);
    return status;
}

tg_status tg_simulation_set_costs(tg_simulation *sim, const tg_bucket_cost *cost, size_t count)
{
    TG__OWN_FLOATS;
    TG__ARGS(sim, cost);
    tg_session *s = sim->session;
    if (count != s->nbuckets)
        return tg_fail(TG_E_MISMATCH, "costs of %zu buckets, but the simulation has %zu", count,
                       s->nbuckets);
    return tg__session_take_costs("tg_simulation_set_costs: cost", s, cost);
}

/* Add the rounds of a route in sequence, each with its delays. */
static void add_route(const tg__sim_route *r, size_t way, double *sent_ns, double *last_ns,
                      tg_sim_exchange *x)
{
    double delays = 0, decode = 0;
    for (size_t i = 0; i < r->stages; i++) {
        *sent_ns += r->stage[i].wire_ns;
        delays += r->stage[i].delay_ns;
        decode += r->stage[i].decode_ns + r->stage[i].around_ns;
    }
    *last_ns = *sent_ns + delays > *last_ns ? *sent_ns + delays : *last_ns;
    x->coded_bytes[way] += r->coded_bytes;
    x->bytes[way] += r->bytes;
    x->encode_ns[way] += r->encode_ns;
    x->decode_ns[way] += decode;
}

tg_status tg_simulation_exchange(tg_simulation *sim, int world, const tg_link *link,
                                 tg_sim_exchange *x_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(sim, link, x_p);
    const tg_session *s = sim->session;
    tg_sim_exchange x = {.buckets = s->nbuckets, .elements = s->n};
    TG_TRY(tg__sized_room("tg_simulation_exchange: x_p", x_p,
                          TG__FIRST_SIZE(tg_sim_exchange, elements)));
    if (world < 1 || world > TG_SIM_WORLD_MAX)
        return tg_fail(TG_E_ARG, "world=%d: allowed: 1 to %d", world, TG_SIM_WORLD_MAX);
    TG_TRY(tg__sim_check_link("tg_simulation_exchange", link));
    const tg__network net = tg__sim_network(link, world);
    for (uint32_t b = 0; b < s->nbuckets; b++) {
        TG_TRY(tg__sim_find_way(sim, b, world, &net));
        x.apply_ns += (double)tg__session_costs(s, b)->apply_ns;
    }
    for (size_t way = TG__SIM_DENSE; way <= TG__SIM_CODED; way++) {
        double sent_ns = 0, last_ns = 0;
        for (size_t b = 0; b < s->nbuckets; b++) {
            tg__sim_route r;
            tg__sim_route_make(&sim->bucket[b], tg__session_costs(s, b), (tg__sim_way)way, world,
                               &net, NULL, &r);
            add_route(&r, way, &sent_ns, &last_ns, &x);
        }
        x.wire_ns[way] = last_ns;
    }
    tg__sized_out(x_p, &x, sizeof x);
    return TG_OK;
}

const char *tg_simulation_spec(const tg_simulation *sim, tg_kind kind)
{
    TG__OWN_FLOATS;
    return sim != NULL ? tg_session_spec(sim->session, kind) : NULL;
}

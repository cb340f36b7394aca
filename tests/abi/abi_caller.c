/* A program that passes every structure that can grow to the library. It is compiled twice: with
 * the headers of the first version (ABI_FIRST), with garbage after its structures; and with today's
 * headers, with structures longer than the library's, as a newer program would have them. */
#ifdef ABI_FIRST
#include "abi/abi_first.h"
#else
#include "telegrad/telegrad.h"
#endif

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 8, TAIL = 16, BEHIND = 32, ROOM = 4096 };

/* What the library does with a structure: input, output, or both. */
typedef enum use_kind { IN, OUT, BOTH } use_kind;

/* A structure, and the memory after it. */
typedef union given {
    size_t struct_size;
    double aligned;
    unsigned char bytes[ROOM + BEHIND];
} given;

static tg_transport *transport;
static float w[N], g[N];
static const size_t shape[] = {N};
static const char *use_name;

static void need(tg_status status)
{
    if (status == TG_OK)
        return;
    printf("%s: a call that should succeed: %s\n", use_name, tg_error());
    exit(1);
}

static void check(int right, const char *what)
{
    if (right)
        return;
    printf("%s: not so: %s (\"%s\")\n", use_name, what, tg_error());
    exit(1);
}

/* ---- the calls ------------------------------------------------------------------------------- */

static tg_session *session(void)
{
    const tg_session_config config = {.struct_size = sizeof config, .driver = TG_DRIVER_INLINE};
    const tg_tensor t = {.struct_size = sizeof t,
                         .name = "w",
                         .shape = shape,
                         .ndim = 1,
                         .param = tg_array_f32(w, N),
                         .grad = tg_array_f32(g, N)};
    tg_session *s;
    uint32_t id;
    need(tg_session_create(&config, transport, &s));
    need(tg_session_add(s, &t, &id));
    need(tg_session_begin(s));
    return s;
}

static tg_simulation *simulation(void)
{
    const tg_session_config config = {.struct_size = sizeof config};
    const tg_sim_tensor t = {.name = "w", .shape = shape, .ndim = 1};
    tg_simulation *sim;
    need(tg_simulation_create(&config, &t, 1, &sim));
    return sim;
}

static tg_status config_of_session(void *x)
{
    tg_session *s;
    TG_TRY(tg_session_create(x, transport, &s));
    tg_session_destroy(s);
    return TG_OK;
}

static tg_status config_of_simulation(void *x)
{
    const tg_sim_tensor t = {.name = "w", .shape = shape, .ndim = 1};
    tg_simulation *sim;
    TG_TRY(tg_simulation_create(x, &t, 1, &sim));
    tg_simulation_destroy(sim);
    return TG_OK;
}

static tg_status config_of_reducer(void *x)
{
    tg_reducer *r;
    TG_TRY(tg_reducer_create("dense", transport, N, x, &r));
    tg_reducer_destroy(r);
    return TG_OK;
}

static tg_status encode_context(void *x)
{
    unsigned char frame[512];
    const tg_array v = tg_array_f32(g, N);
    size_t len;
    tg_codec *codec;
    need(tg_codec_create("topk:density=0.5", &codec));
    const tg_status status = tg_codec_encode(codec, x, &v, frame, sizeof frame, &len);
    tg_codec_destroy(codec);
    return status;
}

static tg_status tensor(void *x)
{
    const tg_session_config config = {.struct_size = sizeof config, .driver = TG_DRIVER_INLINE};
    tg_tensor *t = x;
    tg_session *s;
    uint32_t id;
    t->name = "w";
    t->shape = shape;
    t->ndim = 1;
    t->param = tg_array_f32(w, N);
    t->grad = tg_array_f32(g, N);
    need(tg_session_create(&config, transport, &s));
    const tg_status status = tg_session_add(s, t, &id);
    tg_session_destroy(s);
    return status;
}

static tg_status step_info(void *x)
{
    tg_step_info *info = x;
    tg_session *s = session();
    need(tg_session_grad_ready(s, 0));
    const tg_status status = tg_session_step(s, info);
    if (status == TG_OK) {
        check(info->elements == N && info->nmethods == 1 && info->methods[0]->n == N, "a step");
        check(info->methods[0]->struct_size >= sizeof **info->methods, "size of the method's");
    }
    tg_session_destroy(s);
    return status;
}

static tg_status resumed(void *x)
{
    tg_session *s = session();
    const tg_status status = tg_session_resumed(s, x);
    tg_session_destroy(s);
    return status;
}

static tg_status costs_told(void *x)
{
    size_t count = 0;
    tg_session *s = session();
    const tg_status status = tg_session_measure(s, 1, x, &count);
    check(status != TG_OK || count == 1, "one bucket");
    tg_session_destroy(s);
    return status;
}

static tg_status costs_taken(void *x)
{
    tg_session *s = session();
    const tg_status status = tg_session_set_costs(s, x, 1);
    tg_session_destroy(s);
    return status;
}

static tg_status simulated_costs_told(void *x)
{
    size_t count;
    tg_simulation *sim = simulation();
    const tg_status status = tg_simulation_measure(sim, 1, x, &count);
    tg_simulation_destroy(sim);
    return status;
}

static tg_status simulated_costs_taken(void *x)
{
    tg_simulation *sim = simulation();
    const tg_status status = tg_simulation_set_costs(sim, x, 1);
    tg_simulation_destroy(sim);
    return status;
}

static tg_status update(void *x)
{
    tg_optimizer *o;
    need(tg_optimizer_create("sgd:lr=0.1", &o));
    const tg_status status = tg_optimizer_step(o, x, w, g, N, NULL);
    tg_optimizer_destroy(o);
    return status;
}

static const tg_work work[] = {
    {TG_WORK_PARAM_WAIT, 0, 0}, {TG_WORK_COMPUTE, 0, 1000}, {TG_WORK_GRAD_READY, 0, 0}};

static tg_status on_simulated_step(void *arg, const tg_sim_step *step)
{
    (void)arg;
    check(step->struct_size >= sizeof *step, "size of a simulated step");
    return TG_OK;
}

static tg_status simulated_run(void *x)
{
    tg_sim_run *run = x;
    run->world = 2;
    run->link.struct_size = sizeof run->link;
    run->work = work;
    run->nwork = 3;
    run->steps = 2;
    run->each = on_simulated_step;
    tg_simulation *sim = simulation();
    const tg_status status = tg_simulation_run(sim, run, NULL);
    tg_simulation_destroy(sim);
    return status;
}

static tg_status simulated_end(void *x)
{
    const tg_sim_run run = {.struct_size = sizeof run,
                            .world = 2,
                            .link = {.struct_size = sizeof(tg_link)},
                            .work = work,
                            .nwork = 3,
                            .steps = 2};
    tg_simulation *sim = simulation();
    const tg_status status = tg_simulation_run(sim, &run, x);
    check(status != TG_OK || ((tg_sim_end *)x)->ns > 0, "an end");
    tg_simulation_destroy(sim);
    return status;
}

static tg_status simulated_exchange(void *x)
{
    const tg_link link = {.struct_size = sizeof link};
    tg_simulation *sim = simulation();
    const tg_status status = tg_simulation_exchange(sim, 2, &link, x);
    check(status != TG_OK || ((tg_sim_exchange *)x)->elements == N, "an exchange");
    tg_simulation_destroy(sim);
    return status;
}

/* Structures that the library uses in place: the table, the transport and the clock of another
 * library. */

static tg_status borrowed(tg_transport *t)
{
    tg_reducer *r;
    TG_TRY(tg_reducer_create("dense", t, N, NULL, &r));
    need(tg_reducer_mean(r, g, w));
    tg_reducer_destroy(r);
    return TG_OK;
}

static tg_status transport_table(void *x)
{
    const size_t size = ((tg_transport_ops *)x)->struct_size;
    tg_transport t = *transport;
    memcpy(x, transport->ops, sizeof *transport->ops);
    ((tg_transport_ops *)x)->struct_size = size;
    t.struct_size = sizeof t;
    t.ops = x;
    return borrowed(&t);
}

static tg_status transport_itself(void *x)
{
    const size_t size = ((tg_transport *)x)->struct_size;
    memcpy(x, transport, sizeof *transport);
    ((tg_transport *)x)->struct_size = size;
    return borrowed(x);
}

static void fill_clock(tg_clock *clock)
{
    clock->now_ns = tg_clock_monotonic()->now_ns;
    clock->sleep_until_ns = tg_clock_monotonic()->sleep_until_ns;
}

#ifndef ABI_FIRST
#include "abi/abi_caller_newer.h"
#endif

static tg_status clock_of_transport(void *x)
{
    fill_clock(x);
    tg_transport t = *transport;
    t.struct_size = sizeof t;
    t.clock = x;
    return borrowed(&t);
}

static tg_status clock_of_ranks(void *x)
{
    tg_transport *t;
    fill_clock(x);
    TG_TRY(tg_transport_inproc_clock(1, x, &t));
    const tg_status status = borrowed(t);
    tg_transport_destroy(t);
    return status;
}

static tg_status clock_of_thread(void *x)
{
    fill_clock(x);
    TG_TRY(tg_clock_enter(x, 0));
    tg_clock_work(x, 1);
    tg_clock_leave(x);
    return TG_OK;
}

static const struct use {
    const char *name;
    size_t size;
    use_kind kind;
    tg_status (*call)(void *x);
} uses[] = {
    {"tg_session_config of a session", sizeof(tg_session_config), IN, config_of_session},
    {"tg_session_config of a simulation", sizeof(tg_session_config), IN, config_of_simulation},
    {"tg_reducer_config", sizeof(tg_reducer_config), IN, config_of_reducer},
#ifndef ABI_FIRST
    {"tg_reducer_slot", sizeof(tg_reducer_slot), OUT, slot_told},
    {"tg_turn", sizeof(tg_turn), OUT, turn_told},
    {"tg_server_config", sizeof(tg_server_config), IN, config_of_server},
    {"tg_server_stats", sizeof(tg_server_stats), OUT, server_stats},
#endif
#ifdef ABI_NET
    {"tg_net_config", sizeof(tg_net_config), IN, config_of_net},
    {"tg_net_peer_info", sizeof(tg_net_peer_info), OUT, peer_told},
    {"tg_net_serve_config", sizeof(tg_net_serve_config), IN, config_of_serve},
    {"tg_net_attach_config", sizeof(tg_net_attach_config), IN, config_of_attach},
#endif
    {"tg_encode_context", sizeof(tg_encode_context), IN, encode_context},
    {"tg_tensor", sizeof(tg_tensor), IN, tensor},
    {"tg_step_info", sizeof(tg_step_info), BOTH, step_info},
    {"tg_resumed", sizeof(tg_resumed), OUT, resumed},
    {"tg_bucket_cost measured", sizeof(tg_bucket_cost), OUT, costs_told},
    {"tg_bucket_cost set", sizeof(tg_bucket_cost), IN, costs_taken},
    {"tg_bucket_cost of a simulation, measured", sizeof(tg_bucket_cost), OUT, simulated_costs_told},
    {"tg_bucket_cost of a simulation, set", sizeof(tg_bucket_cost), IN, simulated_costs_taken},
    {"tg_update", sizeof(tg_update), IN, update},
    {"tg_sim_run", sizeof(tg_sim_run), IN, simulated_run},
    {"tg_sim_end", sizeof(tg_sim_end), OUT, simulated_end},
    {"tg_sim_exchange", sizeof(tg_sim_exchange), OUT, simulated_exchange},
    {"tg_transport_ops", sizeof(tg_transport_ops), IN, transport_table},
    {"tg_transport", sizeof(tg_transport), IN, transport_itself},
    {"tg_clock of a transport", sizeof(tg_clock), IN, clock_of_transport},
    {"tg_clock of ranks", sizeof(tg_clock), IN, clock_of_ranks},
    {"tg_clock of a thread", sizeof(tg_clock), IN, clock_of_thread},
};

/* ---- the expected results -------------------------------------------------------------------- */

/* Make a structure of `size` zero bytes whose struct_size is `told`; the memory after it is
 * garbage. */
static void make(given *x, size_t size, size_t told)
{
    memset(x, 0xa5, sizeof *x);
    memset(x, 0, size);
    x->struct_size = told;
}

static int is_garbage(const given *x, size_t from)
{
    for (size_t i = from; i < sizeof *x; i++)
        if (x->bytes[i] != 0xa5)
            return 0;
    return 1;
}

/* struct_size is that of the headers; the library's own may be larger. */
static void as_long_as_in_the_headers(const struct use *u)
{
    given x;
    make(&x, u->size, u->size);
    need(u->call(&x));
    check(is_garbage(&x, u->size), "nothing is written behind the structure");
    check(x.struct_size == u->size, "struct_size stays");
}

static void refused(const struct use *u, given *x, const char *words)
{
    check(u->call(x) == TG_E_ARG, "TG_E_ARG");
    check(strstr(tg_error(), words) != NULL, words);
}

static void sizes_have_limits(const struct use *u)
{
    static const size_t wrong[] = {0, 8, ROOM + 8, SIZE_MAX};
    given x;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        make(&x, u->size, wrong[i]);
        refused(u, &x, "struct_size=");
    }
#ifdef ABI_FIRST
    make(&x, u->size, u->size - 1); /* shorter than in any version */
    refused(u, &x, "struct_size=");
#endif
}

#ifndef ABI_FIRST
static void longer_than_the_library_knows(const struct use *u)
{
    given x;
    char byte[64];
    make(&x, u->size + TAIL, u->size + TAIL);
    need(u->call(&x));
    check(x.struct_size == u->size + TAIL, "struct_size stays");
    for (size_t i = u->size; i < u->size + TAIL && u->kind != OUT; i++) {
        make(&x, u->size + TAIL, u->size + TAIL);
        x.bytes[i] = 1;
        snprintf(byte, sizeof byte, "byte %zu of %zu is 1", i, u->size + TAIL);
        refused(u, &x, byte);
    }
    if (u->kind == OUT) { /* the content of an output does not matter */
        make(&x, sizeof x.struct_size, u->size + TAIL);
        need(u->call(&x));
    }
    for (size_t i = u->size; i < u->size + TAIL && u->kind == OUT; i++)
        check(x.bytes[i] == 0, "unknown members of outputs become 0");
    check(is_garbage(&x, u->size + TAIL), "nothing is written behind the structure");
    make(&x, ROOM, ROOM); /* the largest size allowed */
    need(u->call(&x));
}
#endif

/* Structures that the library hands out. */
static tg_status on_tensor(void *arg, const tg_plan_tensor *t)
{
    (void)arg;
    check(t->struct_size >= sizeof *t && t->n == N, "a row of the plan");
    return TG_OK;
}

static void handed_out(void)
{
    use_name = "structures of the library";
    tg_session *s = session();
    need(tg_session_plan(s, on_tensor, NULL));
    tg_session_destroy(s);
    check(tg_registry_method_card("topk")->struct_size >= sizeof(tg_method_card), "a card");
    check(tg_registry_rate_hint(TG_KIND_METHOD, "signsgd")->struct_size >= sizeof(tg_rate_hint),
          "a hint");
    check(tg_clock_monotonic()->struct_size >= sizeof(tg_clock), "a clock");
    check(transport->struct_size >= sizeof *transport, "a transport");
    check(transport->ops->struct_size >= sizeof *transport->ops, "a table");
}

int main(void)
{
    const size_t count = sizeof uses / sizeof *uses;
#ifdef ABI_NET
    find_place();
#endif
    for (size_t i = 0; i < count; i++) {
        use_name = uses[i].name;
        need(tg_transport_inproc(1, &transport));
        as_long_as_in_the_headers(&uses[i]);
        sizes_have_limits(&uses[i]);
#ifndef ABI_FIRST
        longer_than_the_library_knows(&uses[i]);
#endif
        tg_transport_destroy(transport);
    }
    need(tg_transport_inproc(1, &transport));
    handed_out();
    tg_transport_destroy(transport);
    printf("%zu uses\n", count);
    return 0;
}

/* Valid arguments of every type for the calls in arguments.py, made afresh each time. */
#ifndef TG_TESTS_ARGUMENTS_H
#define TG_TESTS_ARGUMENTS_H

#include "telegrad/telegrad.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARG_N = 8 }; /* elements of vectors */

static char arg_dir[] = "/tmp/telegrad-arguments-XXXXXX"; /* contains a checkpoint */

static inline void arg_need(tg_status status)
{
    if (status == TG_OK)
        return;
    printf("cannot make an argument: %s\n", tg_error());
    exit(3);
}

static inline float *arg_floats(void)
{
    static float some[4][ARG_N];
    static int next;
    for (size_t i = 0; i < ARG_N; i++)
        some[next % 4][i] = (float)i - 2.5f;
    return some[next++ % 4];
}

/* ARG_N + 1 vectors; the last one may be NULL. */
static inline float *const *arg_vectors(void)
{
    static float *vectors[2];
    vectors[0] = arg_floats();
    return vectors;
}

static inline void *arg_bytes(void)
{
    static unsigned char bytes[4096];
    return bytes;
}

static inline void *arg_run(void *arg)
{
    return arg;
}

static inline tg_clock_thread *arg_thread(void)
{
    tg_clock_thread *t = NULL;
    arg_need(tg_clock_thread_start(tg_clock_monotonic(), 0, "arg", arg_run, NULL, &t));
    return t;
}

static inline tg_clock *arg_clock(void)
{
    tg_clock *clock = NULL;
    arg_need(tg_clock_virtual_create(0, &clock));
    return clock;
}

static inline tg_nearest *arg_nearest(void)
{
    static tg_nearest n;
    tg_nearest_begin(&n, "densty");
    return &n;
}

/* A backend that is never used: no array of these tests is on a device. */
static inline tg_device_ops *arg_device_ops(void)
{
    static tg_device_ops ops;
    ops.struct_size = sizeof ops;
    ops.name = "none";
    return &ops;
}

static inline tg_array *arg_array(void)
{
    static tg_array arrays[4];
    static int next;
    tg_array *a = &arrays[next++ % 4];
    *a = tg_array_f32(arg_floats(), ARG_N);
    return a;
}

static inline const tg_rng_key *arg_key(void)
{
    static const tg_rng_key key = {.seed = 1, .purpose = TG_PURPOSE_TEST};
    return &key;
}

static inline tg_transport *arg_transport(void)
{
    tg_transport *t = NULL;
    arg_need(tg_transport_inproc(1, &t));
    return t;
}

/* A rank of a job with a server, or the server's, which is alone. */
static inline tg_transport *arg_one_of_two(int rank)
{
    tg_transport *t[2];
    arg_need(tg_transport_inproc(2, t));
    tg_transport_destroy(t[1 - rank]);
    return t[rank];
}

static inline const tg_server_config *arg_server_config(void)
{
    static const tg_server_config config = {.struct_size = sizeof config};
    return &config;
}

static inline tg_server *arg_server(void)
{
    tg_server *s = NULL;
    arg_need(tg_server_create(arg_one_of_two(1), 1, arg_server_config(), &s));
    return s;
}

static inline tg_server_stats *arg_server_stats(void)
{
    static tg_server_stats stats = {.struct_size = sizeof stats};
    return &stats;
}

static inline tg_codec *arg_codec(void)
{
    tg_codec *codec = NULL;
    arg_need(tg_codec_create("topk:density=0.5", &codec));
    return codec;
}

static inline const tg_encode_context *arg_context(void)
{
    static tg_encode_context context = {.struct_size = sizeof context};
    return &context;
}

static inline size_t arg_frame(unsigned char *frame, size_t cap)
{
    size_t len = 0;
    tg_codec *codec = arg_codec();
    arg_need(tg_codec_encode(codec, NULL, arg_array(), frame, cap, &len));
    tg_codec_destroy(codec);
    return len;
}

static inline size_t arg_frame_len(void)
{
    unsigned char frame[512];
    return arg_frame(frame, sizeof frame);
}

static inline const void *arg_frame_bytes(void)
{
    static unsigned char frame[512];
    (void)arg_frame(frame, sizeof frame);
    return frame;
}

static inline const tg_entry *const *arg_entries(void)
{
    size_t count;
    return tg_registry_entries(TG_KIND_CODEC, &count);
}

static inline size_t arg_entry_count(void)
{
    size_t count = 0;
    (void)tg_registry_entries(TG_KIND_CODEC, &count);
    return count;
}

static inline tg_spec *arg_spec(void)
{
    tg_spec *spec = NULL;
    arg_need(tg_registry_parse(TG_KIND_METHOD, "topk:density=0.5", &spec));
    return spec;
}

static inline tg_optimizer *arg_optimizer(void)
{
    tg_optimizer *o = NULL;
    arg_need(tg_optimizer_create("sgd:lr=0.1,momentum=0.9", &o));
    return o;
}

static inline const tg_update *arg_update(void)
{
    static const tg_update update = {
        .struct_size = sizeof update, .lr = 0.1, .number = 1, .ndim = 1};
    return &update;
}

static inline tg_lr_schedule *arg_schedule(void)
{
    tg_lr_schedule *s = NULL;
    arg_need(tg_lr_schedule_create("constant:warmup=10", 0.1, 100, 10, &s));
    return s;
}

static inline tg_trace *arg_trace(void)
{
    tg_trace *trace = NULL;
    arg_need(tg_trace_create(16, &trace));
    return trace;
}

static inline const tg_reducer_config *arg_reducer_config(void)
{
    static const tg_reducer_config config = {.struct_size = sizeof config};
    return &config;
}

static inline tg_reducer *arg_reducer(void)
{
    tg_reducer *r = NULL;
    arg_need(tg_reducer_create("dense", arg_transport(), ARG_N, NULL, &r));
    return r;
}

static inline tg_reducer *arg_reducer_topk(void)
{
    tg_reducer *r = NULL;
    arg_need(tg_reducer_create("topk", arg_transport(), ARG_N, NULL, &r));
    return r;
}

static inline tg_reducer *arg_reducer_done(void)
{
    tg_reducer *r = arg_reducer();
    arg_need(tg_reducer_mean(r, arg_floats(), arg_floats()));
    return r;
}

static inline tg_reducer_slot *arg_reducer_slot(void)
{
    static tg_reducer_slot slot = {.struct_size = sizeof slot};
    return &slot;
}

static inline const tg_session_config *arg_session_config(void)
{
    static const tg_session_config config = {.struct_size = sizeof config,
                                             .driver = TG_DRIVER_INLINE};
    return &config;
}

static inline const tg_tensor *arg_tensor(void)
{
    static const size_t shape[] = {ARG_N};
    static tg_tensor t = {.struct_size = sizeof t, .name = "w", .shape = shape, .ndim = 1};
    t.param = *arg_array();
    t.grad = *arg_array();
    return &t;
}

static inline tg_session *arg_session_empty(void)
{
    tg_session *s = NULL;
    arg_need(tg_session_create(arg_session_config(), arg_transport(), &s));
    return s;
}

static inline tg_session *arg_session_new(void)
{
    uint32_t id;
    tg_session *s = arg_session_empty();
    arg_need(tg_session_add(s, arg_tensor(), &id));
    return s;
}

static inline tg_session *arg_session(void)
{
    tg_session *s = arg_session_new();
    arg_need(tg_session_begin(s));
    return s;
}

static inline tg_session *arg_session_ready(void)
{
    tg_session *s = arg_session();
    arg_need(tg_session_grad_ready(s, 0));
    return s;
}

static inline tg_session *arg_session_evaluating(void)
{
    tg_session *s = arg_session();
    arg_need(tg_session_eval_begin(s));
    return s;
}

static inline tg_session *arg_session_external(void)
{
    uint32_t id;
    tg_session *s = NULL;
    tg_session_config config = *arg_session_config();
    tg_tensor t = *arg_tensor();
    config.optimizer = "external";
    config.strategy = "local";
    t.grad = (tg_array){0};
    arg_need(tg_session_create(&config, arg_transport(), &s));
    arg_need(tg_session_add(s, &t, &id));
    arg_need(tg_session_begin(s));
    return s;
}

static inline tg_turn *arg_turn(void)
{
    static tg_turn turn = {.struct_size = sizeof turn};
    return &turn;
}

static inline const void *arg_memory(size_t *len_p)
{
    const void *bytes = NULL;
    arg_need(tg_session_save_memory(arg_session(), &bytes, len_p));
    return bytes;
}

static inline const void *const *arg_memories(void)
{
    static const void *bytes[1];
    bytes[0] = arg_memory(&(size_t){0});
    return bytes;
}

static inline size_t arg_memory_len(void)
{
    size_t len = 0;
    (void)arg_memory(&len);
    return len;
}

static inline tg_resumed *arg_resumed(void)
{
    static tg_resumed resumed = {.struct_size = sizeof resumed};
    return &resumed;
}

static inline tg_step_info *arg_info(void)
{
    static tg_step_info info = {.struct_size = sizeof info};
    return &info;
}

static inline tg_bucket_cost *arg_costs(void)
{
    static tg_bucket_cost cost[1] = {{.struct_size = sizeof *cost}};
    return cost;
}

static inline tg_status arg_each_tensor(void *arg, const tg_plan_tensor *tensor)
{
    (void)arg;
    (void)tensor;
    return TG_OK;
}

static inline void arg_on_done(void *arg, tg_status status)
{
    (void)arg;
    (void)status;
}

static inline void arg_log(void *arg, tg_log_level level, const char *message)
{
    (void)arg;
    (void)level;
    (void)message;
}

static inline const tg_sim_tensor *arg_sim_tensor(void)
{
    static const size_t shape[] = {ARG_N};
    static const tg_sim_tensor t = {"w", shape, 1};
    return &t;
}

static inline tg_simulation *arg_simulation(void)
{
    tg_simulation *sim = NULL;
    arg_need(tg_simulation_create(arg_session_config(), arg_sim_tensor(), 1, &sim));
    return sim;
}

static inline const tg_link *arg_link(void)
{
    static tg_link link;
    arg_need(tg_link_parse("20mbit,10ms", &link));
    return &link;
}

static inline const tg_sim_run *arg_sim_run(void)
{
    static const tg_work work[] = {
        {TG_WORK_PARAM_WAIT, 0, 0}, {TG_WORK_COMPUTE, 0, 1000}, {TG_WORK_GRAD_READY, 0, 0}};
    static tg_sim_run run = {
        .struct_size = sizeof run, .world = 2, .work = work, .nwork = 3, .steps = 2};
    run.link = *arg_link();
    return &run;
}

static inline tg_sim_end *arg_sim_end(void)
{
    static tg_sim_end end = {.struct_size = sizeof end};
    return &end;
}

static inline tg_sim_exchange *arg_sim_exchange(void)
{
    static tg_sim_exchange x = {.struct_size = sizeof x};
    return &x;
}

static inline const int *arg_nodes(void)
{
    static const int nodes[] = {0};
    return nodes;
}

static inline tg_weights *arg_weights(void)
{
    tg_weights *w = NULL;
    arg_need(tg_weights_open_newest(arg_dir, &w));
    return w;
}

static inline const tg_weights_tensor *arg_weights_tensor(void)
{
    static const size_t shape[] = {ARG_N};
    static tg_weights_tensor t = {.name = "w", .shape = shape, .ndim = 1};
    t.data = arg_floats();
    return &t;
}

static inline const char *arg_path(const char *name)
{
    static char path[sizeof arg_dir + 64];
    snprintf(path, sizeof path, "%s/%s", arg_dir, name);
    return path;
}

static inline tg_newfile *arg_newfile(void)
{
    tg_newfile *f = NULL;
    arg_need(tg_newfile_open(arg_path("newfile"), &f));
    return f;
}

static inline int arg_fd(void)
{
    return dup(STDERR_FILENO);
}

static inline const char *arg_weights_path(void)
{
    return tg_weights_path(arg_weights());
}

#endif

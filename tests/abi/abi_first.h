/* clang-format off */
/* The headers of the first version: written by abi_layouts.py --snapshot. */
#ifndef ABI_FIRST_H
#define ABI_FIRST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TG_VERSION_MAJOR 0
#define TG_VERSION_MINOR 1
#define TG_VERSION_PATCH 0

#if defined(__GNUC__)
#define TG_API __attribute__((visibility("default")))
#define TG_NODISCARD __attribute__((warn_unused_result))
#define TG_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define TG_API
#define TG_NODISCARD
#define TG_PRINTF(f, a)
#endif

typedef enum tg_status {
    TG_OK = 0,
    TG_E_ARG = 1,
    TG_E_SPEC = 2,
    TG_E_NOMEM = 3,
    TG_E_SPACE = 4,
    TG_E_CORRUPT = 5,
    TG_E_VERSION = 6,
    TG_E_MISMATCH = 7,
    TG_E_PEER = 8,
    TG_E_NONFINITE = 9,
    TG_E_STATE = 10,
    TG_E_IO = 11,
    TG_E_UNSUPPORTED = 12
} tg_status;

TG_API const char *tg_status_name(tg_status status);

TG_API const char *tg_error(void);

TG_API tg_status tg_fail(tg_status status, const char *format, ...) TG_PRINTF(2, 3);

#define TG_HAS(type, structure, member) \
    ((structure)->struct_size >= offsetof(type, member) + sizeof((structure)->member))

#define TG_TRY(expr)                       \
    do {                                   \
        tg_status tg_try_status_ = (expr); \
        if (tg_try_status_ != TG_OK)       \
            return tg_try_status_;         \
    } while (0)

TG_API const char *tg_version(void);

TG_API const char *tg_cpu_level(void);

typedef enum tg_log_level { TG_LOG_ERROR = 0, TG_LOG_WARN = 1, TG_LOG_INFO = 2 } tg_log_level;

TG_API void tg_log_set(void (*fn)(void *arg, tg_log_level level, const char *message), void *arg);

TG_API void tg_log(tg_log_level level, const char *format, ...) TG_PRINTF(2, 3);

typedef struct tg_clock tg_clock;
/* grows */
struct tg_clock {
    size_t struct_size;
    void *arg;
    int64_t (*now_ns)(void *arg);
    void (*sleep_until_ns)(void *arg, int64_t when_ns);

    void (*work)(void *arg, int64_t ns);
};

TG_API const tg_clock *tg_clock_monotonic(void);

static inline int64_t tg_now_ns(const tg_clock *clock)
{
    return clock ? clock->now_ns(clock->arg) : 0;
}

static inline void tg_clock_work(const tg_clock *clock, int64_t ns)
{
    if (clock && TG_HAS(tg_clock, clock, work) && clock->work)
        clock->work(clock->arg, ns);
}

TG_API TG_NODISCARD tg_status tg_clock_virtual_create(int64_t start_ns, tg_clock **clock_p);
TG_API void tg_clock_virtual_destroy(tg_clock *clock);

TG_API TG_NODISCARD tg_status tg_clock_enter(const tg_clock *clock, uint64_t order);
TG_API void tg_clock_leave(const tg_clock *clock);

typedef struct tg_clock_thread tg_clock_thread;
TG_API TG_NODISCARD tg_status tg_clock_thread_start(const tg_clock *clock, uint64_t order,
                                                    const char *name, void *(*run)(void *),
                                                    void *arg, tg_clock_thread **t_p);

TG_API void tg_clock_thread_join(const tg_clock *clock, tg_clock_thread *t);

typedef enum tg_purpose {
    TG_PURPOSE_INIT = 1,
    TG_PURPOSE_SHUFFLE = 2,
    TG_PURPOSE_DATA = 3,
    TG_PURPOSE_CODEC = 4,
    TG_PURPOSE_DROPOUT = 5,
    TG_PURPOSE_TEST = 6,
    TG_PURPOSE_FAULT = 7,
    TG_PURPOSE_BASIS = 8,
    TG_PURPOSE_OWNER = 9,
    TG_PURPOSE_CLIENTS = 10
} tg_purpose;

/* never grows */
typedef struct tg_rng_key {
    uint64_t seed;
    uint32_t purpose;
    uint32_t rank;
    uint64_t step;
    uint32_t tensor;
} tg_rng_key;

TG_API void tg_rng_block(const tg_rng_key *key, uint64_t counter, uint32_t out[4]);

TG_API double tg_rng_uniform(const tg_rng_key *key, uint64_t counter);

TG_API double tg_rng_normal(const tg_rng_key *key, uint64_t counter);

TG_API void tg_rng_permutation(const tg_rng_key *key, uint32_t *order, size_t n);

typedef enum tg_dtype { TG_F32 = 0 } tg_dtype;
typedef enum tg_memory { TG_HOST = 0, TG_CUDA = 1 } tg_memory;

/* never grows */
typedef struct tg_array {
    size_t struct_size;
    void *data;
    size_t n;
    tg_dtype dtype;
    tg_memory memory;
    int device;
    void *stream;
} tg_array;

#define TG_MAX_ELEMENTS ((size_t)1 << 29)

static inline tg_array tg_array_f32(const float *data, size_t n)
{
    tg_array a;
    a.struct_size = sizeof a;
    a.data = (void *)(uintptr_t)data;
    a.n = n;
    a.dtype = TG_F32;
    a.memory = TG_HOST;
    a.device = 0;
    a.stream = NULL;
    return a;
}

/* never grows */
typedef struct tg_segment {
    size_t begin, n;
    size_t rows, cols;
    size_t dims;
} tg_segment;

/* grows */
typedef struct tg_encode_context {
    size_t struct_size;
    tg_rng_key rng;
    double density;
    const tg_segment *segments;
    size_t nsegments;
    const float *gradient;
    const float *scale;
    float *memory;
} tg_encode_context;

typedef struct tg_codec tg_codec;

TG_API TG_NODISCARD tg_status tg_codec_create(const char *spec, tg_codec **codec_p);
TG_API void tg_codec_destroy(tg_codec *codec);

TG_API size_t tg_codec_memory(const tg_codec *codec);

TG_API TG_NODISCARD tg_status tg_codec_set_threads(tg_codec *codec, unsigned threads);

TG_API size_t tg_codec_bound(const tg_codec *codec, size_t n);

TG_API TG_NODISCARD tg_status tg_codec_encode(tg_codec *codec, const tg_encode_context *ctx,
                                              const tg_array *x, void *dst, size_t dst_cap,
                                              size_t *len_p);

TG_API TG_NODISCARD tg_status tg_frame_decode(const void *frame, size_t len, tg_array *x);
TG_API TG_NODISCARD tg_status tg_frame_decode_add(const void *frame, size_t len, tg_array *x);

TG_API size_t tg_mxnet_2bit_bytes(size_t n);

TG_API TG_NODISCARD tg_status tg_mxnet_2bit_encode(float *residual, const float *g, size_t n,
                                                   float threshold, void *dst, size_t dst_cap);

TG_API TG_NODISCARD tg_status tg_mxnet_2bit_decode_add(const void *src, size_t len, size_t n,
                                                       float threshold, float *dst);

TG_API TG_NODISCARD tg_status tg_strom_encode(float *residual, const float *g, size_t n,
                                              float threshold, uint32_t *dst, size_t dst_cap,
                                              size_t *count_p);

TG_API TG_NODISCARD tg_status tg_strom_decode_add(const uint32_t *words, size_t count, size_t n,
                                                  float threshold, float *dst);

typedef enum tg_key_type {
    TG_KEY_INT,
    TG_KEY_REAL,
    TG_KEY_FLAG,
    TG_KEY_CHOICE,
    TG_KEY_DURATION,
    TG_KEY_SPEC
} tg_key_type;

/* never grows */
typedef struct tg_key {
    const char *name;
    tg_key_type type;
    const char *def;
    double min, max;
    bool min_open;
    const char *choices;
    const char *help;

    double share;
} tg_key;

#define TG_DEFAULT_EPOCH_STEPS 250

/* never grows */
typedef struct tg_entry {
    const char *name;
    const char *summary;
    const char *source;
    const tg_key *keys;
} tg_entry;

/* never grows */
typedef struct tg_duration {
    double count;
    bool epochs;
} tg_duration;

TG_API TG_NODISCARD tg_status tg_duration_steps(tg_duration d, uint64_t steps_per_epoch,
                                                const char *what, uint64_t *steps_p);

typedef struct tg_spec tg_spec;

TG_API TG_NODISCARD tg_status tg_spec_parse(const char *kind, const tg_entry *const *entries,
                                            size_t count, const char *text, tg_spec **spec_p);
TG_API void tg_spec_free(tg_spec *spec);

TG_API const tg_entry *tg_spec_entry(const tg_spec *spec);
TG_API const char *tg_spec_name(const tg_spec *spec);

TG_API const char *tg_spec_text(const tg_spec *spec);

TG_API bool tg_spec_given(const tg_spec *spec, const char *key);

TG_API bool tg_spec_has(const tg_spec *spec, const char *key);

TG_API int64_t tg_spec_int(const tg_spec *spec, const char *key);
TG_API double tg_spec_real(const tg_spec *spec, const char *key);
TG_API bool tg_spec_flag(const tg_spec *spec, const char *key);
TG_API tg_duration tg_spec_duration(const tg_spec *spec, const char *key);

TG_API const char *tg_spec_word(const tg_spec *spec, const char *key);

typedef struct tg_optimizer tg_optimizer;

TG_API TG_NODISCARD tg_status tg_optimizer_create(const char *spec, tg_optimizer **o_p);
TG_API void tg_optimizer_destroy(tg_optimizer *o);

TG_API const tg_spec *tg_optimizer_spec(const tg_optimizer *o);

TG_API size_t tg_optimizer_slots(const tg_optimizer *o);

TG_API const char *tg_optimizer_slot_name(const tg_optimizer *o, size_t slot);

/* grows */
typedef struct tg_update {
    size_t struct_size;
    double lr;
    uint64_t number;
    size_t ndim;
} tg_update;

TG_API TG_NODISCARD tg_status tg_optimizer_step(const tg_optimizer *o, const tg_update *u, float *w,
                                                const float *g, size_t n, float *const *slot);

typedef struct tg_lr_schedule tg_lr_schedule;

TG_API TG_NODISCARD tg_status tg_lr_schedule_create(const char *spec, double lr,
                                                    uint64_t total_steps, uint64_t steps_per_epoch,
                                                    tg_lr_schedule **s_p);
TG_API void tg_lr_schedule_destroy(tg_lr_schedule *s);

TG_API TG_NODISCARD tg_status tg_lr_schedule_scale(tg_lr_schedule *s, double factor);

TG_API double tg_lr_schedule_at(const tg_lr_schedule *s, uint64_t step);

TG_API const char *tg_lr_schedule_text(const tg_lr_schedule *s);

typedef enum tg_kind {
    TG_KIND_METHOD = 0,
    TG_KIND_CODEC = 1,
    TG_KIND_FEEDBACK = 2,
    TG_KIND_EXCHANGE = 3,
    TG_KIND_STRATEGY = 4,
    TG_KIND_OPTIMIZER = 5,
    TG_KIND_LR_SCHEDULE = 6,
    TG_KIND_COUNT = 7
} tg_kind;

/* grows */
typedef struct tg_method_card {
    size_t struct_size;
    const char *sends;
    const char *bits;
    const char *keeps;
    const char *cost;
    const char *use;
    const char *limit;
    const char *family;
} tg_method_card;

TG_API const tg_method_card *tg_registry_method_card(const char *method);

TG_API const char *tg_registry_strategy_method(const char *strategy);

TG_API const char *tg_registry_strategy_optimizer(const char *strategy);

/* grows */
typedef struct tg_rate_hint {
    size_t struct_size;
    double factor;
    double low, high;
    bool methods;
    bool plain;
    const char *expect;
    const char *instead;
    const char *key;
} tg_rate_hint;

TG_API const tg_rate_hint *tg_registry_rate_hint(tg_kind kind, const char *name);

TG_API const char *tg_kind_name(tg_kind kind);

TG_API const tg_entry *const *tg_registry_entries(tg_kind kind, size_t *count_p);

TG_API TG_NODISCARD tg_status tg_registry_parse(tg_kind kind, const char *text, tg_spec **spec_p);

/* never grows */
typedef struct tg_request {
    uint64_t word[8];
} tg_request;

typedef struct tg_transport tg_transport;

/* grows */
typedef struct tg_transport_ops {
    size_t struct_size;
    const char *name;

    tg_status (*post_send)(tg_transport *t, int peer, uint32_t tag, const void *buf, size_t len,
                           tg_request *req);

    tg_status (*post_recv)(tg_transport *t, int peer, uint32_t tag, void *buf, size_t cap,
                           tg_request *req);

    tg_status (*test)(tg_transport *t, tg_request *req, bool *done_p, size_t *len_p);

    tg_status (*poll)(tg_transport *t, int64_t deadline_ns);

    void (*wake)(tg_transport *t);

    bool (*shut)(tg_transport *t);

    void (*destroy)(tg_transport *t);

    void (*blame)(tg_transport *t, int rank);
    int (*blamed)(tg_transport *t, int peer);
} tg_transport_ops;

#define TG_BLAMED_NOBODY (-1)
#define TG_NOT_LEFT (-2)

/* grows */
struct tg_transport {
    size_t struct_size;
    const tg_transport_ops *ops;
    void *impl;
    int rank, size;
    bool any_thread;
    const tg_clock *clock;
};

#define TG_RANKS_MAX 4096

#define TG_TAG_LIMIT ((uint32_t)1 << 24)

TG_API void tg_transport_destroy(tg_transport *t);

TG_API TG_NODISCARD tg_status tg_transport_inproc(int size, tg_transport **t_out);

TG_API TG_NODISCARD tg_status tg_transport_inproc_clock(int size, const tg_clock *clock,
                                                        tg_transport **t_out);

/* never grows */
typedef struct tg_link {
    size_t struct_size;
    double up_bps, down_bps;
    int64_t delay_ns, jitter_ns;
} tg_link;

TG_API TG_NODISCARD tg_status tg_link_parse(const char *text, tg_link *link_p);

TG_API TG_NODISCARD tg_status tg_transport_shaped(tg_transport *inner, const tg_link *link,
                                                  tg_transport **t_p);

TG_API TG_NODISCARD tg_status tg_transport_shaped_nodes(tg_transport *inner, const tg_link *link,
                                                        const int *nodes, tg_transport **t_p);

TG_API TG_NODISCARD tg_status tg_transport_shaped_links(tg_transport *inner, const tg_link *links,
                                                        const int *nodes, tg_transport **t_p);

TG_API TG_NODISCARD tg_status tg_transport_faulty(tg_transport *inner, const char *spec,
                                                  tg_transport **t_p);

typedef enum tg_driver {
    TG_DRIVER_AUTO = 0,
    TG_DRIVER_THREAD = 1,
    TG_DRIVER_INLINE = 2
} tg_driver;

/* grows */
typedef struct tg_wait {
    size_t struct_size;
    int rank;
    int others;
    bool indirect;
    int64_t for_ns;
    uint64_t step;
} tg_wait;

typedef struct tg_weights tg_weights;

TG_API TG_NODISCARD tg_status tg_weights_open(const char *path, tg_weights **w_p);

TG_API TG_NODISCARD tg_status tg_weights_open_newest(const char *dir, tg_weights **w_p);
TG_API void tg_weights_close(tg_weights *w);

TG_API const char *tg_weights_path(const tg_weights *w);

TG_API const char *tg_weights_metadata(const tg_weights *w, const char *name);

/* never grows */
typedef struct tg_weights_tensor {
    const char *name;
    const size_t *shape;
    size_t ndim;
    float *data;
} tg_weights_tensor;

TG_API TG_NODISCARD tg_status tg_weights_read(const tg_weights *w, const tg_weights_tensor *tensors,
                                              size_t count, bool exact);

typedef enum tg_trace_row {
    TG_ROW_COMPUTE = 0,
    TG_ROW_ENCODE = 1,
    TG_ROW_EXCHANGE = 2,
    TG_ROW_APPLY = 3,
    TG_ROW_WAIT = 4,
    TG_ROW_LAYERS = 5
} tg_trace_row;

typedef struct tg_trace tg_trace;

TG_API TG_NODISCARD tg_status tg_trace_create(size_t capacity, tg_trace **trace_p);
TG_API void tg_trace_destroy(tg_trace *trace);

TG_API TG_NODISCARD tg_status tg_trace_name(tg_trace *trace, const char *text, const char **name_p);

TG_API void tg_trace_span(tg_trace *trace, int rank, tg_trace_row row, const char *name,
                          int64_t begin_ns, int64_t end_ns, uint64_t step, uint32_t bucket);

TG_API TG_NODISCARD tg_status tg_trace_write(const tg_trace *trace, const char *path);

typedef struct tg_session tg_session;

typedef enum tg_nonfinite {

    TG_NONFINITE_SKIP = 0,

    TG_NONFINITE_FAIL = 1
} tg_nonfinite;

typedef enum tg_unready {
    TG_UNREADY_ERROR = 0,
    TG_UNREADY_ZERO = 1
} tg_unready;

typedef enum tg_overlap {

    TG_OVERLAP_BACKWARD = 0,

    TG_OVERLAP_FULL = 1,

    TG_OVERLAP_NONE = 2
} tg_overlap;

/* grows */
typedef struct tg_session_config {
    size_t struct_size;
    const char *method;
    const char *strategy;
    const char *optimizer;
    uint64_t seed;
    uint64_t steps_per_epoch;
    int64_t timeout_ms;
    tg_driver driver;
    tg_nonfinite on_nonfinite;
    tg_unready on_unready;
    size_t bucket_bytes;
    uint64_t hash_every;
    const char *job;
    tg_trace *trace;

    const char *const *rules;
    size_t nrules;
    unsigned codec_threads;

    const char *const *metadata;
    size_t nmetadata;
    tg_overlap overlap;

    const uint32_t *buckets;
    size_t nbuckets;

    const int *nodes;

    uint64_t samples;

    uint64_t total_steps;

    void (*on_wait)(void *arg, const tg_wait *wait);
    void *on_wait_arg;
} tg_session_config;

TG_API TG_NODISCARD tg_status tg_session_create(const tg_session_config *config,
                                                tg_transport *transport, tg_session **s_p);

TG_API void tg_session_destroy(tg_session *s);

typedef enum tg_tensor_kind {
    TG_TENSOR_TRAINED = 0,
    TG_TENSOR_AVERAGED = 1,
    TG_TENSOR_RANK0 = 2
} tg_tensor_kind;

/* grows */
typedef struct tg_tensor {
    size_t struct_size;
    const char *name;
    const size_t *shape;
    size_t ndim;
    tg_tensor_kind kind;
    tg_array param;
    tg_array grad;
} tg_tensor;

TG_API TG_NODISCARD tg_status tg_session_add(tg_session *s, const tg_tensor *t, uint32_t *id_p);

TG_API TG_NODISCARD tg_status tg_session_begin(tg_session *s);

TG_API const char *tg_session_spec(const tg_session *s, tg_kind kind);

TG_API TG_NODISCARD tg_status tg_session_grad_ready(tg_session *s, uint32_t id);

TG_API TG_NODISCARD tg_status tg_session_grad_wait(tg_session *s, uint32_t id);

TG_API TG_NODISCARD tg_status tg_session_param_wait(tg_session *s, uint32_t id);

TG_API bool tg_session_idle(const tg_session *s);

TG_API TG_NODISCARD tg_status tg_session_progress(tg_session *s);

/* grows */
typedef struct tg_method_info {
    size_t struct_size;
    const char *method;
    uint64_t n;
    uint64_t kept;
    uint64_t bytes;
    uint64_t bytes_sent;
    int64_t encode_ns;
    int64_t decode_ns;
    uint32_t fell_back;
    double norm;
    double residual_norm;
} tg_method_info;

/* grows */
typedef struct tg_step_info {
    size_t struct_size;
    bool want_residual_norm;
    uint64_t step;
    bool skipped;
    bool stop;
    bool coded;
    bool clipped;
    double density;
    uint64_t kept;
    uint64_t elements;
    uint32_t fell_back;
    uint64_t coded_bytes;
    int64_t encode_ns;
    int64_t exchange_ns;
    int64_t decode_ns;
    uint64_t bytes_sent;
    uint64_t bytes_near;
    uint64_t bytes_dense;
    double grad_norm;
    double residual_norm;
    int64_t apply_ns;
    int64_t wait_ns;
    double mean_norm;

    const tg_method_info *const *methods;
    size_t nmethods;
} tg_step_info;

TG_API TG_NODISCARD tg_status tg_session_step(tg_session *s, tg_step_info *info);

TG_API TG_NODISCARD tg_status tg_session_set_lr(tg_session *s, double lr);

TG_API TG_NODISCARD tg_status tg_session_eval_begin(tg_session *s);
TG_API TG_NODISCARD tg_status tg_session_eval_end(tg_session *s);

TG_API TG_NODISCARD tg_status tg_session_sum(tg_session *s, double *x, size_t n);

TG_API void tg_session_request_stop(tg_session *s);

TG_API TG_NODISCARD tg_status tg_session_params_hash(tg_session *s, uint64_t *hash_p);

TG_API uint64_t tg_session_steps(const tg_session *s);

TG_API uint64_t tg_session_bytes_sent(const tg_session *s);

TG_API uint64_t tg_session_bytes_near(const tg_session *s);

TG_API TG_NODISCARD tg_status tg_session_waited(const tg_session *s, int64_t *ns);

TG_API uint64_t tg_session_skipped(const tg_session *s);

TG_API TG_NODISCARD tg_status tg_session_save(tg_session *s, const char *dir, const void *extra,
                                              size_t len);

TG_API TG_NODISCARD tg_status tg_session_load(tg_session *s, const char *dir, const void **extra_p,
                                              size_t *len_p);

/* grows */
typedef struct tg_resumed {
    size_t struct_size;
    int ranks;
    uint64_t steps_per_epoch;

    int64_t epoch_shift;
    const char *anew;
} tg_resumed;

TG_API TG_NODISCARD tg_status tg_session_resumed(const tg_session *s, tg_resumed *resumed_p);

/* grows */
typedef struct tg_plan_tensor {
    size_t struct_size;
    const char *name;
    const size_t *shape;
    size_t ndim, n;
    const char *method;
    const char *rule;
    uint32_t bucket;

    double bytes;
} tg_plan_tensor;

TG_API TG_NODISCARD tg_status tg_session_plan(
    tg_session *s, tg_status (*each)(void *arg, const tg_plan_tensor *tensor), void *arg);

TG_API TG_NODISCARD tg_status tg_session_finish(tg_session *s);

/* grows */
typedef struct tg_bucket_cost {
    size_t struct_size;
    int64_t encode_ns[2];
    int64_t start_ns[2];
    int64_t finish_ns[2];
    int64_t decode_byte_ps[2];
    int64_t apply_ns;
} tg_bucket_cost;

TG_API TG_NODISCARD tg_status tg_session_measure(tg_session *s, size_t room, tg_bucket_cost *cost,
                                                 size_t *count_p);

TG_API TG_NODISCARD tg_status tg_session_set_costs(tg_session *s, const tg_bucket_cost *cost,
                                                   size_t count);

typedef struct tg_reducer tg_reducer;

/* grows */
typedef struct tg_reducer_config {
    size_t struct_size;
    uint64_t seed;
    uint64_t steps_per_epoch;
    int64_t timeout_ms;
    const tg_segment *segments;
    size_t nsegments;
    unsigned codec_threads;
    const int *nodes;

    uint64_t total_steps;
} tg_reducer_config;

TG_API TG_NODISCARD tg_status tg_reducer_create(const char *method, tg_transport *transport,
                                                size_t n, const tg_reducer_config *config,
                                                tg_reducer **r_p);

TG_API void tg_reducer_destroy(tg_reducer *r);

TG_API TG_NODISCARD tg_status tg_reducer_mean(tg_reducer *r, const float *g, float *mean);

TG_API TG_NODISCARD tg_status tg_reducer_start(tg_reducer *r, const float *g, float *mean,
                                               void (*on_done)(void *arg, tg_status status),
                                               void *arg);
TG_API TG_NODISCARD tg_status tg_reducer_test(tg_reducer *r, bool *done_p);
TG_API TG_NODISCARD tg_status tg_reducer_wait(tg_reducer *r);

TG_API uint64_t tg_reducer_bytes_sent(const tg_reducer *r);

TG_API double tg_reducer_ratio(const tg_reducer *r);

#define TG_SIM_WORLD_MAX 1000000

typedef struct tg_simulation tg_simulation;

/* never grows */
typedef struct tg_sim_tensor {
    const char *name;
    const size_t *shape;
    size_t ndim;
} tg_sim_tensor;

TG_API TG_NODISCARD tg_status tg_simulation_create(const tg_session_config *config,
                                                   const tg_sim_tensor *tensors, size_t ntensors,
                                                   tg_simulation **sim_p);
TG_API void tg_simulation_destroy(tg_simulation *sim);

TG_API const char *tg_simulation_spec(const tg_simulation *sim, tg_kind kind);

TG_API TG_NODISCARD tg_status tg_simulation_measure(tg_simulation *sim, size_t room,
                                                    tg_bucket_cost *cost, size_t *count_p);
TG_API TG_NODISCARD tg_status tg_simulation_set_costs(tg_simulation *sim,
                                                      const tg_bucket_cost *cost, size_t count);

typedef enum tg_work_kind {
    TG_WORK_COMPUTE = 0,
    TG_WORK_PARAM_WAIT = 1,
    TG_WORK_GRAD_READY = 2
} tg_work_kind;

/* never grows */
typedef struct tg_work {
    tg_work_kind kind;
    uint32_t tensor;
    int64_t ns;
} tg_work;

/* grows */
typedef struct tg_sim_step {
    size_t struct_size;
    uint64_t step;
    bool coded;
    double begin_ns, end_ns;
    double compute_ns, wait_ns, apply_ns;
    double encode_ns, exchange_ns, decode_ns;
    double bytes_sent;
    double bytes_dense;
    double coded_bytes;
} tg_sim_step;

/* grows */
typedef struct tg_sim_run {
    size_t struct_size;
    const char *strategy;
    int world;
    tg_link link;
    const tg_work *work;
    size_t nwork;

    const int *rank;
    size_t nranks;

    double (*pace)(void *arg, int rank, uint64_t step);
    uint64_t steps;

    tg_status (*each)(void *arg, const tg_sim_step *step);
    void *arg;
} tg_sim_run;

/* grows */
typedef struct tg_sim_end {
    size_t struct_size;
    double ns;
    double bytes;
} tg_sim_end;

TG_API TG_NODISCARD tg_status tg_simulation_run(tg_simulation *sim, const tg_sim_run *run,
                                                tg_sim_end *end_p);

/* grows */
typedef struct tg_sim_exchange {
    size_t struct_size;
    double coded_bytes[2];
    double bytes[2];
    double wire_ns[2];
    double encode_ns[2], decode_ns[2];
    double apply_ns;
    size_t buckets, elements;
} tg_sim_exchange;

TG_API TG_NODISCARD tg_status tg_simulation_exchange(tg_simulation *sim, int world,
                                                     const tg_link *link, tg_sim_exchange *x_p);

#include <stdio.h>

#define TG_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define TG_ALIGN 64

TG_API TG_NODISCARD tg_status tg_alloc(size_t count, size_t size, void *ptr_p);

#define TG_HASH_START UINT64_C(0xcbf29ce484222325)
TG_API uint64_t tg_hash(uint64_t hash, const void *bytes, size_t len);

#define TG_REAL_TEXT 32

TG_API void tg_real_text(double v, char text[TG_REAL_TEXT]);

TG_API bool tg_real_parse(const char *text, double *v_p);

TG_API bool tg_percent_parse(const char *text, double *v_p);

TG_API bool tg_int_parse(const char *text, int64_t *v_p);

TG_API bool tg_rate_parse(const char *text, size_t len, double *bps_p);
TG_API bool tg_time_parse(const char *text, size_t len, double *ns_p);
TG_API bool tg_bytes_parse(const char *text, size_t len, double *bytes_p);

#define TG_UNITS_RATE "rates as 20mbit, 1.5 Gbit/s, 100Mbps, in bytes 12.5MB/s with a capital B"
#define TG_UNITS_TIME "times as 250us, 20ms, 1.5 s, 2min"

TG_API size_t tg_utf8_decode(const char *text, size_t len, uint32_t *code_p);

#define TG_NEAREST_WORD 48

/* never grows */
typedef struct tg_nearest {
    const char *wanted;
    size_t edits;
    char word[TG_NEAREST_WORD];
    char hint[TG_NEAREST_WORD + 32];
} tg_nearest;

TG_API void tg_nearest_begin(tg_nearest *n, const char *wanted);
TG_API void tg_nearest_offer(tg_nearest *n, const char *word, size_t len);

TG_API void tg_nearest_offer_list(tg_nearest *n, const char *words);

TG_API const char *tg_nearest_hint(tg_nearest *n);

TG_API FILE *tg_stream_open(int fd, int *error_p);

typedef struct tg_newfile tg_newfile;
TG_API TG_NODISCARD tg_status tg_newfile_open(const char *path, tg_newfile **f_p);

TG_API TG_NODISCARD tg_status tg_newfile_open_growing(const char *path, bool append,
                                                      tg_newfile **f_p);

TG_API FILE *tg_newfile_stream(const tg_newfile *f);

TG_API const char *tg_newfile_path(const tg_newfile *f);
TG_API const char *tg_newfile_aside(const tg_newfile *f);

TG_API TG_NODISCARD tg_status tg_newfile_commit(tg_newfile *f);
TG_API void tg_newfile_abandon(tg_newfile *f);

TG_API TG_NODISCARD tg_status tg_newfile_check(const char *path, bool alone);
TG_API TG_NODISCARD tg_status tg_newfile_check_growing(const char *path);

typedef enum tg_readable {
    TG_READ_REGULAR = 0,
    TG_READ_STREAM = 1
} tg_readable;

TG_API int tg_readfile_open(const char *path, tg_readable what, uint64_t *size_p,
                            const char **why_p);

#endif

/* A rank that runs out of memory while reducers and sessions are set up returns TG_E_NOMEM. The
 * others learn of it at once, with its number, long before their deadline. One rank's allocations
 * fail from the k-th on, or the k-th alone, for every k (under TSan, every third). What succeeds
 * nevertheless is the session that was asked for. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "telegrad/telegrad.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { P = 3, POOR = 1, N = 40, TIMEOUT_MS = 60000 };
static const int64_t soon_ns = INT64_C(20000000000);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Of this thread. */
static _Thread_local long left = -1; /* allocations that succeed; below 0: all */
static _Thread_local bool alone;     /* only one fails, after those */
static _Thread_local bool failed;    /* one has failed */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
void *__wrap_aligned_alloc(size_t align, size_t bytes);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
FILE *__real_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);
FILE *__wrap_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions);

static bool has_room(void)
{
    if (left < 0 || left-- > 0)
        return true;
    failed = true;
    left = alone ? -1 : 0;
    return false;
}

void *__wrap_malloc(size_t bytes)
{
    return has_room() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return has_room() ? __real_calloc(count, size) : NULL;
}

void *__wrap_realloc(void *old, size_t bytes)
{
    return has_room() ? __real_realloc(old, bytes) : NULL;
}

void *__wrap_aligned_alloc(size_t align, size_t bytes)
{
    return has_room() ? __real_aligned_alloc(align, bytes) : NULL;
}

char *__wrap_strdup(const char *text)
{
    return has_room() ? __real_strdup(text) : NULL;
}

FILE *__wrap_fopencookie(void *cookie, const char *mode, cookie_io_functions_t functions)
{
    return has_room() ? __real_fopencookie(cookie, mode, functions) : NULL;
}

/* ---- a job ----------------------------------------------------------------------------------- */

typedef struct scene {
    tg_status (*run)(const struct scene *s, tg_transport *t, long allocations);
    const char *method;
    tg_driver driver;
    const int *nodes;
    bool alone;                       /* only the k-th allocation fails */
    const char *optimizer, *strategy; /* of sessions; the strategy that they must have */
    const char *const *rules;         /* of sessions: one; NULL: none */
} scene;

typedef struct rank {
    const scene *s;
    tg_transport *t;
    long allocations; /* -1: no limit */
    tg_status status;
    bool failed; /* an allocation has failed */
    char error[1024];
} rank;

static void *run_rank(void *arg)
{
    rank *r = arg;
    alone = r->s->alone;
    r->status = r->s->run(r->s, r->t, r->allocations);
    left = -1;
    r->failed = failed;
    if (r->status != TG_OK)
        snprintf(r->error, sizeof r->error, "%s", tg_error());
    return NULL;
}

static void judge(const rank *r, long allocations, int64_t took_ns)
{
    const rank *poor = &r[POOR];
    if (took_ns > soon_ns)
        fail_msg("%s, %ld allocations: the ranks waited", r->s->method, allocations);
    if (poor->status != TG_OK && poor->status != TG_E_NOMEM)
        fail_msg("%s, %ld allocations: %s %s", r->s->method, allocations,
                 tg_status_name(poor->status), poor->error);
    for (int i = 0; i < P; i++)
        if ((r[i].status == TG_OK) != (poor->status == TG_OK) ||
            (r[i].status != TG_OK && i != POOR && strstr(r[i].error, "rank 1") == NULL))
            fail_msg("%s, %ld allocations: rank %d: %s %s; rank %d: %s %s", r->s->method,
                     allocations, i, tg_status_name(r[i].status), r[i].error, POOR,
                     tg_status_name(poor->status), poor->error);
}

/* Returns false once no allocation has failed: there are not as many. The transports stay until all
 * ranks have ended, so that only the library's messages end the others. */
static bool play(const scene *s, long allocations)
{
    tg_transport *t[P];
    rank r[P];
    pthread_t thread[P];
    const tg_clock *clock = tg_clock_monotonic();
    const int64_t begin = tg_now_ns(clock);
    assert_int_equal(tg_transport_inproc(P, t), TG_OK);
    for (int i = 0; i < P; i++) {
        r[i] = (rank){.s = s, .t = t[i], .allocations = i == POOR ? allocations : -1};
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &r[i]), 0);
    }
    for (int i = 0; i < P; i++)
        pthread_join(thread[i], NULL);
    judge(r, allocations, tg_now_ns(clock) - begin);
    for (int i = 0; i < P; i++)
        tg_transport_destroy(t[i]);
    if (r[POOR].status != TG_OK && !r[POOR].failed)
        fail_msg("%s: %s", s->method, r[POOR].error);
    return r[POOR].failed;
}

#ifdef __SANITIZE_THREAD__ /* slow there: every third, from another one on in each scene */
enum { STRIDE = 3 };
#else
enum { STRIDE = 1 };
#endif

static void every_allocation(const scene *s, size_t index)
{
    long k = (long)(index % STRIDE);
    while (play(s, k))
        k += STRIDE;
    assert_true(k > 20);
}

/* ---- reducers -------------------------------------------------------------------------------- */

static tg_status make_reducer(const scene *s, tg_transport *t, long allocations, tg_reducer **r_p)
{
    const tg_reducer_config config = {
        .struct_size = sizeof config, .timeout_ms = TIMEOUT_MS, .nodes = s->nodes};
    left = allocations;
    const tg_status status = tg_reducer_create(s->method, t, N, &config, r_p);
    left = -1;
    return status;
}

static tg_status reduce(const scene *s, tg_transport *t, long allocations)
{
    float x[N] = {0};
    tg_reducer *r = NULL;
    tg_status status = make_reducer(s, t, allocations, &r);
    if (status == TG_OK)
        status = tg_reducer_mean(r, x, x);
    tg_reducer_destroy(r);
    return status;
}

static void reducers(void **state)
{
    static const int two[P] = {0, 1, 1};
    static const scene scenes[] = {
        {.run = reduce, .method = "topk", .driver = TG_DRIVER_INLINE},
        {.run = reduce, .method = "powersgd", .driver = TG_DRIVER_INLINE, .nodes = two},
        {.run = reduce, .method = "dense:exchange=auto", .driver = TG_DRIVER_INLINE}};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(scenes); i++)
        every_allocation(&scenes[i], i);
}

/* A second reducer: the first, on the same transport, ends as well. Ranks that created the second
 * earlier learn of it through the first. */
static tg_status reduce_beside(const scene *s, tg_transport *t, long allocations)
{
    float x[N] = {0};
    tg_reducer *first = NULL, *second = NULL;
    tg_status status = make_reducer(s, t, -1, &first);
    if (status == TG_OK)
        status = make_reducer(s, t, allocations, &second);
    const tg_status made = status;
    if (first != NULL)
        status = tg_reducer_mean(first, x, x);
    if (made != TG_OK && status != made)
        status = tg_fail(TG_E_STATE, "the second: %s, the first: %s", tg_status_name(made),
                         tg_status_name(status));
    tg_reducer_destroy(second);
    tg_reducer_destroy(first);
    return status;
}

static void beside_another(void **state)
{
    static const scene s = {.run = reduce_beside, .method = "topk", .driver = TG_DRIVER_INLINE};
    (void)state;
    every_allocation(&s, 0);
}

/* ---- sessions -------------------------------------------------------------------------------- */

static tg_status add(tg_session *s, float *w, float *g)
{
    static const size_t shape[] = {8, N / 8};
    static const char *const names[] = {"a", "b"};
    uint32_t id;
    for (size_t i = 0; i < TG_COUNT(names); i++) {
        const tg_tensor t = {.struct_size = sizeof t,
                             .name = names[i],
                             .shape = shape,
                             .ndim = 2,
                             .param = tg_array_f32(w + i * N, N),
                             .grad = tg_array_f32(g + i * N, N)};
        TG_TRY(tg_session_add(s, &t, &id));
    }
    return TG_OK;
}

static tg_status begin(const scene *s, tg_transport *t, long allocations)
{
    float w[2 * N] = {0}, g[2 * N] = {0};
    double sum = 1;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = s->method,
                                      .nodes = s->nodes,
                                      .optimizer = s->optimizer,
                                      .rules = s->rules,
                                      .nrules = s->rules != NULL,
                                      .driver = s->driver,
                                      .bucket_bytes = N * sizeof(float),
                                      .timeout_ms = TIMEOUT_MS};
    tg_session *session = NULL;
    left = allocations;
    tg_status status = tg_session_create(&config, t, &session);
    if (status == TG_OK)
        status = add(session, w, g);
    if (status == TG_OK)
        status = tg_session_begin(session);
    left = -1;
    if (status == TG_OK && s->strategy != NULL &&
        strncmp(tg_session_spec(session, TG_KIND_STRATEGY), s->strategy, strlen(s->strategy)) != 0)
        status = tg_fail(TG_E_STATE, "strategy %s", tg_session_spec(session, TG_KIND_STRATEGY));
    if (status == TG_OK) /* broadcasts do not reach all ranks with it */
        status = tg_session_sum(session, &sum, 1);
    tg_session_destroy(session);
    return status;
}

static void sessions(void **state)
{
    static const int two[P] = {0, 1, 1};
    static const char *const rules[] = {"a=2bit"};
    static const scene scenes[] = {
        {.run = begin, .method = "topk", .driver = TG_DRIVER_THREAD},
        {.run = begin, .method = "dense", .driver = TG_DRIVER_INLINE, .nodes = two},
        {.run = begin, .method = "dense:exchange=auto", .driver = TG_DRIVER_INLINE},
        {.run = begin, .method = "dense:exchange=auto", .driver = TG_DRIVER_THREAD, .nodes = two},
        {.run = begin,
         .method = "topk",
         .driver = TG_DRIVER_INLINE,
         .alone = true,
         .optimizer = "adam",
         .strategy = "updates"},
        {.run = begin,
         .method = "dense",
         .driver = TG_DRIVER_INLINE,
         .alone = true,
         .optimizer = "adam",
         .strategy = "updates",
         .rules = rules}};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(scenes); i++)
        every_allocation(&scenes[i], i);
}

/* An image in memory is as it should be, or the error says that there was no memory. The session
 * goes on: the same image follows. */
static void images(void **state)
{
    (void)state;
    float w[2 * N] = {0}, g[2 * N] = {0};
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "topk",
                                      .driver = TG_DRIVER_INLINE,
                                      .timeout_ms = TIMEOUT_MS};
    tg_transport *t;
    tg_session *s;
    const void *bytes;
    size_t len;
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
    assert_int_equal(add(s, w, g), TG_OK);
    assert_int_equal(tg_session_begin(s), TG_OK);
    assert_int_equal(tg_session_save_memory(s, &bytes, &len), TG_OK);
    const size_t whole = len;
    uint8_t *image = test_malloc(whole);
    memcpy(image, bytes, whole);
    failed = alone = true;
    for (long k = 0; failed; k++) {
        bytes = NULL;
        len = 0;
        failed = false;
        left = k;
        const tg_status status = tg_session_save_memory(s, &bytes, &len);
        left = -1;
        if (status != TG_OK && status != TG_E_NOMEM)
            fail_msg("%ld allocations: %s %s", k, tg_status_name(status), tg_error());
        if (status == TG_OK) {
            assert_int_equal(len, whole);
            assert_memory_equal(bytes, image, whole);
        }
        assert_true(failed || k > 5);
    }
    failed = alone = false;
    test_free(image);
    tg_session_destroy(s);
    tg_transport_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reducers), cmocka_unit_test(beside_another),
                                       cmocka_unit_test(sessions), cmocka_unit_test(images)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

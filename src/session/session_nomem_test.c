/* A rank that runs out of memory while reducers and sessions are set up returns TG_E_NOMEM. The
 * others learn of it at once, with its number, long before their deadline. One rank's allocations
 * fail from the k-th on, for every k (under TSan, every third). */
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

static _Thread_local long left = -1; /* of this thread: allocations that succeed; below 0: all */

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
FILE *__real_open_memstream(char **text_p, size_t *len_p);
FILE *__wrap_open_memstream(char **text_p, size_t *len_p);

static bool has_room(void)
{
    if (left > 0)
        left--;
    return left != 0;
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

FILE *__wrap_open_memstream(char **text_p, size_t *len_p)
{
    return has_room() ? __real_open_memstream(text_p, len_p) : NULL;
}

/* ---- a job ----------------------------------------------------------------------------------- */

typedef struct scene {
    tg_status (*run)(const struct scene *s, tg_transport *t, long allocations);
    const char *method;
    tg_driver driver;
    const int *nodes;
} scene;

typedef struct rank {
    const scene *s;
    tg_transport *t;
    long allocations; /* -1: no limit */
    tg_status status;
    char error[1024];
} rank;

static void *run_rank(void *arg)
{
    rank *r = arg;
    r->status = r->s->run(r->s, r->t, r->allocations);
    left = -1;
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

/* Returns the status of the rank without memory. The transports stay until all ranks have ended, so
 * that only the library's messages end the others. */
static tg_status play(const scene *s, long allocations)
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
    return r[POOR].status;
}

#ifdef __SANITIZE_THREAD__ /* slow there: every third, from another one on in each scene */
enum { STRIDE = 3 };
#else
enum { STRIDE = 1 };
#endif

static void every_allocation(const scene *s, size_t index)
{
    long k = (long)(index % STRIDE);
    while (play(s, k) != TG_OK)
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
    static const scene scenes[] = {{reduce, "topk", TG_DRIVER_INLINE, NULL},
                                   {reduce, "powersgd", TG_DRIVER_INLINE, two},
                                   {reduce, "dense:exchange=auto", TG_DRIVER_INLINE, NULL}};
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
    static const scene s = {reduce_beside, "topk", TG_DRIVER_INLINE, NULL};
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
    if (status == TG_OK) /* broadcasts do not reach all ranks with it */
        status = tg_session_sum(session, &sum, 1);
    tg_session_destroy(session);
    return status;
}

static void sessions(void **state)
{
    static const int two[P] = {0, 1, 1};
    static const scene scenes[] = {{begin, "topk", TG_DRIVER_THREAD, NULL},
                                   {begin, "dense", TG_DRIVER_INLINE, two},
                                   {begin, "dense:exchange=auto", TG_DRIVER_INLINE, NULL},
                                   {begin, "dense:exchange=auto", TG_DRIVER_THREAD, two}};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(scenes); i++)
        every_allocation(&scenes[i], i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(reducers), cmocka_unit_test(beside_another),
                                       cmocka_unit_test(sessions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Messages between two processes: how long one takes to arrive, and what many cost. The same over
 * telegrad's TCP transport, MPI, and plain sockets. Both processes must share a clock
 * (CLOCK_MONOTONIC), as those of one machine do, also in namespaces of their own.
 *
 *     bench_messages keys DIR                                   a key for each rank
 *     bench_messages tcp|memory|plain listen|join tcp://HOST:PORT [--keys DIR] TEST...
 *     mpirun -n 2 bench_messages mpi TEST...
 *
 *     TEST   arrival:BYTES:COUNT:PAUSE  one message after the other, each after so many seconds of
 *                                       silence: ms from the call that sends to the end of
 *                                       receiving
 *            stream:BYTES:COUNT         as many as fit: MB/s, and processor seconds a GB, both ends
 *
 * tcp is telegrad over the connection, memory is what it uses by itself within a machine. Without
 * --keys, both are insecure. Rank 0, which listens, sends, and prints a JSON line a test. */
#include "messages.h"
#include "telegrad/base.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { AHEAD = 4, TESTS_MAX = 32 };

typedef struct test {
    bool stream;
    size_t bytes;
    int count;
    double pause_s;
} test;

typedef struct answer {
    int64_t arrived_ns;
    double processor_s;
} answer;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static double processor_s(void)
{
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
           (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) / 1e6;
}

static void fail(void)
{
    fprintf(stderr, "bench_messages: %s\n", tg_error());
    exit(1);
}

static void must(tg_status status)
{
    if (status != TG_OK)
        fail();
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Send or receive count messages, some of them posted ahead. */
static void move_all(messages *m, bool sends, uint8_t *bytes, size_t len, int count)
{
    for (int i = 0; i < count + AHEAD; i++) {
        if (i >= AHEAD)
            must(m->wait(m, i % AHEAD));
        if (i < count)
            must(m->post(m, i % AHEAD, sends, bytes + (size_t)(i % AHEAD) * len, len));
    }
}

static void move(messages *m, bool sends, void *bytes, size_t len)
{
    must(m->post(m, 0, sends, bytes, len));
    must(m->wait(m, 0));
}

static void arrivals(messages *m, const test *t, uint8_t *bytes)
{
    double *ms = calloc((size_t)t->count, sizeof *ms);
    if (!ms)
        exit(1);
    for (int i = 0; i < t->count; i++) {
        const struct timespec pause = {.tv_sec = (time_t)t->pause_s,
                                       .tv_nsec =
                                           (long)((t->pause_s - (double)(time_t)t->pause_s) * 1e9)};
        answer a = {0};
        if (m->rank == 0) {
            nanosleep(&pause, NULL);
            const int64_t sent_ns = now_ns();
            move(m, true, bytes, t->bytes);
            move(m, false, &a, sizeof a);
            ms[i] = (double)(a.arrived_ns - sent_ns) / 1e6;
        } else {
            move(m, false, bytes, t->bytes);
            a.arrived_ns = now_ns();
            move(m, true, &a, sizeof a);
        }
    }
    if (m->rank == 0) {
        const double first = ms[0];
        qsort(ms, (size_t)t->count, sizeof *ms, by_size);
        printf(
            "{\"over\": \"%s\", \"test\": \"arrival\", \"bytes\": %zu, \"pause_s\": %g, \"count\": "
            "%d, \"ms\": %.3f, \"min_ms\": %.3f, \"max_ms\": %.3f, \"first_ms\": %.3f}\n",
            m->name, t->bytes, t->pause_s, t->count, ms[t->count / 2], ms[0], ms[t->count - 1],
            first);
    }
    free(ms);
}

static void stream(messages *m, const test *t, uint8_t *bytes)
{
    answer a = {0};
    move(m, m->rank == 0, bytes, t->bytes); /* warm */
    const int64_t begin_ns = now_ns();
    const double begin_s = processor_s();
    move_all(m, m->rank == 0, bytes, t->bytes, t->count);
    const double own_s = processor_s() - begin_s;
    a.processor_s = own_s;
    a.arrived_ns = now_ns();
    move(m, m->rank != 0, &a, sizeof a);
    if (m->rank != 0)
        return;
    const double gb = (double)t->bytes * t->count / 1e9;
    printf(
        "{\"over\": \"%s\", \"test\": \"stream\", \"bytes\": %zu, \"count\": %d, \"MB_s\": %.1f, "
        "\"sender_s_GB\": %.3f, \"receiver_s_GB\": %.3f}\n",
        m->name, t->bytes, t->count, gb * 1e12 / (double)(a.arrived_ns - begin_ns), own_s / gb,
        a.processor_s / gb);
}

static bool parse(const char *text, test *t)
{
    int end = 0;
    *t = (test){.stream = strncmp(text, "stream:", 7) == 0};
    if (t->stream)
        return sscanf(text, "stream:%zu:%d%n", &t->bytes, &t->count, &end) == 2 && !text[end] &&
               t->bytes > 0 && t->count > 0;
    return sscanf(text, "arrival:%zu:%d:%lf%n", &t->bytes, &t->count, &t->pause_s, &end) == 3 &&
           !text[end] && t->bytes > 0 && t->count > 0 && t->pause_s >= 0;
}

int main(int argc, char **argv)
{
    messages m;
    test tests[TESTS_MAX];
    int at = messages_open(&m, argc, argv), count = 0;
    if (at <= 0)
        return -at;
    for (; at < argc; at++)
        if (count == TESTS_MAX || !parse(argv[at], &tests[count++])) {
            fprintf(stderr,
                    "bench_messages: %s: allowed: arrival:BYTES:COUNT:PAUSE and "
                    "stream:BYTES:COUNT, at most %d\n",
                    argv[at], TESTS_MAX);
            return 2;
        }
    for (int i = 0; i < count; i++) {
        uint8_t *bytes = malloc(AHEAD * tests[i].bytes);
        if (!bytes)
            return 1;
        memset(bytes, 7, AHEAD * tests[i].bytes);
        (tests[i].stream ? stream : arrivals)(&m, &tests[i], bytes);
        fflush(stdout);
        free(bytes);
    }
    m.close(&m);
    return 0;
}

/* The trace: file content, overwriting, several writers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "base/thread.h"
#include "telegrad/trace.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[64];

static int make_path(void **state)
{
    (void)state;
    strcpy(path, "/tmp/telegrad_trace_XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
    (void)state;
    return unlink(path);
}

/* Free the result. */
static char *written(const tg_trace *trace)
{
    if (tg_trace_write(trace, path) != TG_OK)
        fail_msg("%s", tg_error());
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = NULL;
    size_t cap = 0;
    ssize_t len = getdelim(&text, &cap, '\0', file);
    fclose(file);
    assert_true(len > 0);
    return text;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    const size_t len = strlen(what); /* sanitizers' strstr scans the whole remainder each time */
    for (const char *p = text; *p != '\0'; p++)
        n += *p == *what && strncmp(p, what, len) == 0;
    return n;
}

/* A small JSON checker. Returns the first byte after the value at p, NULL if there is none. */
static const char *blanks(const char *p)
{
    return p + strspn(p, " \n");
}

static const char *json_string(const char *p)
{
    if (*p++ != '"')
        return NULL;
    for (; *p != '"'; p++) {
        if ((unsigned char)*p < 0x20)
            return NULL;
        if (*p == '\\' && !strchr("\"\\u", *++p))
            return NULL;
    }
    return p + 1;
}

static const char *json_value(const char *p)
{
    p = blanks(p);
    if (*p == '"')
        return json_string(p);
    if (*p != '{' && *p != '[') {
        char *end;
        (void)strtod(p, &end);
        return end == p ? NULL : end;
    }
    const char close = *p == '{' ? '}' : ']';
    p = blanks(p + 1);
    if (*p == close)
        return p + 1;
    for (;;) {
        if (close == '}') {
            p = json_string(blanks(p));
            if (!p || *p++ != ':')
                return NULL;
        }
        p = json_value(p);
        if (!p)
            return NULL;
        p = blanks(p);
        if (*p == close)
            return p + 1;
        if (*p++ != ',')
            return NULL;
    }
}

static void assert_json(const char *text)
{
    const char *end = json_value(text);
    assert_non_null(end);
    assert_int_equal(*blanks(end), '\0');
}

static void content(void **state)
{
    (void)state;
    tg_trace *trace = NULL;
    assert_int_equal(tg_trace_create(10, &trace), TG_OK);
    char *text = written(trace);
    assert_json(text);
    assert_non_null(strstr(text, "\"traceEvents\":[\n\n]"));
    free(text);
    tg_trace_span(trace, 2, TG_ROW_WAIT, "wait \"w\"\\\n", 1234567, 1234567 + 89001, 7, 3);
    tg_trace_span(trace, 0, TG_ROW_ENCODE, "encode", -5, 10, UINT64_MAX, UINT32_MAX);
    tg_trace_span(trace, 0, TG_ROW_COMPUTE, "backwards", 2000, 1000, 0, 0);
    tg_trace_span(NULL, 0, TG_ROW_COMPUTE, "nowhere", 0, 1, 0, 0);
    text = written(trace);
    assert_json(text);
    assert_non_null(strstr(text, "{\"ph\":\"X\",\"pid\":2,\"tid\":4,\"cat\":\"wait\",\"name\":"
                                 "\"wait \\\"w\\\"\\\\\\u000a\",\"ts\":1234.567,\"dur\":89.001,"
                                 "\"args\":{\"step\":7,\"bucket\":3}}"));
    assert_non_null(strstr(text, "\"name\":\"encode\",\"ts\":-0.005,\"dur\":0.015,\"args\":"
                                 "{\"step\":18446744073709551615,\"bucket\":4294967295}}"));
    assert_non_null(strstr(text, "\"ts\":2.000,\"dur\":0.000"));
    assert_non_null(strstr(text, "\"dropped\":0}"));
    assert_int_equal(count(text, "\"ph\":\"X\""), 3);
    assert_int_equal(count(text, "\"process_name\""), 2); /* ranks 0 and 2, once each */
    assert_int_equal(count(text, "{\"name\":\"rank 0\"}"), 1);
    assert_int_equal(count(text, "{\"name\":\"rank 2\"}"), 1);
    static const char *const rows[] = {"compute", "encode", "exchange", "apply", "wait", "layers"};
    for (int row = 0; row < 6; row++) {
        char want[128];
        snprintf(want, sizeof want,
                 "\"pid\":2,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}", row,
                 rows[row]);
        assert_int_equal(count(text, want), 1);
        snprintf(want, sizeof want,
                 "\"pid\":2,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":"
                 "{\"sort_index\":%d}}",
                 row, row);
        assert_int_equal(count(text, want), 1);
    }
    free(text);
    tg_trace_destroy(trace);
    tg_trace_destroy(NULL);
}

static void oldest_are_dropped(void **state)
{
    (void)state;
    tg_trace *trace = NULL;
    assert_int_equal(tg_trace_create(4, &trace), TG_OK);
    for (int i = 0; i < 11; i++)
        tg_trace_span(trace, 0, TG_ROW_APPLY, "s", i, i + 1, (uint64_t)i, 0);
    char *text = written(trace);
    assert_json(text);
    assert_non_null(strstr(text, "\"dropped\":7}"));
    assert_int_equal(count(text, "\"ph\":\"X\""), 4);
    const char *p = text;
    for (int i = 7; i < 11; i++) { /* in the order of recording */
        char want[32];
        snprintf(want, sizeof want, "\"step\":%d,", i);
        p = strstr(p, want);
        assert_non_null(p);
    }
    free(text);
    tg_trace_destroy(trace);
}

static void layers_drive_out_no_others(void **state)
{
    (void)state;
    tg_trace *trace = NULL;
    assert_int_equal(tg_trace_create(4, &trace), TG_OK);
    tg_trace_span(trace, 0, TG_ROW_COMPUTE, "c", 1, 2, 77, 0);
    for (int i = 0; i < 11; i++)
        tg_trace_span(trace, 0, TG_ROW_LAYERS, "l", i, i + 1, (uint64_t)i, 0);
    char *text = written(trace);
    assert_json(text);
    assert_non_null(strstr(text, "\"dropped\":7}"));
    assert_int_equal(count(text, "\"ph\":\"X\""), 5);
    assert_non_null(strstr(text, "\"step\":77,"));
    free(text);
    tg_trace_destroy(trace);
}

/* Each exchange is in the first lane that is free when it begins; one that ends when another begins
 * frees its lane. They are recorded when they end. */
static void exchanges_have_lanes(void **state)
{
    (void)state;
    static const struct {
        int begin, end, tid;
    } spans[] = {{10, 30, 6}, {0, 40, 2}, {20, 50, 7}, {30, 60, 6}, {40, 70, 2}, {70, 70, 2}};
    tg_trace *trace = NULL;
    assert_int_equal(tg_trace_create(100, &trace), TG_OK);
    for (size_t i = 0; i < TG_COUNT(spans); i++)
        tg_trace_span(trace, 3, TG_ROW_EXCHANGE, "x", spans[i].begin, spans[i].end, i, 0);
    tg_trace_span(trace, 4, TG_ROW_EXCHANGE, "x", 5, 6, 99, 0); /* of another rank */
    char *text = written(trace), want[160];
    assert_json(text);
    for (size_t i = 0; i < TG_COUNT(spans); i++) {
        snprintf(want, sizeof want,
                 "\"pid\":3,\"tid\":%d,\"cat\":\"exchange\",\"name\":\"x\",\"ts\":0.%03d,"
                 "\"dur\":0.%03d,\"args\":{\"step\":%zu,",
                 spans[i].tid, spans[i].begin, spans[i].end - spans[i].begin, i);
        assert_int_equal(count(text, want), 1);
    }
    assert_int_equal(count(text, "\"pid\":4,\"tid\":2,\"cat\":\"exchange\""), 1);
    assert_int_equal(count(text, "\"name\":\"thread_name\""), 6 + 2 + 6);
    static const struct {
        int tid;
        const char *name;
        int sort;
    } tracks[] = {{2, "exchange", 2},
                  {6, "exchange 2", 3},
                  {7, "exchange 3", 4},
                  {3, "apply", 5},
                  {5, "layers", 7}};
    for (size_t i = 0; i < TG_COUNT(tracks); i++) {
        snprintf(want, sizeof want,
                 "\"pid\":3,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}",
                 tracks[i].tid, tracks[i].name);
        assert_int_equal(count(text, want), 1);
        snprintf(want, sizeof want,
                 "\"pid\":3,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":"
                 "{\"sort_index\":%d}}",
                 tracks[i].tid, tracks[i].sort);
        assert_int_equal(count(text, want), 1);
    }
    free(text);
    tg_trace_destroy(trace);
}

static void refuses(void **state)
{
    (void)state;
    tg_trace *trace = NULL;
    assert_int_equal(tg_trace_create(0, &trace), TG_E_ARG);
    assert_int_equal(tg_trace_create(SIZE_MAX / 8, &trace), TG_E_NOMEM);
    assert_null(trace);
    assert_int_equal(tg_trace_create(1, &trace), TG_OK);
    assert_int_equal(tg_trace_write(trace, "/nonexistent/trace.json"), TG_E_IO);
    assert_non_null(strstr(tg_error(), "/nonexistent/trace.json"));
    tg_trace_destroy(trace);
}

enum { WRITERS = 3, SPANS = 20000 };

typedef struct writer {
    tg_trace *trace;
    int rank;
} writer;

static void *record(void *arg)
{
    const writer *w = arg;
    for (int i = 0; i < SPANS; i++)
        tg_trace_span(w->trace, w->rank, TG_ROW_ENCODE, "s", i, i + w->rank, (uint64_t)i,
                      (uint32_t)w->rank);
    return NULL;
}

static void record_all(tg_trace *trace)
{
    pthread_t threads[WRITERS];
    writer writers[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        writers[i] = (writer){trace, i + 1};
        assert_int_equal(tg__thread_start("record", record, &writers[i], &threads[i]), TG_OK);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
}

static void threads_lose_nothing(void **state)
{
    (void)state;
    tg_trace *trace = NULL;
    assert_int_equal(tg_trace_create(WRITERS * SPANS, &trace), TG_OK);
    record_all(trace);
    char *text = written(trace);
    assert_non_null(strstr(text, "\"dropped\":0}"));
    assert_int_equal(count(text, "\"ph\":\"X\""), WRITERS * SPANS);
    assert_int_equal(count(text, "\"step\":12345,"), WRITERS);
    free(text);
    tg_trace_destroy(trace);
}

/* A ring so small that writers meet in its slots: every span in it must be one that was
 * recorded. */
static void threads_meet(void **state)
{
    (void)state;
    tg_trace *trace = NULL;
    assert_int_equal(tg_trace_create(3, &trace), TG_OK);
    record_all(trace);
    char *text = written(trace);
    assert_json(text);
    assert_int_equal(count(text, "\"ph\":\"X\""), 3);
    char want[32];
    snprintf(want, sizeof want, "\"dropped\":%d}", WRITERS * SPANS - 3);
    assert_non_null(strstr(text, want));
    for (const char *p = text; (p = strstr(p, "\"ph\":\"X\"")); p++) {
        int rank = atoi(strstr(p, "\"pid\":") + 6), step = atoi(strstr(p, "\"step\":") + 7);
        int bucket = atoi(strstr(p, "\"bucket\":") + 9);
        char times[64];
        snprintf(times, sizeof times, "\"ts\":%d.%03d,\"dur\":0.%03d", step / 1000, step % 1000,
                 rank);
        assert_int_equal(bucket, rank);
        const char *found = strstr(p, times);
        assert_non_null(found);
        assert_true(found < strstr(p, "}}"));
    }
    free(text);
    tg_trace_destroy(trace);
}

static void test_names(void **state)
{
    (void)state;
    tg_trace *trace;
    const char *first = NULL, *second = NULL;
    char text[] = "forward conv1";
    assert_int_equal(tg_trace_create(4, &trace), TG_OK);
    assert_int_equal(tg_trace_name(trace, text, &first), TG_OK);
    memset(text, 'x', sizeof text - 1);
    assert_int_equal(tg_trace_name(trace, text, &second), TG_OK);
    assert_string_equal(first, "forward conv1");
    assert_string_equal(second, text);
    assert_int_equal(tg_trace_name(NULL, text, &first), TG_E_ARG);
    assert_int_equal(tg_trace_name(trace, NULL, &first), TG_E_ARG);
    assert_string_equal(first, "forward conv1");
    tg_trace_destroy(trace);
}

/* The output is valid UTF-8, whatever bytes a name has. */
static void names_of_any_bytes(void **state)
{
    (void)state;
    tg_trace *trace;
    assert_int_equal(tg_trace_create(4, &trace), TG_OK);
    tg_trace_span(trace, 0, TG_ROW_WAIT, "caf\xe9 \xc3\xa9\xc3", 0, 1, 0, 0);
    char *text = written(trace);
    assert_non_null(strstr(text, "\"caf\\ufffd \xc3\xa9\\ufffd\""));
    free(text);
    tg_trace_destroy(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),           cmocka_unit_test(content),
        cmocka_unit_test(oldest_are_dropped),   cmocka_unit_test(layers_drive_out_no_others),
        cmocka_unit_test(exchanges_have_lanes), cmocka_unit_test(refuses),
        cmocka_unit_test(threads_lose_nothing), cmocka_unit_test(threads_meet),
        cmocka_unit_test(names_of_any_bytes),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}

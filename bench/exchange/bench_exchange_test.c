/* Measuring exchanges: the arithmetic on made-up steps, and real steps of a few threads. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "bench/exchange/exchange_impl.h"
#include "wire/envelope.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NEAR(a, b) assert_true(fabs((a) - (b)) < 1e-9 * fmax(fabs(a), 1))

/* ---- arithmetic ------------------------------------------------------------------------------ */

/* Two steps of three ranks: an all-gather in which one rank sends nothing, then a dense
 * exchange. */
static void fill(step_samples *s)
{
    const step_round rounds[] = {{tg__exchange_find("allgather"), 5000},
                                 {tg__exchange_find("halving"), 300}};
    const step_figures first[] = {{.ns = 30e6, .codec_ns = 1e6, .bytes = 900, .frame = {100, 1e3}},
                                  {.ns = 20e6, .codec_ns = 4e6, .bytes = 800, .frame = {0, 1e3}},
                                  {.ns = 10e6, .codec_ns = 2e6, .bytes = 700, .frame = {80, 1e3}}};
    const step_figures second[] = {{.ns = 50e6, .bytes = 500, .frame = {100, 1e3}},
                                   {.ns = 50e6, .processor_ns = 3e6, .bytes = 1100},
                                   {.ns = 10e6, .codec_ns = 2e6}};
    memset(s, 0, sizeof *s);
    bench_step_add(s, first, 3, rounds, 2);
    bench_step_add(s, second, 3, rounds, 2);
}

static void test_step(void **state)
{
    static step_samples s;
    tg__cost halving;
    (void)state;
    fill(&s);
    tg__exchange_find("halving")->cost(3, 300, 1e3, &halving);
    const double gather = 2 * (100 + TG__ENVELOPE_BYTES);
    assert_int_equal(s.count, 2);
    assert_int_equal(s.rounds, 1 + halving.rounds);
    NEAR(s.delays, 1 + halving.delays);
    NEAR(s.predicted, 2 * (gather + halving.bytes));
    NEAR(s.serial, 2 * (gather + halving.serial));
    NEAR(s.bytes, 900 + 1100);
    NEAR(s.ms[0], 30); /* of the slowest rank */
    NEAR(s.ms[1], 50);
    NEAR(s.codec_ms[0], 4);
    NEAR(s.codec_ms[1], 2);
}

static void test_row(void **state)
{
    static step_samples s, off;
    bench_link link = {.text = "", .link = {.delay_ns = 7000000, .jitter_ns = 2000000}};
    bench_exchange_row row = {.method = "dgc:density=0.01", .link = &link};
    (void)state;
    fill(&s);
    memset(&off, 0, sizeof off);
    off.count = 3;
    memcpy(off.codec_ms, (double[]){9, 5, 6}, 3 * sizeof(double));
    memcpy(off.processor_ms, (double[]){3, 1, 1}, 3 * sizeof(double));

    bench_step_row(&s, &off, &row); /* unlimited rates: only delays, with half the jitter */
    NEAR(row.ms.median, 40);
    NEAR(row.ms.min, 30);
    NEAR(row.ms.max, 50);
    NEAR(row.bytes, 1000);
    NEAR(row.codec_ms.median, 6);
    NEAR(row.codec_ms.min, 5);
    NEAR(row.processor_ms, 1);
    NEAR(row.wire_ms, s.delays * 8);
    NEAR(row.ratio, 40 / (s.delays * 8 + 6));
    NEAR(row.bound_ms, 8 + 6);
    NEAR(row.bound_ratio, 40.0 / 14);
    assert_true(isnan(row.target)); /* more than one delay */

    link.link.down_bps = 8e6; /* bytes/ms: first the only rate, then the lower one */
    bench_step_row(&s, &off, &row);
    NEAR(row.wire_ms, s.delays * 8 + s.serial / 2 / 1000);
    link.link.up_bps = 8e5;
    bench_step_row(&s, &off, &row);
    NEAR(row.wire_ms, s.delays * 8 + s.serial / 2 / 100);
    NEAR(row.bound_ms, 8 + 10 + 6);

    s.delays = 1;
    bench_step_row(&s, &off, &row);
    NEAR(row.target, 1.3);
    row.method = "dgcx";
    bench_step_row(&s, &off, &row);
    assert_true(isnan(row.target));

    link.text = NULL; /* an unknown link: nothing is predicted */
    bench_step_row(&s, &off, &row);
    assert_true(isnan(row.wire_ms) && isnan(row.ratio) && isnan(row.bound_ms));
    NEAR(row.ms.median, 40);
}

static void test_full(void **state)
{
    static step_samples s;
    (void)state;
    fill(&s);
    const step_round round = {tg__exchange_find("none"), 10};
    const step_figures one = {.ns = 1};
    for (int i = 0; i < 2 * BENCH_SAMPLES; i++)
        bench_step_add(&s, &one, 1, &round, 1);
    assert_int_equal(s.count, BENCH_SAMPLES);
}

static void test_frame(void **state)
{
    tg__part parts[] = {{.len = TG__FRAME_HEAD + 10}, {.len = TG__FRAME_HEAD + 5}};
    const tg__exchange x = {.parts = parts, .nparts = 2}, silent = {.nparts = 0};
    (void)state;
    NEAR(bench_frame_bytes(&x), TG__FRAME_HEAD + 15);
    NEAR(bench_frame_bytes(&silent), 0);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { ROWS = 16 };

typedef struct seen {
    bench_exchange_row row[ROWS];
    const char *link[ROWS];
    char error[ROWS][256];
    size_t rows, begun;
    double predicted[ROWS];
    tg_status answer;
} seen;

static tg_status begun(void *arg, const bench_exchange_row *row, double seconds)
{
    seen *s = arg;
    assert_true(s->begun < ROWS && row->elements > 0 && row->tensors > 0 && row->workers > 0);
    s->predicted[s->begun++] = seconds;
    return TG_OK;
}

static tg_status saw(void *arg, const bench_exchange_row *row)
{
    seen *s = arg;
    assert_true(s->rows < ROWS);
    if (row->error)
        snprintf(s->error[s->rows], sizeof s->error[0], "%s", row->error);
    s->link[s->rows] = row->link->text;
    s->row[s->rows++] = *row;
    return s->answer;
}

static bench_exchange_options options(seen *s, const char *const *methods, size_t count,
                                      const size_t *workers, size_t nworkers,
                                      const bench_link *link, size_t links)
{
    return (bench_exchange_options){.method = methods,
                                    .methods = count,
                                    .workers = workers,
                                    .nworkers = nworkers,
                                    .link = link,
                                    .links = links,
                                    .n = 20000,
                                    .seconds = 0.02,
                                    .arg = s,
                                    .begin = begun,
                                    .row = saw};
}

static void test_threads(void **state)
{
    static const char *const methods[] = {"dense", "dgc:density=0.01", "powersgd:rank=2"};
    static const double delays[] = {2, 1, 4};
    static const size_t workers[] = {1, 3};
    static seen s;
    bench_link links[2] = {{.text = NULL}, {.text = "20mbit,2ms"}};
    (void)state;
    assert_int_equal(tg_link_parse(links[1].text, &links[1].link), TG_OK);
    bench_exchange_options o = options(&s, methods, 3, workers, 2, links, 2);
    assert_int_equal(bench_exchange(&o), TG_OK);
    assert_int_equal(o.failed, 0);
    assert_int_equal(s.rows, 12);
    assert_int_equal(s.begun, 12);
    for (size_t i = 0; i < s.rows; i++) {
        const bench_exchange_row *r = &s.row[i];
        const size_t method = i / 4;
        const bool alone = i / 2 % 2 == 0;
        assert_null(r->error);
        assert_string_equal(r->method, methods[method]);
        assert_int_equal(r->workers, alone ? 1 : 3);
        assert_ptr_equal(s.link[i], links[i % 2].text);
        assert_true(r->samples >= 1 && r->ms.min <= r->ms.median && r->ms.median <= r->ms.max);
        assert_true(r->codec_ms.min > 0 && r->processor_ms > 0);
        assert_true(r->delays == (alone ? 0 : delays[method]));
        assert_true(fabs(r->bytes - r->bytes_predicted) <= 0.02 * r->bytes_predicted);
        /* at least two steps */
        assert_true(i % 2 == 0 ? isnan(s.predicted[i])
                               : alone || s.predicted[i] >= 2 * 1e-3 * r->wire_ms);
        if (i % 2 == 1) /* least time of an emulated link, delays of slices overlapping */
            assert_true(r->ms.min * 1.001 > r->wire_ms - (delays[method] - 1) * 2);
    }
    assert_string_equal(s.row[2].exchange, "direct");
    assert_string_equal(s.row[6].exchange, "allgather");
    assert_string_equal(s.row[10].exchange, "direct+direct");
}

/* The tensors of a model. Steps with the network off that nobody asked for give no row. */
static void test_tensors(void **state)
{
    static const char *const method = "dense";
    static const size_t workers = 2;
    static seen s;
    const bench_tensor tensors[] = {{"a", 600, 20}, {"b", 7, 7}};
    bench_link link = {.text = "1gbit"};
    (void)state;
    assert_int_equal(tg_link_parse(link.text, &link.link), TG_OK);
    bench_exchange_options o = options(&s, &method, 1, &workers, 1, &link, 1);
    o.n = 607;
    o.tensor = tensors;
    o.tensors = 2;
    assert_int_equal(bench_exchange(&o), TG_OK);
    assert_int_equal(s.rows, 1);
    assert_int_equal(s.row[0].tensors, 2);
    assert_true(s.row[0].bytes == s.row[0].bytes_predicted);
}

/* The urgent exchange is measured within its step, and its bytes are not counted. */
static void test_behind(void **state)
{
    static const char *const method = "dense";
    static const size_t workers = 2;
    static seen s;
    bench_link link = {.text = "200mbit"};
    (void)state;
    assert_int_equal(tg_link_parse(link.text, &link.link), TG_OK);
    bench_exchange_options o = options(&s, &method, 1, &workers, 1, &link, 1);
    o.n = 2000000; /* 31 slices, 0.3 s in each direction */
    o.behind = 50;
    assert_int_equal(bench_exchange(&o), TG_OK);
    const bench_exchange_row *r = &s.row[0];
    assert_null(r->error);
    assert_int_equal(r->behind, 50);
    assert_true(r->behind_ms.min > 0 && r->behind_ms.max < r->ms.max);
    assert_true(fabs(r->bytes - r->bytes_predicted) <= 0.001 * r->bytes_predicted);
}

static void test_errors(void **state)
{
    static const char *const methods[] = {"topk:feedback=none,exchange=reducescatter", "dense"};
    static const size_t workers[] = {2, BENCH_EXCHANGE_WORKERS + 1};
    static seen s;
    bench_link link = {.text = NULL};
    (void)state;
    bench_exchange_options o = options(&s, methods, 2, workers, 1, &link, 1);
    assert_int_equal(bench_exchange(&o), TG_OK); /* a row with an error; the next row follows */
    assert_int_equal(o.failed, 1);
    assert_int_equal(s.rows, 2);
    assert_non_null(strstr(s.error[0], "feedback=none"));
    assert_null(s.row[1].error);
    o.nworkers = 2;
    assert_int_equal(bench_exchange(&o), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "workers=65"));
    o.nworkers = 1;
    o.n = 0;
    assert_int_equal(bench_exchange(&o), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "n=0"));
    static const size_t most = BENCH_EXCHANGE_WORKERS;
    o.n = TG_MAX_ELEMENTS;
    o.methods = 1;
    o.workers = &most;
    s.rows = 0;
    if (sysconf(_SC_PHYS_PAGES) < ((long)1 << 39) / sysconf(_SC_PAGESIZE)) {
        assert_int_equal(bench_exchange(&o), TG_OK);
        assert_non_null(strstr(s.error[0], "take about"));
    }
    o.workers = workers;
    o.n = 100;
    s.rows = 0;
    s.answer = TG_E_IO;
    o.method = &methods[1];
    assert_int_equal(bench_exchange(&o), TG_E_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step),    cmocka_unit_test(test_row),
        cmocka_unit_test(test_full),    cmocka_unit_test(test_frame),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_tensors),
        cmocka_unit_test(test_behind),  cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The benchmark itself: every row has its figures, for any size; errors are reported as rows. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "bench/rows/bench_impl.h"
#include <math.h>
#include <string.h>

typedef struct seen {
    size_t rows, begun, errors, missing;
    bool dense, topk;
} seen;

static void begin(void *arg, size_t n, const char *name)
{
    (void)n;
    (void)name;
    ((seen *)arg)->begun++;
}

static tg_status row(void *arg, const bench_row *row)
{
    seen *s = arg;
    s->rows++;
    s->errors += row->error != NULL;
    s->missing += row->missing;
    assert_string_equal(row->level, tg_cpu_level());
    if (row->error) {
        assert_true(row->missing && strstr(row->error, "unknown"));
        return TG_OK;
    }
    if (strcmp(row->group, "index") == 0) {
        for (int i = 0; i < 3; i++)
            assert_true(row->index_ns[i] > 0);
        assert_true(row->entropy > 0.5 && isfinite(row->bits));
        return TG_OK;
    }
    assert_true(row->samples > 0 && row->ns > 0 && row->gb_s > 0 && row->limit > 0);
    assert_true(row->axpy.min > 0 && row->axpy.min <= row->axpy.median &&
                row->axpy.median <= row->axpy.max && row->copy.min <= row->copy.median);
    if (strcmp(row->name, "dense encode") == 0) {
        s->dense = true;
        assert_true(row->error_norm == 0 && row->bits > 32 && row->bits < 32.2);
    }
    if (strcmp(row->name, "topk encode") == 0) {
        s->topk = true;
        assert_true(row->error_norm > 0.1 && row->error_norm < 1 && row->bits < 1);
    }
    return TG_OK;
}

static bench_options options(seen *s, const size_t *n, unsigned threads)
{
    *s = (seen){.rows = 0};
    return (bench_options){.n = n,
                           .count = 1,
                           .threads = threads,
                           .seconds = 1e-4,
                           .arg = s,
                           .begin = begin,
                           .row = row};
}

static void every_row(void **state)
{
    (void)state;
    static const size_t ns[] = {1000, 70003};
    size_t methods;
    (void)tg__method_entries(&methods);
    for (size_t i = 0; i < 2; i++)
        for (unsigned threads = 1; threads <= 2; threads++) {
            seen s;
            bench_options o = options(&s, &ns[i], threads);
            if (bench_codec(&o) != TG_OK)
                fail_msg("%s", tg_error());
            assert_int_equal(s.rows, s.begun);
            assert_int_equal(s.errors, s.missing);
            assert_true(s.rows > 2 * methods + 30 && s.dense && s.topk);
        }
}

static void filters(void **state)
{
    (void)state;
    const size_t n = 2000;
    seen s;
    bench_options o = options(&s, &n, 1);
    o.filter = "fp16 encode";
    assert_int_equal(bench_codec(&o), TG_OK);
    assert_int_equal(s.rows, 1);
    o = options(&s, &n, 1);
    o.filter = "index";
    assert_int_equal(bench_codec(&o), TG_OK);
    assert_true(s.rows >= 12 && s.rows % 4 == 0);
    o = options(&s, &n, 1);
    o.filter = "nothing of that name";
    o.gradients = "/nonexistent.npy"; /* nothing is prepared for no row */
    assert_int_equal(bench_codec(&o), TG_OK);
    assert_int_equal(s.rows, 0);
}

static tg_status full(void *arg, const bench_row *row)
{
    (void)arg;
    (void)row;
    return tg_fail(TG_E_IO, "disk full");
}

static void refusals(void **state)
{
    (void)state;
    static const size_t few = 999, n = 1000;
    seen s;
    bench_options o = options(&s, &few, 1);
    assert_int_equal(bench_codec(&o), TG_E_ARG);
    o = options(&s, &n, 300);
    assert_int_equal(bench_codec(&o), TG_E_ARG);
    o = options(&s, &n, 1);
    o.gradients = "/nonexistent.npy";
    assert_int_equal(bench_codec(&o), TG_E_IO);
    o = options(&s, &n, 1);
    o.row = full;
    assert_int_equal(bench_codec(&o), TG_E_IO);
    assert_string_equal(tg_error(), "disk full");
    assert_true(bench_level_exists("ref"));
    assert_false(bench_level_exists("mmx"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_row), cmocka_unit_test(filters),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

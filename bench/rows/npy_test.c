/* .npy files: what is written is read back, and the message names what is wrong. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "bench/rows/npy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/telegrad-npy-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_bytes(const char *head, size_t head_len, const float *x, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(head, 1, head_len, file), head_len);
    assert_int_equal(fwrite(x, sizeof *x, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* Write a file of version 1.0 with this dictionary. */
static void write_file(const char *text, const float *x, size_t n)
{
    char head[256] = "\x93NUMPY\x01";
    size_t len = strlen(text);
    head[8] = (char)len;
    memcpy(head + 10, text, len);
    write_bytes(head, 10 + len, x, n);
}

static void round_trip(void **state)
{
    (void)state;
    static const size_t ns[] = {1, 2, 9, 10, 4095, 4097, 100000};
    for (size_t k = 0; k < sizeof ns / sizeof *ns; k++) {
        size_t n = 0;
        float *x = malloc(ns[k] * sizeof *x), *y = NULL;
        for (size_t i = 0; i < ns[k]; i++)
            x[i] = (float)i * -0.375f;
        FILE *file = fopen(path, "wb");
        assert_true(bench_npy_head(file, ns[k]));
        assert_int_equal(ftell(file) % 64, 0);
        assert_true(bench_npy_values(file, x, ns[k] / 2));
        assert_true(bench_npy_values(file, x + ns[k] / 2, ns[k] - ns[k] / 2));
        assert_int_equal(fclose(file), 0);
        if (bench_npy_read(path, &y, &n) != TG_OK)
            fail_msg("%s", tg_error());
        assert_int_equal(n, ns[k]);
        assert_memory_equal(x, y, n * sizeof *x);
        free(x);
        free(y);
    }
}

/* Files as other programs write them: no blanks, version 2. */
static void other_writers(void **state)
{
    (void)state;
    static const char two[] = "\x93NUMPY\x02\0\x3a\0\0\0{'shape':(3,),'fortran_order':True,"
                              "'descr':'<f4'}        \n";
    const float x[3] = {1, -2, 3};
    float *y = NULL;
    size_t n = 0;
    write_file("{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}\n", x, 3);
    assert_int_equal(bench_npy_read(path, &y, &n), TG_OK);
    assert_memory_equal(x, y, sizeof x);
    free(y);
    write_bytes(two, 12 + 0x3a, x, 3);
    if (bench_npy_read(path, &y, &n) != TG_OK)
        fail_msg("%s", tg_error());
    assert_memory_equal(x, y, sizeof x);
    free(y);
}

static void wrong_files(void **state)
{
    (void)state;
    const float x[6] = {1, 2, 3, 4, 5, NAN};
    static const struct {
        const char *head;
        size_t n;
        const char *says;
    } cases[] = {
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", 4, "type '<f8': allowed"},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 2, "type '>f4'"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }", 4, "shape (2, 2): allowed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (), }", 1, "shape (): allowed"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0,), }", 0, "0 values: allowed: 1"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 1,
         "allowed: 1 to"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (5,), }", 4, "ends before the 5"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", 5, "longer than the 4"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }", 6, "value 5 is nan"},
        {"{'fortran_order': False, 'shape': (6,), }", 6, "no descr"},
        {"{}", 0, "no descr"},
    };
    float *y = NULL;
    size_t n = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_file(cases[i].head, x, cases[i].n);
        assert_int_equal(bench_npy_read(path, &y, &n), TG_E_CORRUPT);
        if (!strstr(tg_error(), cases[i].says) || !strstr(tg_error(), path))
            fail_msg("case %zu: %s", i, tg_error());
    }
    write_bytes("PK\x03\x04 a zip file", 15, x, 0);
    assert_int_equal(bench_npy_read(path, &y, &n), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), "is no .npy file"));
    write_bytes("\x93NUMPY\x09\0\x02\0{}", 12, x, 0);
    assert_int_equal(bench_npy_read(path, &y, &n), TG_E_CORRUPT);
    assert_non_null(strstr(tg_error(), ".npy version 9"));
    write_bytes("\x93NUMPY\x01\0\xff\x01{}", 12, x, 0);
    assert_int_equal(bench_npy_read(path, &y, &n), TG_E_IO);
    assert_int_equal(bench_npy_read("/nonexistent/g.npy", &y, &n), TG_E_IO);
    assert_null(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(round_trip),
                                       cmocka_unit_test(other_writers),
                                       cmocka_unit_test(wrong_files)};
    return cmocka_run_group_tests(tests, make_file, remove_file);
}

/* Rates, times and sizes as text. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "telegrad/tools.h"
#include <string.h>

typedef bool parser(const char *text, size_t len, double *v_p);

typedef struct quantity {
    const char *text;
    double value;
} quantity;

static void check(parser *parse, const quantity *good, size_t ngood, const char *const *bad,
                  size_t nbad)
{
    for (size_t i = 0; i < ngood; i++) {
        char longer[64];
        double v = -1;
        snprintf(longer, sizeof longer, "%s,5ms", good[i].text); /* only len characters count */
        if (!parse(longer, strlen(good[i].text), &v) || v != good[i].value)
            fail_msg("\"%s\": %.17g", good[i].text, v);
    }
    for (size_t i = 0; i < nbad; i++) {
        double v = -1;
        if (parse(bad[i], strlen(bad[i]), &v) || v != -1)
            fail_msg("\"%s\": %.17g", bad[i], v);
    }
}

static void rates(void **state)
{
    (void)state;
    static const quantity good[] = {
        {"20mbit", 20e6},        {"20 mbit", 20e6},
        {"1Gbit", 1e9},          {"1 Gbit/s", 1e9},
        {"100Mbps", 100e6},      {"100mbps", 100e6},
        {"1.5gbit", 1.5e9},      {"64kbit", 64e3},
        {"64KBIT/S", 64e3},      {"100 Mb/s", 100e6},
        {"2tbit", 2e12},         {"9600bps", 9600},
        {"9600 bit/s", 9600},    {"1e2mbit", 100e6},
        {"12.5MB/s", 100e6},     {"12.5MBps", 100e6},
        {"1 mByte/s", 8e6},      {"1KB/s", 8e3},
        {"1MiB/s", 8 * 1048576}, {"1GiB/s", 8 * 1073741824.0},
        {"8 Mibit/s", 8388608},  {"0mbit", 0},
    };
    static const char *const bad[] = {"100",     "100M",    "100Mb",   "100MB",    "100MBPS",
                                      "100MB/S", "mbit",    "-1mbit",  "1mbit/ms", "1e400mbit",
                                      "nanmbit", "1 0mbit", "1 mbit ", " 1mbit",   "0x1mbit",
                                      "1xbit",   "",        "bit",     "1e308tbit"};
    check(tg_rate_parse, good, TG_COUNT(good), bad, TG_COUNT(bad));
}

static void times(void **state)
{
    (void)state;
    static const quantity good[] = {{"20ms", 20e6},         {"20 ms", 20e6}, {"250us", 250e3},
                                    {"250 \u00b5s", 250e3}, {"1.5s", 1.5e9}, {"1.5 S", 1.5e9},
                                    {"20MS", 20e6},         {"2min", 120e9}, {"0s", 0},
                                    {"3 sec", 3e9}};
    static const char *const bad[] = {"20",  "ms",     "-1ms", "nans", "1h",
                                      "20m", "1e400s", "",     "20ms "};
    check(tg_time_parse, good, TG_COUNT(good), bad, TG_COUNT(bad));
}

static void sizes(void **state)
{
    (void)state;
    static const quantity good[] = {
        {"500000", 500000},   {"64K", 65536}, {"64k", 65536}, {"4M", 4194304},  {"4MiB", 4194304},
        {"4 mib", 4194304},   {"4MB", 4e6},   {"4mb", 4e6},   {"64kB", 64e3},   {"1.5M", 1572864},
        {"1G", 1073741824.0}, {"1GB", 1e9},   {"12B", 12},    {"12 bytes", 12}, {"4Mi", 4194304}};
    static const char *const bad[] = {"M", "4X",    "4MBB", "-1",   "4Mbit",
                                      "",  "4 M B", "4Mb",  "4Mib", "12b"};
    check(tg_bytes_parse, good, TG_COUNT(good), bad, TG_COUNT(bad));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rates), cmocka_unit_test(times),
                                       cmocka_unit_test(sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

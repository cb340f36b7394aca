/* Samples alternate: yardstick, work, yardstick, until the time of the row is up. */
#include "bench/rows/bench_impl.h"
#include "base/mem.h"
#include "telegrad/clock.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WARM_UP = 3, SAMPLES_MIN = 5, LATE = 4, SAMPLE_NS = 2000000 };

typedef struct samples {
    double x[BENCH_SAMPLES];
    size_t count;
} samples;

static int64_t wall(void)
{
    return tg_now_ns(tg_clock_monotonic());
}

/* The work of one thread is timed by that thread's processor time, so that other programs affect it
 * as little as possible. */
int64_t bench_now(const bench *b)
{
    struct timespec t;
    if (b->o->threads > 1 || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
        return wall();
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_ratio bench_summary(double *x, size_t n)
{
    if (n == 0)
        return (bench_ratio){NAN, NAN, NAN};
    qsort(x, n, sizeof *x, ascending);
    return (bench_ratio){(x[(n - 1) / 2] + x[n / 2]) / 2, x[0], x[n - 1]};
}

static bench_ratio summary(samples *s)
{
    qsort(s->x, s->count, sizeof *s->x, ascending);
    return (bench_ratio){s->x[s->count / 2], s->x[0], s->x[s->count - 1]};
}

static tg_status axpy(void *arg, int64_t *ns_p)
{
    bench *b = arg;
    int64_t begin = bench_now(b);
    b->yards->add(b->out, b->g[0], b->n);
    *ns_p += bench_now(b) - begin;
    return TG_OK;
}

static tg_status copy(void *arg, int64_t *ns_p)
{
    bench *b = arg;
    int64_t begin = bench_now(b);
    memcpy(b->out, b->g[0], b->n * sizeof *b->out);
    *ns_p += bench_now(b) - begin;
    return TG_OK;
}

/* Nanoseconds per call, over `repeats` calls. */
static tg_status sample(bench_fn *fn, void *arg, size_t repeats, double *ns_p)
{
    int64_t ns = 0;
    for (size_t i = 0; i < repeats; i++) {
        TG_TRY(fn(arg, &ns));
        __asm__ volatile("" ::: "memory");
    }
    *ns_p = (double)TG__MAX(ns, 1) / (double)repeats;
    return TG_OK;
}

/* Run it until its hints have settled, and find how many calls one sample needs. If a single call
 * takes the time of the whole row, one is enough. */
static tg_status warm_up(const bench *b, bench_fn *fn, void *arg, size_t *repeats_p)
{
    double ns = 0;
    int64_t end = wall() + (int64_t)(b->o->seconds * 1e9);
    for (int i = 0; i < WARM_UP && (i == 0 || wall() < end); i++)
        TG_TRY(sample(fn, arg, 1, &ns));
    double want = SAMPLE_NS / ns;
    *repeats_p = want < 1 ? 1 : want > 1000 ? 1000 : (size_t)want;
    return TG_OK;
}

/* Whether there are enough samples, or the time is up. */
static bool over(const bench *b, size_t count, int64_t begin)
{
    double seconds = (double)(wall() - begin) / 1e9;
    return count == BENCH_SAMPLES || (count >= SAMPLES_MIN && seconds > b->o->seconds) ||
           (count >= 1 && seconds > LATE * b->o->seconds);
}

tg_status bench_measure(bench *b, bench_fn *fn, void *arg, bench_row *row)
{
    samples ns = {.count = 0}, over_axpy = {.count = 0}, over_copy = {.count = 0};
    size_t repeats, yard;
    TG_TRY(warm_up(b, fn, arg, &repeats));
    TG_TRY(warm_up(b, axpy, b, &yard));
    for (int64_t begin = wall(); !over(b, ns.count, begin); ns.count++) {
        double before, own, after;
        TG_TRY(sample(axpy, b, yard, &before));
        TG_TRY(sample(fn, arg, repeats, &own));
        TG_TRY(sample(copy, b, yard, &after));
        ns.x[ns.count] = own;
        over_axpy.x[over_axpy.count++] = own / before;
        over_copy.x[over_copy.count++] = own / after;
    }
    row->samples = ns.count;
    row->ns = summary(&ns).median;
    row->ns_each = row->ns / (double)b->n;
    row->axpy = summary(&over_axpy);
    row->copy = summary(&over_copy);
    return TG_OK;
}

tg_status bench_time(bench *b, bench_fn *fn, void *arg, double *ns_p)
{
    samples ns = {.count = 0};
    size_t repeats;
    TG_TRY(warm_up(b, fn, arg, &repeats));
    for (int64_t begin = wall(); !over(b, ns.count, begin); ns.count++)
        TG_TRY(sample(fn, arg, repeats, &ns.x[ns.count]));
    *ns_p = summary(&ns).median;
    return TG_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

bench_row bench_row_of(const bench *b, const char *group, const char *name)
{
    const double none = (double)NAN;
    const bench_ratio no_ratio = {none, none, none};
    return (bench_row){.group = group,
                       .name = name,
                       .level = tg_cpu_level(),
                       .n = b->n,
                       .threads = b->o->threads,
                       .ns = none,
                       .ns_each = none,
                       .axpy = no_ratio,
                       .copy = no_ratio,
                       .limit = none,
                       .gb_s = none,
                       .bits = none,
                       .error_norm = none,
                       .entropy = none,
                       .index_ns = {none, none, none},
                       .target = {none, none}};
}

void bench_row_bytes(bench_row *row, double bytes)
{
    row->limit = bytes / (12.0 * (double)row->n);
    row->gb_s = bytes / row->ns;
}

bool bench_matches(const char *filter, const char *group, const char *name)
{
    return !filter || strstr(name, filter) || strcmp(group, filter) == 0;
}

bool bench_wanted(const bench *b, const char *group, const char *name)
{
    if (!bench_matches(b->o->filter, group, name))
        return false;
    if (b->o->begin)
        b->o->begin(b->o->arg, b->n, name);
    return true;
}

tg_status bench_report(bench *b, bench_row *row, tg_status status)
{
    char text[1024];
    if (status != TG_OK) {
        snprintf(text, sizeof text, "%s", tg_error());
        row->error = text;
        b->failed++;
    }
    return b->o->row(b->o->arg, row);
}

/* Index codings: nanoseconds per index, and the size compared with the entropy. */
#include "base/mem.h"
#include "bench/rows/bench_impl.h"
#include "wire/index.h"
#include "telegrad/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Names by number of the coding; a new coding needs a name here. */
static const char *const names[] = {"raw", "bitmap", "rice", "ef"};
_Static_assert(TG__INDEX_CODINGS <= TG_COUNT(names), "a coding has no name");

static const double densities[] = {0.0001, 0.001, 0.01, 0.1};

enum { BLOCK = 512 };

typedef struct indices {
    bench *b;
    int coding, param;
    size_t k, len, cap;
    uint32_t *idx;
    float *val;
    uint8_t *code;
} indices;

/* Draw a random set of at least one index: the gaps have a geometric distribution. */
static void draw(indices *x, double density)
{
    const tg_rng_key key = {.seed = 1, .purpose = TG_PURPOSE_TEST};
    double at = -1, scale = 1 / log1p(-density);
    for (uint64_t i = 0; x->k < x->cap; i++) {
        at += 1 + floor(log(1 - tg_rng_uniform(&key, i)) * scale);
        if (at >= (double)x->b->n && x->k > 0)
            return;
        if (at >= (double)x->b->n)
            at = floor((double)x->b->n / 2);
        x->idx[x->k] = (uint32_t)at;
        x->val[x->k++] = 1e-3f;
    }
}

static tg_status indices_open(indices *x, bench *b, int coding, double density)
{
    *x = (indices){.b = b, .coding = coding};
    x->cap = TG__MIN(b->n, (size_t)(1.2 * density * (double)b->n) + 64);
    TG_TRY(tg_alloc(x->cap, sizeof *x->idx, &x->idx));
    TG_TRY(tg_alloc(x->cap, sizeof *x->val, &x->val));
    draw(x, density);
    return tg_alloc(tg__index_choose(coding, x->idx, x->k, b->n).len, 1, &x->code);
}

static void indices_close(indices *x)
{
    free(x->idx);
    free(x->val);
    free(x->code);
}

static tg_status encode(void *arg, int64_t *ns_p)
{
    indices *x = arg;
    int64_t begin = bench_now(x->b);
    const tg__index_plan plan = tg__index_choose(x->coding, x->idx, x->k, x->b->n);
    tg__index_write(&plan, x->idx, x->k, x->b->n, x->code);
    x->param = plan.param;
    x->len = plan.len;
    *ns_p += bench_now(x->b) - begin;
    return TG_OK;
}

static tg_status read_all(indices *x, bool add, int64_t *ns_p)
{
    tg__index_reader r;
    uint32_t idx[BLOCK];
    size_t count, done = 0;
    int64_t begin = bench_now(x->b);
    TG_TRY(tg__index_read_begin(&r, x->coding, x->param, x->b->n, x->k, x->code, x->len));
    do {
        TG_TRY(tg__index_read(&r, idx, BLOCK, &count));
        if (add)
            tg__kernel()->scatter_add(x->b->out, idx, x->val + done, count);
        done += count;
    } while (count > 0);
    *ns_p += bench_now(x->b) - begin;
    return done == x->k ? TG_OK : tg_fail(TG_E_CORRUPT, "%zu of %zu indices came back", done, x->k);
}

static tg_status decode(void *arg, int64_t *ns_p)
{
    return read_all(arg, false, ns_p);
}

static tg_status decode_and_add(void *arg, int64_t *ns_p)
{
    return read_all(arg, true, ns_p);
}

/* log2 of n choose k, in bytes */
static double entropy_bytes(double n, double k)
{
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2) / 8;
}

static tg_status measure(indices *x, bench_row *row)
{
    static bench_fn *const works[] = {encode, decode, decode_and_add};
    const double k = (double)x->k;
    for (size_t i = 0; i < TG_COUNT(works); i++) {
        TG_TRY(bench_time(x->b, works[i], x, &row->index_ns[i]));
        row->index_ns[i] /= k;
    }
    row->bits = 8 * (double)x->len / k;
    row->entropy = (double)x->len / entropy_bytes((double)x->b->n, k);
    return TG_OK;
}

static void print_name(char name[64], int coding, double density)
{
    snprintf(name, 64, "%s %g %%", names[coding], 100 * density);
}

bool bench_any_index(const char *filter)
{
    char name[64];
    for (int coding = 0; coding < TG__INDEX_CODINGS; coding++)
        for (size_t d = 0; d < TG_COUNT(densities); d++) {
            print_name(name, coding, densities[d]);
            if (bench_matches(filter, "index", name))
                return true;
        }
    return false;
}

static tg_status index_row(bench *b, int coding, double density)
{
    char name[64];
    indices x;
    print_name(name, coding, density);
    if (!bench_wanted(b, "index", name))
        return TG_OK;
    bench_row row = bench_row_of(b, "index", name);
    tg_status status = indices_open(&x, b, coding, density);
    if (status == TG_OK)
        status = measure(&x, &row);
    indices_close(&x);
    return bench_report(b, &row, status);
}

tg_status bench_indices(bench *b)
{
    for (int coding = 0; coding < TG__INDEX_CODINGS; coding++)
        for (size_t d = 0; d < TG_COUNT(densities); d++)
            TG_TRY(index_row(b, coding, densities[d]));
    return TG_OK;
}

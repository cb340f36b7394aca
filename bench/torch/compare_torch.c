/* PyTorch runs in a Python process of its own on the same core and waits while ours runs, so the
 * two sides alternate. It reads the vector from a file and gets one operation per line. */
#include "base/mem.h"
#include "bench/rows/bench_impl.h"
#include "bench/torch/torch_peer.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char bench_torch_script[]; /* torch_codec.py, embedded by cmake/bench.cmake */

static const struct pair {
    const char *name, *theirs, *method;
    bool cycle; /* true: the whole step of one rank; false: encoding alone */
} pairs[] = {
    {"top-k 0.1 %", "topk", NULL, false}, /* a codec alone */
    {"DGC 0.1 %", "dgc", "dgc:density=0.001,warmup=0", false},
    {"signs packed", "sign", "signsgd", false},
    {"fp16", "fp16", "fp16:feedback=none", false},
    {"8-bit stochastic", "q8", "qsgd:bits=8,feedback=none", false},
    {"1-bit + residual", "onebit", "1bit", false},
    {"PowerSGD cycle, rank 4", "powersgd", "powersgd:rank=4", true},
};
#define TOPK "topk:density=0.001"

/* ---- the other process ----------------------------------------------------------------------- */

typedef struct peer {
    torch_peer torch;
    char file[64]; /* file of the vector; "": none */
} peer;

static tg_status write_vector(peer *p, const float *x, size_t n)
{
    const char *dir = getenv("TMPDIR");
    char path[sizeof p->file];
    int len = snprintf(path, sizeof path, "%s/telegrad-bench-XXXXXX", dir && *dir ? dir : "/tmp");
    if (len < 0 || (size_t)len >= sizeof path)
        return tg_fail(TG_E_IO, "TMPDIR=%s: the name is too long", dir);
    int fd = mkstemp(path);
    if (fd < 0)
        return tg_fail(TG_E_IO, "cannot make %s: %s", path, strerror(errno));
    memcpy(p->file, path, sizeof path);
    FILE *file = fdopen(fd, "wb");
    bool good = file && fwrite(x, sizeof *x, n, file) == n;
    int error = errno;
    if (file ? fclose(file) != 0 : close(fd) != 0)
        good = false;
    return good ? TG_OK : tg_fail(TG_E_IO, "cannot write %s: %s", path, strerror(error));
}

static tg_status start(peer *p, const bench *b, const char *python)
{
    char n[32], seconds[32];
    TG_TRY(write_vector(p, b->g[0], b->n));
    snprintf(n, sizeof n, "%zu", b->n);
    snprintf(seconds, sizeof seconds, "%g", b->o->seconds);
    return torch_peer_open(&p->torch, python,
                           (const char *[]){bench_torch_script, p->file, n, seconds, NULL});
}

static void stop(peer *p)
{
    torch_peer_close(&p->torch);
    if (p->file[0])
        unlink(p->file);
}

static tg_status ask(peer *p, const char *operation, double *ms_p, double *copy_ms_p)
{
    char line[256];
    TG_TRY(torch_peer_ask(&p->torch, operation, line, sizeof line));
    if (sscanf(line, "%lf %lf", ms_p, copy_ms_p) != 2)
        return tg_fail(TG_E_STATE, "PyTorch failed in \"%s\"", operation);
    return TG_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static tg_status measure_ours(bench *b, const struct pair *pair, bench_row *row)
{
    tg_status status;
    if (pair->method) {
        work_method w;
        row->missing = !work_method_exists(pair->method);
        status = work_method_open(&w, b, pair->method);
        if (status == TG_OK)
            status =
                bench_measure(b, pair->cycle ? work_method_cycle : work_method_encode, &w, row);
        work_method_close(&w);
    } else {
        work_codec w;
        status = work_codec_open(&w, b, TOPK);
        if (status == TG_OK)
            status = bench_measure(b, work_codec_encode, &w, row);
        work_codec_close(&w);
    }
    return status;
}

static tg_status compare(bench *b, peer *p, const struct pair *pair,
                         tg_status (*report)(void *arg, const bench_comparison *row))
{
    const double none = (double)NAN;
    char text[1024];
    if (!bench_wanted(b, "torch", pair->name))
        return TG_OK;
    bench_row row = bench_row_of(b, "torch", pair->name);
    bench_comparison out = {pair->name, row.level, NULL, false, b->n, none, none, none, none, none};
    if (measure_ours(b, pair, &row) == TG_OK) {
        out.ours_ms = row.ns / 1e6;
        out.ours_copy_ms = out.ours_ms / row.copy.median;
    } else {
        snprintf(text, sizeof text, "%s", tg_error());
        out.error = text;
        out.missing = row.missing;
    }
    TG_TRY(ask(p, pair->theirs, &out.theirs_ms, &out.theirs_copy_ms));
    out.factor = out.theirs_ms / out.ours_ms;
    return report(b->o->arg, &out);
}

static tg_status one_size(bench *b, const char *python,
                          tg_status (*report)(void *arg, const bench_comparison *row))
{
    peer p = {.torch = {.fd = -1}};
    tg_status status = start(&p, b, python);
    for (size_t i = 0; i < TG_COUNT(pairs) && status == TG_OK; i++)
        status = compare(b, &p, &pairs[i], report);
    stop(&p);
    return status;
}

tg_status bench_compare_torch(const bench_options *o, const char *python,
                              tg_status (*row)(void *arg, const bench_comparison *row))
{
    TG_TRY(bench_prepare(o));
    for (size_t i = 0; i < o->count; i++) {
        bench b;
        TG_TRY(bench_open(&b, o, o->n[i]));
        tg_status status = one_size(&b, python, row);
        bench_close(&b);
        TG_TRY(status);
    }
    return TG_OK;
}

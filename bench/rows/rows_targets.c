/* The rows of the project's table of targets (docs/results/codecs.md). */
#include "base/mem.h"
#include "bench/rows/bench_impl.h"
#include "wire/index.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DENSITY 0.001

enum kind { SELECT, THRESHOLD, CODEC, ENCODE, DECODE, CYCLE };

static const struct target {
    const char *name;
    enum kind kind;
    const char *spec;          /* of a codec for CODEC; of a method for ENCODE, DECODE, CYCLE */
    double avx512[2], avx2[2]; /* targets, as ratios to axpy and memcpy */
} targets[] = {
    {"threshold + compact", SELECT, "", {0.45, 0.40}, {0.55, 0.50}},
    {"exact top 0.1 %",
     CODEC,
     "topk:density=0.001,values=fp16,index=rice",
     {0.60, 0.50},
     {0.60, 0.50}},
    {"residual, threshold, Rice + fp16", THRESHOLD, "", {1.10, 0.85}, {1.10, 0.85}},
    {"residual, exact 0.1 %, Rice + fp16",
     ENCODE,
     "topk:density=0.001,warmup=0,values=fp16,index=rice",
     {1.20, 1.00},
     {1.20, 1.00}},
    {"DGC 0.1 %, Rice + fp16",
     ENCODE,
     "dgc:density=0.001,warmup=0,values=fp16,index=rice",
     {1.70, 1.35},
     {1.70, 1.35}},
    {"2-bit + residual", ENCODE, "2bit:threshold=0.5", {1.15, 0.85}, {1.15, 0.85}},
    {"1-bit + residual", ENCODE, "1bit", {1.30, 0.95}, {1.30, 0.95}},
    {"QSGD 4-bit", ENCODE, "qsgd:bits=4,feedback=none", {0.85, 0.60}, {0.85, 0.60}},
    {"QSGD 4-bit + residual", ENCODE, "qsgd:bits=4,feedback=residual", {1.40, 1.00}, {1.40, 1.00}},
    {"decode 4-bit + add", DECODE, "qsgd:bits=4,feedback=none", {0.65, 0.50}, {0.65, 0.50}},
    {"fp16", ENCODE, "fp16:feedback=none", {0.75, 0.60}, {0.75, 0.60}},
    {"bf16", ENCODE, "bf16:feedback=none", {0.75, 0.60}, {0.75, 0.60}},
    {"int8", ENCODE, "int8:feedback=none", {0.75, 0.60}, {0.75, 0.60}},
    {"PowerSGD cycle, rank 1", CYCLE, "powersgd:rank=1", {NAN, 1.75}, {NAN, 1.75}},
    {"PowerSGD cycle, rank 2", CYCLE, "powersgd:rank=2", {NAN, 2.0}, {NAN, 2.0}},
    {"PowerSGD cycle, rank 4", CYCLE, "powersgd:rank=4", {NAN, 2.35}, {NAN, 2.35}},
};

/* ---- kernels with a fixed threshold ---------------------------------------------------------- */

typedef struct selection {
    bench *b;
    float *r; /* (n) residual */
    float threshold;
    size_t k, cap, kept, len;
    unsigned turn;
    uint32_t *idx;
    float *val;
    uint16_t *half;
    uint8_t *code;
} selection;

static tg_status selection_open(selection *s, bench *b)
{
    *s = (selection){.b = b, .k = (size_t)(DENSITY * (double)b->n) + 1};
    s->cap = 4 * s->k;
    TG_TRY(tg_alloc(b->n, sizeof *s->r, &s->r));
    TG_TRY(tg_alloc(s->cap + TG__SELECT_SLACK, sizeof *s->idx, &s->idx));
    TG_TRY(tg_alloc(s->cap + TG__SELECT_SLACK, sizeof *s->val, &s->val));
    TG_TRY(tg_alloc(s->cap, sizeof *s->half, &s->half));
    TG_TRY(tg_alloc(s->cap + 1, sizeof(uint32_t), &s->code)); /* Rice is not longer than raw */
    s->threshold = bench_threshold(b, b->g[0], DENSITY);
    return TG_OK;
}

static void selection_close(selection *s)
{
    free(s->r);
    free(s->idx);
    free(s->val);
    free(s->half);
    free(s->code);
}

static tg_status select_only(void *arg, int64_t *ns_p)
{
    selection *s = arg;
    int64_t begin = bench_now(s->b);
    s->kept = tg__kernel()->select(s->b->g[0], s->b->n, s->threshold, s->idx, s->val, s->cap);
    *ns_p += bench_now(s->b) - begin;
    return TG_OK;
}

/* r += g; send the elements that reach the threshold; subtract them from r. The threshold adapts to
 * the density. */
static tg_status select_and_send(void *arg, int64_t *ns_p)
{
    selection *s = arg;
    bench *b = s->b;
    const tg__kernels *k = tg__kernel();
    int64_t begin = bench_now(b);
    size_t found =
        k->add_select(s->r, b->g[s->turn++ % 2], b->n, 0, s->threshold, s->idx, s->val, s->cap);
    s->kept = TG__MIN(found, s->cap);
    k->f16_encode(s->half, s->val, s->kept);
    k->f16_decode(s->val, s->half, s->kept);
    const tg__index_plan plan = tg__index_choose(TG__INDEX_RICE, s->idx, s->kept, b->n);
    tg__index_write(&plan, s->idx, s->kept, b->n, s->code);
    s->len = plan.len;
    for (size_t i = 0; i < s->kept; i++)
        s->r[s->idx[i]] -= s->val[i];
    *ns_p += bench_now(s->b) - begin;
    double off = TG__MAX(0.25, TG__MIN(4, (double)found / (double)s->k)); /* tails are steep */
    s->threshold *= (float)pow(off, 1.0 / 12);
    return TG_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static tg_status measure_selection(bench *b, enum kind kind, bench_row *row)
{
    selection s;
    tg_status status = selection_open(&s, b);
    if (status == TG_OK)
        status = bench_measure(b, kind == SELECT ? select_only : select_and_send, &s, row);
    if (status == TG_OK)
        bench_row_bytes(row, (kind == SELECT ? 4.0 : 12.0) * (double)b->n);
    if (status == TG_OK && kind == THRESHOLD)
        row->bits = 8 * (double)(s.len + 2 * s.kept) / (double)b->n;
    selection_close(&s);
    return status;
}

static tg_status measure_codec(bench *b, const char *spec, bench_row *row)
{
    work_codec w;
    tg_status status = work_codec_open(&w, b, spec);
    if (status == TG_OK)
        status = bench_measure(b, work_codec_encode, &w, row);
    if (status == TG_OK)
        bench_row_bytes(row, 4 * (double)b->n + (double)w.part.len);
    row->bits = w.bits;
    row->error_norm = w.error_norm;
    work_codec_close(&w);
    return status;
}

static tg_status measure_method(bench *b, enum kind kind, const char *spec, bench_row *row)
{
    work_method w;
    bench_fn *run = kind == CYCLE    ? work_method_cycle
                    : kind == DECODE ? work_method_decode
                                     : work_method_encode;
    tg_status status = work_method_open(&w, b, spec);
    if (status == TG_OK)
        status = bench_measure(b, run, &w, row);
    if (status == TG_OK && kind == CYCLE) /* state read, written and read again; the aggregate */
        bench_row_bytes(row, work_method_encode_bytes(&w) + 8 * (double)b->n);
    else if (status == TG_OK)
        bench_row_bytes(row, kind == DECODE ? work_method_decode_bytes(&w)
                                            : work_method_encode_bytes(&w));
    row->bits = w.bits;
    row->error_norm = w.error_norm;
    work_method_close(&w);
    return status;
}

static tg_status measure_target(bench *b, const struct target *t, bench_row *row)
{
    switch (t->kind) {
    case SELECT:
    case THRESHOLD:
        return measure_selection(b, t->kind, row);
    case CODEC:
        row->missing = !work_codec_exists(t->spec);
        return measure_codec(b, t->spec, row);
    case ENCODE:
    case DECODE:
    case CYCLE:
        break;
    }
    row->missing = !work_method_exists(t->spec);
    return measure_method(b, t->kind, t->spec, row);
}

bool bench_any_target(const char *filter)
{
    size_t i = 0;
    while (i < TG_COUNT(targets) && !bench_matches(filter, "target", targets[i].name))
        i++;
    return i < TG_COUNT(targets);
}

tg_status bench_targets(bench *b)
{
    for (size_t i = 0; i < TG_COUNT(targets); i++) {
        const struct target *t = &targets[i];
        if (!bench_wanted(b, "target", t->name))
            continue;
        bench_row row = bench_row_of(b, "target", t->name);
        if (strcmp(row.level, "ref") != 0)
            memcpy(row.target, strcmp(row.level, "avx2") == 0 ? t->avx2 : t->avx512,
                   sizeof row.target);
        TG_TRY(bench_report(b, &row, measure_target(b, t, &row)));
    }
    return TG_OK;
}

/* 2-bit quantisation:
 *
 *     decoded = +threshold if x >= threshold, -threshold if x <= -threshold, else 0
 *
 * with one threshold for the vector, or an adaptive one for each segment (threshold_auto.h). The
 * feedback remembers what is not sent.
 *
 * With lookahead=A, x + A * g is compared with the threshold in place of x, where g is the gradient
 * that was added last: see codec_topk.c. decoded and x may then differ in sign.
 *
 * Payload  one threshold (aux 0)   the threshold (f32), then the bit planes of kernel.h
 *          several runs (aux 1)    their count (u32, at least 2); for each run its end (u32) and
 *                                  its threshold (f32); then the planes of all runs in order
 * Source   MXNet, kvstore gradient compression type 2bit (threshold 0.5 by default). MXNet's bytes
 *          are laid out differently (telegrad/compat.h), and its gradients are sums over the
 *          batch */
#include "base/mem.h"
#include "codec/quant/ternary.h"
#include "codec/lookahead.h"
#include "kernel/kernel.h"
#include "telegrad/spec.h"
#include <math.h>
#include <string.h>

enum { AUX_RUNS = 1, AT_PLANES = 4, AT_RUNS = 4, RUN_BYTES = 8 };

typedef struct twobit {
    tg__thresholds thresholds; /* first member */
    uint8_t *planes;           /* planes of a frame that will be dense */
} twobit;

/* Short runs make long frames; at worst the frame is dense. */
static size_t bound(const tg_codec *c, size_t n)
{
    size_t coded = AT_PLANES + tg__twobit_bytes(n), dense = n * sizeof(float);
    return TG__FRAME_HEAD + (tg__thresholds_memory(c) > 0 || coded >= dense ? dense : coded);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The composition of a part's frame. */
typedef struct plan {
    /* number of runs; bytes of the planes; their offset in the payload */
    size_t runs, planes, at_planes;
    bool dense;
} plan;

static plan plan_of(const tg_encode_context *ctx, const tg__part *part)
{
    plan p = {0};
    for (tg__run r = tg__run_first(ctx, part); r.lo < part->hi; r = tg__run_next(&r)) {
        p.runs++;
        p.planes += tg__twobit_bytes(r.hi - r.lo);
    }
    p.at_planes = p.runs > 1 ? AT_RUNS + RUN_BYTES * p.runs : AT_PLANES;
    p.dense = p.at_planes + p.planes >= (part->hi - part->lo) * sizeof(float);
    return p;
}

/* Check room in the frames and allocate memory, so that write_parts cannot fail. */
static tg_status reserve(tg_codec *c, const tg_encode_context *ctx, const tg__part *parts,
                         size_t nparts)
{
    twobit *own = c->impl;
    ctx = tg__thresholds_runs(&own->thresholds, ctx);
    for (size_t i = 0; i < nparts; i++) {
        plan p = plan_of(ctx, &parts[i]);
        TG_TRY(tg__part_room(&parts[i], bound(c, parts[i].hi - parts[i].lo)));
        if (p.dense)
            TG_TRY(tg__scratch(c, &own->planes, p.planes, 1));
    }
    return tg__thresholds_reserve(c, ctx);
}

static void put_thresholds(const twobit *own, const tg_encode_context *ctx, const tg__part *part,
                           const plan *p)
{
    uint8_t *at = part->dst + TG__FRAME_HEAD;
    if (p->runs > 1) {
        tg__put32(at, (uint32_t)p->runs);
        at += AT_RUNS;
    }
    for (tg__run r = tg__run_first(ctx, part); r.lo < part->hi; r = tg__run_next(&r)) {
        if (p->runs > 1) {
            tg__put32(at, (uint32_t)(r.hi - part->lo));
            at += 4;
        }
        tg__floats_put(at, &own->thresholds.now[r.segment], 1);
        at += 4;
    }
}

static void write_dense(const twobit *own, const tg_encode_context *ctx, tg__part *part,
                        const uint8_t *planes)
{
    float block[1024];
    uint8_t *payload = part->dst + TG__FRAME_HEAD;
    for (tg__run r = tg__run_first(ctx, part); r.lo < part->hi; r = tg__run_next(&r))
        for (size_t lo = r.lo, m; lo < r.hi; lo += m, planes += tg__twobit_bytes(m)) {
            m = TG__MIN(r.hi - lo, TG_COUNT(block));
            tg__kernel()->twobit_decode(block, planes, m, own->thresholds.now[r.segment]);
            tg__floats_put(payload + (lo - part->lo) * sizeof(float), block, m);
        }
    tg__part_dense_placed(part, TG__ID_twobit);
}

static void write_part(tg_codec *c, const tg_encode_context *ctx, const tg__ternary *source,
                       tg__part *part)
{
    twobit *own = c->impl;
    plan p = plan_of(ctx, part);
    size_t sent = 0;
    uint8_t *planes = p.dense ? own->planes : part->dst + TG__FRAME_HEAD + p.at_planes,
            *at = planes;
    for (tg__run r = tg__run_first(ctx, part); r.lo < part->hi; r = tg__run_next(&r)) {
        size_t count =
            tg__ternary_run(source, c->pool, r.lo, r.hi, own->thresholds.now[r.segment], at);
        own->thresholds.sent[r.segment] += count;
        sent += count;
        at += tg__twobit_bytes(r.hi - r.lo);
    }
    if (sent == 0) {
        tg__part_zero(part, TG__ID_twobit);
    } else if (p.dense) {
        write_dense(own, ctx, part, planes);
    } else {
        put_thresholds(own, ctx, part, &p);
        tg__part_coded(part, TG__ID_twobit, p.runs > 1 ? AUX_RUNS : 0, p.at_planes + p.planes);
    }
    part->kept = sent;
}

/* Write the frames of source. x (n) is the vector for estimates; afterwards it holds the vector
 * itself or what the frames leave of it. */
static void write_parts(tg_codec *c, const tg_encode_context *ctx, const tg__ternary *source,
                        const float *x, size_t n, tg__part *parts, size_t nparts)
{
    twobit *own = c->impl;
    ctx = tg__thresholds_runs(&own->thresholds, ctx);
    tg__thresholds_begin(&own->thresholds, ctx, x, n);
    for (size_t i = 0; i < nparts; i++)
        write_part(c, ctx, source, &parts[i]);
    tg__thresholds_end(&own->thresholds, ctx, x, source->g, n, source->leaves);
}

static tg_status encode(tg_codec *c, const tg_encode_context *ctx, const float *x, size_t n,
                        tg__part *parts, size_t nparts, tg__view *view_p)
{
    if (view_p)
        TG_TRY(tg__scratch(c, &c->decoded, n, sizeof(float)));
    TG_TRY(reserve(c, ctx, parts, nparts));
    const tg__ternary source = tg__ternary_of(c, ctx, x, view_p ? c->decoded : NULL);
    write_parts(c, ctx, &source, x, n, parts, nparts);
    if (view_p)
        *view_p = (tg__view){.dense = c->decoded, .k = n};
    return TG_OK;
}

static tg_status settle(tg_codec *c, const tg_encode_context *ctx, float *r, const float *g,
                        size_t n, tg__part *parts, size_t nparts)
{
    atomic_bool spoilt = false;
    TG_TRY(reserve(c, ctx, parts, nparts));
    const tg__ternary source = tg__ternary_settle(c, ctx, r, g, n, &spoilt);
    write_parts(c, ctx, &source, r, n, parts, nparts);
    return spoilt ? tg__encode_spoilt(c) : TG_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads the runs of a coded frame in sequence. */
typedef struct reader {
    const uint8_t *entry, *planes; /* of the next run */
    size_t left;                   /* runs not read yet */
    bool several;
    size_t lo, hi; /* of the current run */
    float threshold;
    const uint8_t *bits;
} reader;

static reader read_runs(const tg__frame *f)
{
    reader r = {.left = 1, .entry = f->payload, .planes = f->payload + AT_PLANES};
    if (f->aux & AUX_RUNS) {
        r.several = true;
        r.left = tg__get32(f->payload);
        r.entry = f->payload + AT_RUNS;
        r.planes = r.entry + RUN_BYTES * r.left;
    }
    return r;
}

static bool next_run(reader *r, size_t n)
{
    if (r->left == 0)
        return false;
    r->left--;
    r->lo = r->hi;
    r->hi = r->several ? tg__get32(r->entry) : n;
    r->entry += r->several ? 4 : 0;
    tg__floats_get(&r->threshold, r->entry, 1);
    r->entry += 4;
    r->bits = r->planes;
    r->planes += tg__twobit_bytes(r->hi - r->lo);
    return true;
}

/* Check the table of runs: ends must ascend to n, thresholds must be numbers. *planes_p: bytes of
 * planes. */
static tg_status check_runs(const tg__frame *f, size_t *planes_p)
{
    size_t at = 0, planes = 0, count;
    if (f->payload_len < AT_RUNS)
        return tg_fail(TG_E_CORRUPT, "2bit frame: payload length=%zu: must be at least %d",
                       f->payload_len, AT_RUNS);
    count = tg__get32(f->payload);
    if (count < 2 || count > f->n || f->payload_len < AT_RUNS + RUN_BYTES * count)
        return tg_fail(TG_E_CORRUPT,
                       "2bit frame: %zu runs of n=%u in %zu bytes: at least 2, each "
                       "with an element and %d bytes",
                       count, f->n, f->payload_len, RUN_BYTES);
    for (size_t i = 0; i < count; i++) {
        size_t end = tg__get32(f->payload + AT_RUNS + RUN_BYTES * i);
        if (end <= at || end > f->n || (i + 1 == count && end != f->n))
            return tg_fail(TG_E_CORRUPT,
                           "2bit frame: run %zu ends at %zu: ends must ascend to n, which is %u", i,
                           end, f->n);
        planes += tg__twobit_bytes(end - at);
        at = end;
    }
    *planes_p = planes;
    return TG_OK;
}

static tg_status check(const tg__frame *f)
{
    size_t planes = tg__twobit_bytes(f->n), at_planes = AT_PLANES;
    if (f->aux & ~AUX_RUNS)
        return tg_fail(TG_E_CORRUPT, "2bit frame: aux=%#x: must be 0 or 1", f->aux);
    if (f->aux & AUX_RUNS) {
        TG_TRY(check_runs(f, &planes));
        at_planes = AT_RUNS + RUN_BYTES * (size_t)tg__get32(f->payload);
    }
    if (f->payload_len != at_planes + planes)
        return tg_fail(TG_E_CORRUPT, "2bit frame: payload length=%zu: must be %zu for n=%u",
                       f->payload_len, at_planes + planes, f->n);
    reader r = read_runs(f);
    while (next_run(&r, f->n)) {
        if (!(r.threshold > 0) || !isfinite(r.threshold))
            return tg_fail(TG_E_CORRUPT, "2bit frame: threshold=%g: must be > 0 and finite",
                           (double)r.threshold);
        if (!tg__kernel()->twobit_valid(r.bits, r.hi - r.lo))
            return tg_fail(TG_E_CORRUPT,
                           "2bit frame: a bit is set in both planes or in the padding");
    }
    return TG_OK;
}

/* Decode elements [lo, hi) of a run of m, all within one block of 64, via a buffer. */
static void decode_piece(const reader *r, size_t m, size_t lo, size_t hi, float *dst, bool add)
{
    float block[64] = {0};
    size_t begin = lo / 64 * 64;
    if (add)
        memcpy(block + (lo - begin), dst + lo, (hi - lo) * sizeof(float));
    tg__kernel()->twobit_decode_add(block, r->bits + tg__twobit_bytes(begin),
                                    TG__MIN(m - begin, (size_t)64), r->threshold);
    memcpy(dst + lo, block + (lo - begin), (hi - lo) * sizeof(float));
}

/* Decode elements [lo, hi) of a run of m; dst is its element 0. A range may begin and end within a
 * block. */
static void decode_run(const reader *r, size_t m, size_t lo, size_t hi, float *dst, bool add)
{
    const tg__kernels *k = tg__kernel();
    size_t from = TG__MIN((lo + 63) / 64 * 64, hi), to = hi == m ? hi : hi / 64 * 64;
    if (lo < from)
        decode_piece(r, m, lo, from, dst, add);
    if (from < to)
        (add ? k->twobit_decode_add : k->twobit_decode)(
            dst + from, r->bits + tg__twobit_bytes(from), to - from, r->threshold);
    if (TG__MAX(from, to) < hi)
        decode_piece(r, m, TG__MAX(from, to), hi, dst, add);
}

static void decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    reader r = read_runs(f);
    while (next_run(&r, f->n)) {
        size_t from = TG__MAX(lo, r.lo), to = TG__MIN(hi, r.hi);
        if (from < to)
            decode_run(&r, r.hi - r.lo, from - r.lo, to - r.lo, dst + r.lo, add);
    }
}

static const tg_key keys[] = {
    TG__KEY_THRESHOLD("0.5"),    TG__KEY_START,  TG__KEY_TARGET,
    TG__KEY_LOOKAHEAD_THRESHOLD, {.name = NULL},
};

static const char *const settings[] = {"threshold=0.01",
                                       "threshold=1",
                                       "threshold=auto",
                                       "threshold=auto,start=0.01",
                                       "threshold=auto,target=0.5",
                                       "threshold=auto,lookahead=0",
                                       "threshold=0.01,lookahead=3",
                                       NULL};

const tg__codec_ops tg__codec_twobit = {
    .entry = {"2bit", "three levels: -threshold, 0, threshold",
              "MXNet kvstore two-bit gradient compression", keys},
    .wire_id = TG__ID_twobit,
    .properties = TG__TO_ZERO,
    .promise = {.relative = 1, .settings = settings},
    .impl_bytes = sizeof(twobit),
    .init = tg__thresholds_init,
    .memory = tg__thresholds_memory,
    .bound = bound,
    .encode = encode,
    .settle = settle,
    .check = check,
    .decode = decode,
};

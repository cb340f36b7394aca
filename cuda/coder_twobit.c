/* 2bit on a GPU: see src/codec/quant/codec_twobit.c and threshold_auto.c, whose arithmetic on
 * thresholds is repeated here. All settings are supported. */
#include "cuda_impl.h"
#include "base/mem.h"
#include "line_table.h"
#include "telegrad/tools.h"
#include "twobit.h"
#include "wire/frame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ID = 5, AUX_RUNS = 1, AT_PLANES = 4, AT_RUNS = 4, RUN_BYTES = 8 };

/* As in threshold_auto.c. */
#define GAIN 0.2
#define FAST_STEPS 30.0
#define SLOWER 10.0
#define FACTOR 8.0
#define LATE 0.25
#define LATE_WEIGHT 64.0
#define SEEN_MOST 65536.0f
#define LEAST 1e-30f
#define MOST 1e30f
enum { BLOCK = 64, SAMPLES = 256, THRESHOLD = 0, SEEN = 1, FLOATS = 2 };

typedef struct twobit {
    bool adapt, residual, dense;
    float fixed, ahead;
    double start, target;
    tg__line *line;  /* (lines.count) */
    size_t *segment; /* (lines.count) the number of each line's segment */
    tg__lines lines;
    size_t planes, at_planes; /* bytes, and their offset in the payload */
    uint8_t *device_planes;
    /* In one block of device memory, which is copied to `host` after a pass. */
    size_t now, count, spoilt, bytes; /* offsets of (lines) thresholds, (lines) counts, a flag */
    char *device;
    tg__gpu_buffer host, given; /* pinned. given: thresholds, and the planes of a dense frame */
} twobit;

static size_t plane_bytes(size_t n)
{
    return n / BLOCK * 16 + (n % BLOCK + 7) / 8 * 2;
}

/* ---- creating -------------------------------------------------------------------------------- */

/* A fixed threshold needs no segments: the vector is one line. */
static tg_status make_lines(tg_coder *c, twobit *own)
{
    const tg_segment whole = {.n = c->setup.n, .rows = c->setup.n, .cols = 1};
    const tg_segment *s = own->adapt ? c->setup.segments : &whole;
    const size_t most = own->adapt ? c->setup.nsegments : 1;
    size_t count = 0;
    TG_TRY(tg_alloc(most, sizeof *own->line, &own->line));
    TG_TRY(tg_alloc(most, sizeof *own->segment, &own->segment));
    for (size_t i = 0; i < most; i++) {
        if (s[i].n == 0)
            continue;
        own->segment[count] = i;
        own->line[count++] = (tg__line){
            .begin = (uint32_t)s[i].begin, .n = (uint32_t)s[i].n, .at = (uint32_t)own->planes};
        own->planes += plane_bytes(s[i].n);
    }
    own->at_planes = count > 1 ? AT_RUNS + RUN_BYTES * count : AT_PLANES;
    own->dense = own->at_planes + own->planes >= c->setup.n * sizeof(float);
    return tg__lines_make(c->queue, own->line, count, &own->lines);
}

static tg_status make_buffers(tg_coder *c, twobit *own)
{
    const size_t count = own->lines.count;
    own->count = own->now + count * sizeof(float);
    own->spoilt = own->count + count * sizeof(tg__twobit_count);
    own->bytes = own->spoilt + sizeof(uint32_t);
    own->host.pinned = own->given.pinned = true;
    TG__GPU(cudaMalloc((void **)&own->device_planes, own->planes));
    TG__GPU(cudaMalloc((void **)&own->device, own->bytes));
    TG_TRY(tg__gpu_room(c->queue, &own->host, own->bytes));
    return tg__gpu_room(c->queue, &own->given,
                        TG__MAX(count * sizeof(float), own->dense ? own->planes : 0));
}

static tg_status init(tg_coder *c)
{
    twobit *own = c->impl;
    const tg_spec *spec = c->setup.spec;
    own->residual = strcmp(c->setup.feedback, "residual") == 0;
    if (!own->residual && strcmp(c->setup.feedback, "none") != 0)
        return tg_fail(TG_E_UNSUPPORTED, "codec 2bit with feedback=%s: not on a GPU",
                       c->setup.feedback);
    own->adapt = strcmp(tg_spec_word(spec, "threshold"), "auto") == 0;
    own->fixed = (float)tg_spec_real(spec, "threshold");
    own->ahead = own->residual ? (float)tg_spec_real(spec, "lookahead") : 0;
    own->start = tg_spec_real(spec, "start");
    own->target = tg_spec_real(spec, "target");
    TG_TRY(make_lines(c, own));
    return make_buffers(c, own);
}

static void fini(tg_coder *c)
{
    twobit *own = c->impl;
    tg__lines_free(&own->lines);
    tg__gpu_free(&own->host);
    tg__gpu_free(&own->given);
    if (own->device_planes != NULL)
        (void)cudaFree(own->device_planes);
    if (own->device != NULL)
        (void)cudaFree(own->device);
    free(own->line);
    free(own->segment);
}

/* ---- thresholds ------------------------------------------------------------------------------ */

static float rounded(float t)
{
    uint32_t bits;
    memcpy(&bits, &t, sizeof bits);
    bits &= 0xffff0000;
    memcpy(&t, &bits, sizeof t);
    return t;
}

static float bounded(double t)
{
    if (!(t > (double)LEAST))
        return LEAST;
    return t < (double)MOST ? (float)t : MOST;
}

static float *memory_of(const twobit *own, const tg_encode_context *ctx, size_t i)
{
    return ctx->memory == NULL ? NULL : ctx->memory + FLOATS * own->segment[i];
}

/* Send the thresholds that are known; true if others must be estimated, which are 0 so far. */
static bool choose(const twobit *own, const tg_encode_context *ctx, float *now)
{
    bool estimate = false;
    for (size_t i = 0; i < own->lines.count; i++) {
        const float *memory = memory_of(own, ctx, i);
        if (!own->adapt)
            now[i] = own->fixed;
        else if (memory != NULL && memory[THRESHOLD] != 0)
            now[i] = rounded(bounded((double)memory[THRESHOLD]));
        else
            now[i] = own->start > 0 ? rounded(bounded(own->start)) : 0;
        estimate = estimate || now[i] == 0;
    }
    return estimate;
}

/* The elements that are sampled in a line of n. */
static size_t sampled(size_t n)
{
    const size_t blocks = n / BLOCK, stride = blocks / SAMPLES + 1;
    const size_t whole = (blocks + stride - 1) / stride;
    return whole * BLOCK + (blocks % stride == 0 ? n % BLOCK : 0);
}

static void adapt(const twobit *own, float *memory, size_t n, float now, const tg__twobit_count *c)
{
    if (c->sent == 0 && c->nonzero == 0)
        return;
    double density = (double)c->sent / (double)n, excess = density / own->target - 1;
    if (c->sent > 0) {
        const double late = (double)c->late / (double)sampled(n) / density;
        excess = TG__MAX(excess, LATE_WEIGHT * (late - LATE));
    }
    double seen = (double)memory[SEEN], gain = GAIN;
    if (seen >= FAST_STEPS)
        gain *= TG__MAX(FAST_STEPS / seen, 1 / SLOWER);
    const double factor = 1 + gain * excess;
    const float last = memory[THRESHOLD] != 0 ? bounded((double)memory[THRESHOLD]) : now;
    memory[THRESHOLD] = bounded((double)last * TG__MIN(factor, FACTOR));
    memory[SEEN] += memory[SEEN] < SEEN_MOST;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static tg_status run_passes(tg_coder *c, const tg_encode_context *ctx, const float *g)
{
    twobit *own = c->impl;
    cudaStream_t stream = c->queue->stream;
    float *now = (float *)(void *)(own->device + own->now), *r = c->setup.vector[0];
    uint32_t *spoilt = (uint32_t *)(void *)(own->device + own->spoilt);
    const bool estimate = choose(own, ctx, own->given.data);
    TG__GPU(cudaMemcpyAsync(now, own->given.data, own->lines.count * sizeof *now,
                            cudaMemcpyHostToDevice, stream));
    TG__GPU(cudaMemsetAsync(own->device + own->count, 0, own->bytes - own->count, stream));
    tg__twobit_pass p = {.bad = c->bad,
                         .r = own->residual ? r : NULL,
                         .g = g,
                         .ahead = own->ahead,
                         .threshold = now,
                         .planes = own->device_planes,
                         .count = (tg__twobit_count *)(void *)(own->device + own->count),
                         .spoilt = spoilt};
    if (estimate) {
        const tg__line_pass sums = {.bad = c->bad,
                                    .x = own->residual ? r : (float *)(uintptr_t)g, /* only read */
                                    .g = own->residual ? g : NULL,
                                    .spoilt = spoilt};
        const tg__line_finish finish = {
            .bad = c->bad, .result = TG__LINE_THRESHOLD, .target = own->target, .value = now};
        TG__GPU(tg__line_sums(TG__LINE_SQUARES, &own->lines, &sums, stream));
        TG__GPU(tg__line_results(&own->lines, &finish, stream));
        p.added = own->residual;
    }
    TG__GPU(tg__twobit_encode(&own->lines, &p, stream));
    TG__GPU(
        cudaMemcpyAsync(own->host.data, own->device, own->bytes, cudaMemcpyDeviceToHost, stream));
    return TG_OK;
}

static void put_thresholds(const twobit *own, uint8_t *at, const float *now)
{
    const bool several = own->lines.count > 1;
    if (several) {
        tg__put32(at, own->lines.count);
        at += AT_RUNS;
    }
    for (size_t i = 0; i < own->lines.count; i++) {
        if (several) {
            tg__put32(at, own->line[i].begin + own->line[i].n);
            at += 4;
        }
        memcpy(at, &now[i], sizeof *now);
        at += sizeof *now;
    }
}

/* The values of the planes, for a frame so short that codes do not pay. */
static void put_dense(const twobit *own, uint8_t *to, const uint8_t *planes, const float *now)
{
    for (size_t i = 0; i < own->lines.count; i++)
        for (size_t j = 0; j < own->line[i].n; j++, to += sizeof *now) {
            const size_t left = own->line[i].n - j / BLOCK * BLOCK;
            const size_t size = left >= BLOCK ? 8 : (left + 7) / 8;
            const uint8_t *byte = planes + own->line[i].at + j / BLOCK * 16 + j % BLOCK / 8;
            const bool up = byte[0] >> j % 8 & 1, down = byte[size] >> j % 8 & 1;
            const float value = up ? now[i] : down ? -now[i] : 0;
            memcpy(to, &value, sizeof value);
        }
}

static void put_frame(tg_coder *c, uint8_t *frame, const float *now, size_t sent, tg_coded *coded)
{
    const twobit *own = c->impl;
    const size_t n = c->setup.n;
    uint8_t form = TG__FORM_CODED;
    size_t len = own->at_planes + own->planes;
    if (sent == 0) {
        form = TG__FORM_ZERO;
        len = 0;
    } else if (own->dense) {
        form = TG__FORM_DENSE;
        len = n * sizeof(float);
        put_dense(own, frame + TG__FRAME_HEAD, own->given.data, now);
    } else {
        put_thresholds(own, frame + TG__FRAME_HEAD, now);
    }
    const bool several = form == TG__FORM_CODED && own->lines.count > 1;
    tg__gpu_frame_head(frame, ID, form, several ? AUX_RUNS : 0, n, len);
    coded->len = TG__FRAME_HEAD + len;
    coded->kept = sent;
}

static tg_status encode(tg_coder *c, const tg_encode_context *ctx, const float *g, void *dst,
                        size_t dst_cap, tg_coded *coded)
{
    twobit *own = c->impl;
    uint8_t *frame = dst;
    (void)dst_cap;
    TG_TRY(run_passes(c, ctx, g));
    if (own->dense) /* `given` has been read by then */
        TG__GPU(cudaMemcpyAsync(own->given.data, own->device_planes, own->planes,
                                cudaMemcpyDeviceToHost, c->queue->stream));
    else
        TG_TRY(tg__gpu_copy_out(c->queue, frame + TG__FRAME_HEAD + own->at_planes,
                                own->device_planes, own->planes));
    TG_TRY(tg__gpu_finish(c->queue));
    const char *host = own->host.data;
    const float *now = (const float *)(const void *)(host + own->now);
    const tg__twobit_count *count = (const tg__twobit_count *)(const void *)(host + own->count);
    uint32_t spoilt;
    memcpy(&spoilt, host + own->spoilt, sizeof spoilt);
    if (spoilt)
        return tg_fail(TG_E_NONFINITE, "2bit: the vector holds infinity");
    size_t sent = 0;
    for (size_t i = 0; i < own->lines.count; i++) {
        sent += count[i].sent;
        if (own->adapt && ctx->memory != NULL)
            adapt(own, memory_of(own, ctx, i), own->line[i].n, now[i], &count[i]);
    }
    put_frame(c, frame, now, sent, coded);
    return TG_OK;
}

/* ---- decoding -------------------------------------------------------------------------------- */

static tg_status decode(tg_queue *q, const uint8_t *host, const uint8_t *frame, size_t len,
                        float *x, size_t n, bool first, bool last, float share, uint64_t *spoilt)
{
    const uint8_t *entry = host + TG__FRAME_HEAD;
    const bool several = tg__get16(host + 2) & AUX_RUNS;
    const size_t most = several ? (len - TG__FRAME_HEAD) / RUN_BYTES : 1;
    const size_t count = several ? TG__MIN((size_t)tg__get32(entry), most) : 1;
    size_t at = several ? AT_RUNS + RUN_BYTES * count : AT_PLANES, begin = 0;
    entry += several ? AT_RUNS : 0;
    tg__twobit_runs runs = {0};
    for (size_t i = 0; i < count; i++) {
        const size_t end = several ? tg__get32(entry) : n;
        tg__twobit_run *run = &runs.run[runs.count++];
        entry += several ? 4 : 0;
        *run = (tg__twobit_run){.begin = (uint32_t)begin, .at = (uint32_t)at};
        memcpy(&run->threshold, entry, sizeof run->threshold);
        entry += 4;
        at += end < begin ? 0 : plane_bytes(end - begin);
        if (end < begin || end > n || TG__FRAME_HEAD + at > len)
            return tg_fail(TG_E_CORRUPT, "a frame has changed since it was checked");
        begin = end;
        runs.end = (uint32_t)end;
        if (runs.count == TG__TWOBIT_RUNS || i + 1 == count) {
            TG__GPU(tg__twobit_decode(&runs, frame + TG__FRAME_HEAD, x, first, last, share, spoilt,
                                      q->stream));
            runs.count = 0;
        }
    }
    return TG_OK;
}

const tg__coder_ops tg__coder_2bit = {.codec = "2bit",
                                      .impl_bytes = sizeof(twobit),
                                      .init = init,
                                      .fini = fini,
                                      .encode = encode,
                                      .decode = decode};

/* Top-k on the GPU, with no feedback, a residual or DGC's velocity: the frames and the memory of
 * the host's src/codec/sparse/codec_topk.c and src/method/fused.c.
 *
 *   1. Threshold   As on the host: from the previous call, or from a sample.
 *   2. Pass        Forms r or v, and counts the candidates (topk_pass.cu).
 *   3. Collect     Reads again what has candidates.
 *   4. Select      Exactly, among the candidates (topk_select.cu).
 *   5. Write       Values, with the memory's update, and indices (sparse_values.cu, index.cu).
 *   6. Out         The frame goes to the host, with a report.
 *
 * All of it is put into the queue at once. If there were too few candidates, or more than there is
 * room for, the kernels after the pass do nothing, and the report says so. Then a histogram of the
 * vector, as it is now, gives the threshold that k elements reach, and 3 to 6 are done again. */
#include "base/mem.h"
#include "codec/lookahead.h"
#include "cuda_impl.h"
#include "index.h"
#include "telegrad/spec.h"
#include "topk_select.h"
#include "wire/frame.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIRE_ID = 4,
    SMALL = 8192, /* vectors up to this size are not sampled */
    SAMPLE_MIN = 4096,
    SAMPLE_MAX = 24576,
    ROOM = 65536 /* there is always room for this many candidates */
};
static const uint32_t infinity = UINT32_C(0x7f800000);

#define SLACK_START 0.03f
#define SLACK_MIN 0.002f
#define SLACK_MAX 0.3f

typedef struct topk {
    double density;
    int values, index;
    tg__topk_forms forms;
    float ahead;
    float threshold, slack; /* for the next call with k; 0: unknown */
    uint32_t k;
    tg__gpu_buffer state;  /* tg__topk_state */
    tg__gpu_buffer counts; /* of the pass */
    tg__gpu_buffer work;   /* candidates and what is made of them */
    tg__gpu_buffer scores; /* with lookahead (n), for the case that they have to be searched */
    tg__gpu_buffer report; /* pinned */
} topk;

/* What one call uses. */
typedef struct call {
    tg__topk_pass pass;
    tg__topk_choice choice;
    tg__sparse_frame frame;
    size_t frame_most; /* bytes, a multiple of 16 */
} call;

/* ---- settings -------------------------------------------------------------------------------- */

static int word_in(const char *const *words, int count, const char *word)
{
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

static tg_status init(tg_coder *c)
{
    static const char *const values[] = {"f32", "fp16", "int8", "4bit", "2bit", "1bit"};
    static const char *const indices[] = {"raw", "bitmap", "rice", "ef"};
    const tg_coder_setup *s = &c->setup;
    topk *own = c->impl;
    const size_t blocks = (s->n + TG__TOPK_BLOCK - 1) / TG__TOPK_BLOCK;
    own->density = tg_spec_real(s->spec, "density");
    own->values = word_in(values, 6, tg_spec_word(s->spec, "values"));
    own->index = word_in(indices, 4, tg_spec_word(s->spec, "index"));
    if (own->index < 0)
        own->index = TG__SPARSE_AUTO;
    if (own->values < 0 || strcmp(tg_spec_word(s->spec, "select"), "exact") != 0)
        return tg_fail(TG_E_UNSUPPORTED, "top-k on a GPU: select=exact only");
    if (s->nsegments > 1 && strcmp(tg_spec_word(s->spec, "scope"), "tensor") == 0)
        return tg_fail(TG_E_UNSUPPORTED, "top-k on a GPU: not by tensor");
    if (strcmp(s->feedback, "none") == 0)
        own->forms = TG__TOPK_NONE;
    else if (strcmp(s->feedback, "residual") == 0)
        own->forms = TG__TOPK_RESIDUAL;
    else if (strcmp(s->feedback, "velocity") == 0)
        own->forms = s->nesterov ? TG__TOPK_NESTEROV : TG__TOPK_VELOCITY;
    else
        return tg_fail(TG_E_UNSUPPORTED, "top-k on a GPU: not with feedback %s", s->feedback);
    own->ahead = own->forms != TG__TOPK_NONE ? tg__lookahead(s->spec) : 0;
    own->report.pinned = true;
    TG_TRY(tg__gpu_room(c->queue, &own->report, sizeof(tg__topk_report)));
    TG_TRY(tg__gpu_room(c->queue, &own->state, sizeof(tg__topk_state)));
    TG_TRY(tg__gpu_room(c->queue, &own->counts, blocks * (TG__TOPK_SEGMENTS + sizeof(uint32_t))));
    TG__GPU(cudaMemsetAsync(own->state.data, 0, sizeof(tg__topk_state), c->queue->stream));
    return TG_OK;
}

static void fini(tg_coder *c)
{
    topk *own = c->impl;
    tg__gpu_free(&own->state);
    tg__gpu_free(&own->counts);
    tg__gpu_free(&own->work);
    tg__gpu_free(&own->scores);
    tg__gpu_free(&own->report);
}

static uint32_t wanted(double density, size_t n)
{
    const double k = floor(density * (double)n + 0.5);
    return k < 1 ? 1 : k < (double)n ? (uint32_t)k : (uint32_t)n;
}

/* ---- a call ---------------------------------------------------------------------------------- */

/* A piece of a buffer, aligned to 256 bytes. */
static void *piece(uint8_t *base, size_t *at, size_t bytes)
{
    void *p = base ? base + *at : NULL;
    *at += (bytes + 255) / 256 * 256;
    return p;
}

/* Lay out the memory of a call from base; returns the bytes that it takes. */
static size_t lay_out(call *l, uint8_t *base)
{
    const size_t room = l->pass.room, k = l->pass.k, word = sizeof(uint32_t);
    const size_t chunks = (room + TG__SELECT_CHUNK - 1) / TG__SELECT_CHUNK;
    size_t at = 0;
    l->pass.idx = piece(base, &at, room * word);
    l->pass.val = piece(base, &at, room * word);
    l->choice.above = piece(base, &at, chunks * word);
    l->choice.equal = piece(base, &at, chunks * word);
    l->choice.kept_idx = piece(base, &at, k * word);
    l->choice.kept_val = piece(base, &at, k * word);
    l->frame.sums = piece(base, &at, (size_t)tg__sparse_blocks(k) * 32 * word);
    l->frame.frame = piece(base, &at, l->frame_most);
    l->choice.idx = l->pass.idx;
    l->choice.val = l->pass.val;
    l->choice.room = l->pass.room;
    l->frame.idx = l->choice.kept_idx;
    l->frame.val = l->choice.kept_val;
    return at;
}

static tg_status reserve(tg_coder *c, call *l, size_t room)
{
    topk *own = c->impl;
    l->pass.room = (uint32_t)room;
    TG_TRY(tg__gpu_room(c->queue, &own->work, lay_out(l, NULL)));
    (void)lay_out(l, own->work.data);
    return TG_OK;
}

static tg_status begin(tg_coder *c, const float *g, uint32_t k, call *l)
{
    topk *own = c->impl;
    const size_t n = c->setup.n;
    const bool velocity = own->forms >= TG__TOPK_VELOCITY;
    const float ahead = k < n ? own->ahead : 0; /* all are sent, even with a score of 0 */
    const size_t segments = (n + TG__TOPK_BLOCK - 1) / TG__TOPK_BLOCK * TG__TOPK_SEGMENTS;
    float *x = own->forms == TG__TOPK_NONE ? NULL : c->setup.vector[velocity ? 1 : 0];
    float *u = velocity ? c->setup.vector[0] : NULL;
    *l = (call){.pass = {.forms = own->forms,
                         .g = g,
                         .x = x,
                         .u = u,
                         .momentum = (float)c->setup.momentum,
                         .ahead = ahead,
                         .n = n,
                         .bad = c->bad,
                         .k = k,
                         .segments = own->counts.data,
                         .blocks = (uint32_t *)(void *)((uint8_t *)own->counts.data + segments),
                         .state = own->state.data},
                .choice = {.state = own->state.data, .x = ahead != 0 ? x : NULL},
                .frame = {.state = own->state.data,
                          .most = k,
                          .values = own->values,
                          .index = own->index,
                          .n = n,
                          .x = x,
                          .u = c->setup.masking ? u : NULL}};
    const size_t most = TG__SPARSE_VALUES + tg__sparse_values_len(own->values, k) +
                        tg__index_most(own->index, n, k);
    l->frame_most = (most + 15) / 16 * 16;
    if (ahead != 0) /* before anything is changed */
        TG_TRY(tg__gpu_room(c->queue, &own->scores, n * sizeof(float)));
    return reserve(c, l, TG__MIN(n, 4 * (size_t)k + ROOM));
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Choose l->pass.low; 0: the sample's, which has been put into the queue. */
static tg_status first_threshold(tg_coder *c, call *l)
{
    topk *own = c->impl;
    const size_t n = l->pass.n, k = l->pass.k;
    const float known = own->k == k ? own->threshold : 0;
    own->threshold = 0;
    l->pass.low = 1;
    if (k >= n - n / 8)
        return TG_OK;
    if (known > 0) {
        l->pass.low = bits_of(known);
        return TG_OK;
    }
    own->slack = SLACK_START;
    if (n <= SMALL)
        return TG_OK;
    const size_t count = TG__MIN(TG__MAX(n / 1024, (size_t)SAMPLE_MIN), (size_t)SAMPLE_MAX);
    const size_t stride = n / count;
    const double more = TG__MIN(1 + 6 * sqrt((double)stride / (double)k), 2.5);
    const size_t rank = TG__MAX((size_t)((double)k * more / (double)stride), (size_t)1);
    if (rank >= count)
        return TG_OK;
    l->pass.low = 0;
    return tg__gpu_status(
        tg__topk_sample(&l->pass, (uint32_t)count, (uint32_t)rank, l->pass.idx, c->queue->stream),
        "sample of top-k");
}

/* The threshold for the next call, as on the host. */
static void remember(topk *own, uint32_t k, uint32_t kth, size_t seen)
{
    const size_t few = k + k / 4, many = k + k / 2 + TG__MIN(k / 2, (size_t)SMALL / 2);
    float magnitude;
    if (seen < k)
        own->slack = TG__MIN(SLACK_MAX, 2 * own->slack + 0.01f);
    else if (seen < few)
        own->slack = TG__MIN(SLACK_MAX, 1.25f * own->slack);
    else if (seen > many)
        own->slack = TG__MAX(SLACK_MIN, 0.8f * own->slack);
    memcpy(&magnitude, &kth, sizeof magnitude);
    own->threshold = magnitude * (1 - own->slack);
    own->k = k;
}

/* Put the whole into the queue, and wait. */
static tg_status run(tg_coder *c, const call *l, uint8_t *dst)
{
    topk *own = c->impl;
    const cudaStream_t stream = c->queue->stream;
    TG__GPU(tg__topk_form(&l->pass, stream));
    TG__GPU(tg__topk_collect(&l->pass, stream));
    TG__GPU(tg__select_kth(&l->choice, stream));
    TG__GPU(tg__select_keep(&l->choice, l->frame.frame, l->frame_most, stream));
    TG__GPU(tg__sparse_values_write(&l->frame, stream));
    TG__GPU(tg__index_put(&l->frame, stream));
    TG__GPU(tg__frame_out(&l->frame, l->pass.bad, dst, l->frame_most, own->report.data, stream));
    return tg__gpu_finish(c->queue);
}

/* The pass has formed the vector, but its candidates were not what was wanted: find them in the
 * vector as it is now. */
static tg_status again(tg_coder *c, call *l, uint8_t *dst)
{
    topk *own = c->impl;
    const tg__topk_report *report = own->report.data;
    const float *x = l->pass.x ? l->pass.x : l->pass.g;
    if (l->pass.ahead != 0) {
        TG__GPU(tg__topk_scores(&l->pass, own->scores.data, c->queue->stream));
        x = own->scores.data;
    }
    tg__topk_state *state = own->state.data;
    uint32_t *kth = &((tg__topk_report *)own->report.data)->kth; /* pinned */
    TG__GPU(tg__select_kth_of(x, l->pass.n, l->pass.k, state, c->queue->stream));
    TG__GPU(
        cudaMemcpyAsync(kth, &state->kth, sizeof *kth, cudaMemcpyDeviceToHost, c->queue->stream));
    TG_TRY(tg__gpu_finish(c->queue));
    l->pass.low = *kth == 0 ? 1 : TG__MIN(*kth, infinity);
    l->pass.forms = TG__TOPK_NONE;
    l->pass.g = x;
    l->pass.x = l->pass.u = NULL;
    l->pass.ahead = 0;
    TG_TRY(run(c, l, dst));
    if (report->total <= l->pass.room)
        return TG_OK;
    TG_TRY(reserve(c, l, report->total)); /* many are equal */
    return run(c, l, dst);
}

/* ---- the frame ------------------------------------------------------------------------------- */

/* The coded form would not be smaller. */
static tg_status write_dense(tg_coder *c, const call *l, size_t k, uint8_t *dst)
{
    const size_t n = l->pass.n;
    uint32_t *both;
    TG_TRY(tg_alloc(2 * k, sizeof *both, &both));
    cudaError_t error = cudaMemcpyAsync(both, l->frame.idx, k * sizeof *both,
                                        cudaMemcpyDeviceToHost, c->queue->stream);
    if (error == cudaSuccess)
        error = cudaMemcpyAsync(both + k, l->frame.val, k * sizeof *both, cudaMemcpyDeviceToHost,
                                c->queue->stream);
    tg_status status = tg__gpu_status(error, "cudaMemcpyAsync");
    if (status == TG_OK)
        status = tg__gpu_finish(c->queue);
    if (status == TG_OK) {
        memset(dst + TG__FRAME_HEAD, 0, n * sizeof(float));
        for (size_t i = 0; i < k; i++)
            tg__put32(dst + TG__FRAME_HEAD + 4 * (size_t)both[i], both[k + i]);
        tg__gpu_frame_head(dst, WIRE_ID, TG__FORM_DENSE, 0, n, n * sizeof(float));
    }
    free(both);
    return status;
}

static tg_status encode(tg_coder *c, const tg_encode_context *ctx, const float *g, void *dst,
                        size_t dst_cap, tg_coded *coded)
{
    topk *own = c->impl;
    const double density = ctx->density != 0 ? ctx->density : own->density;
    const size_t n = c->setup.n;
    const tg__topk_report *report = own->report.data;
    uint8_t *frame = dst, *out;
    call l;
    if (!(density > 0 && density <= 1))
        return tg_fail(TG_E_ARG, "top-k: density=%g: allowed: 0 < density <= 1", density);
    const uint32_t k = wanted(density, n);
    TG_TRY(begin(c, g, k, &l));
    out = tg__gpu_reach(c->queue, dst, TG__MIN(l.frame_most, dst_cap));
    const bool staged = out == NULL;
    if (staged) {
        TG_TRY(tg__gpu_room(c->queue, &c->queue->staging,
                            TG__MIN(l.frame_most, TG__SPARSE_VALUES + n * sizeof(float))));
        out = c->queue->staging.data;
    }
    const float threshold = own->threshold, slack = own->slack;
    TG_TRY(first_threshold(c, &l));
    TG_TRY(run(c, &l, out));
    coded->len = coded->kept = 0;
    if (report->bad) {
        own->threshold = threshold;
        own->slack = slack;
        return TG_OK;
    }
    const size_t seen = report->total;
    if (seen > l.pass.room || (seen < k && report->low > 1))
        TG_TRY(again(c, &l, out));
    if (report->infinite ||
        (report->keep > 0 && !report->dense && report->len <= TG__SPARSE_VALUES))
        return tg_fail(TG_E_NONFINITE, "top-k: the vector holds NaN or infinity");
    if (report->total >= k)
        remember(own, k, report->kth, seen);
    coded->kept = report->keep;
    if (report->keep == 0) {
        tg__gpu_frame_head(frame, WIRE_ID, TG__FORM_ZERO, 0, n, 0);
        coded->len = TG__FRAME_HEAD;
        return TG_OK;
    }
    if (report->dense) {
        coded->len = TG__FRAME_HEAD + n * sizeof(float);
        return write_dense(c, &l, report->keep, frame);
    }
    coded->len = (size_t)report->len;
    if (staged)
        memcpy(frame + TG__SPARSE_VALUES, out + TG__SPARSE_VALUES, coded->len - TG__SPARSE_VALUES);
    const uint32_t param = report->coding == TG__SPARSE_RICE ? report->param : 0;
    tg__gpu_frame_head(frame, WIRE_ID, TG__FORM_CODED,
                       (uint16_t)((uint32_t)own->values | report->coding << 4 | param << 8), n,
                       coded->len - TG__FRAME_HEAD);
    tg__put32(frame + TG__FRAME_HEAD, report->keep);
    return TG_OK;
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* Values with few magnitudes, which only frames of other codecs have: read here, as f32. */
static void take_levels(const uint8_t *src, size_t k, float *val)
{
    const size_t runs = tg__get32(src);
    const uint8_t *run = src + 4, *signs = run + 8 * runs;
    for (size_t i = 0, j = 0; i < k; i++) {
        while (j + 1 < runs && i >= tg__get32(run + 8 * j))
            j++;
        const uint32_t bits = tg__get32(run + 8 * j + 4) | (uint32_t)(signs[i / 8] >> i % 8 & 1)
                                                               << 31;
        memcpy(&val[i], &bits, sizeof bits);
    }
}

/* x += the frame's elements, times share. The indices go through pinned memory, which the kernel
 * reads. */
static tg_status add_coded(tg_queue *q, const uint8_t *host, const uint8_t *frame, size_t len,
                           float *x, size_t n, bool set, float share, uint64_t *spoilt)
{
    const unsigned aux = tg__get16(host + 2);
    const size_t k = TG__MIN((size_t)tg__get32(host + TG__FRAME_HEAD), n);
    if (len < TG__SPARSE_VALUES) /* the bytes have changed since the check */
        return TG_OK;
    const uint8_t *src = host + TG__SPARSE_VALUES;
    int values = (int)(aux & 15);
    const bool levels = values > TG__SPARSE_1BIT;
    size_t used;
    if (!levels)
        used = tg__sparse_values_len(values, k);
    else
        used = 4 + 8 * (size_t)tg__get32(src) + (k + 7) / 8;
    const bool empty = k == 0 || (levels && tg__get32(src) == 0);
    if (empty || used > len - TG__SPARSE_VALUES) /* the bytes have changed since the check */
        return TG_OK;
    TG_TRY(tg__gpu_room(q, &q->staging, TG__SPARSE_VALUES + 2 * k * sizeof(uint32_t)));
    TG_TRY(tg__gpu_finish(q)); /* the frame before may still be read */
    uint8_t *stage = q->staging.data;
    uint32_t *idx = (uint32_t *)(void *)(stage + TG__SPARSE_VALUES + k * sizeof *idx);
    tg__index_take((int)(aux >> 4 & 15), aux >> 8 & 31, n, k, src + used,
                   len - TG__SPARSE_VALUES - used, idx);
    if (levels) {
        take_levels(src, k, (float *)(void *)(stage + TG__SPARSE_VALUES));
        values = TG__SPARSE_F32;
        frame = stage;
    }
    return tg__gpu_status(
        tg__sparse_values_add(frame, values, (uint32_t)k, idx, x, set, share, spoilt, q->stream),
        "decoding of top-k");
}

static tg_status decode(tg_queue *q, const uint8_t *host, const uint8_t *frame, size_t len,
                        float *x, size_t n, bool first, bool last, float share, uint64_t *spoilt)
{
    const bool at_once = first && last && share > 0; /* 0 * share is 0 elsewhere */
    if (first)
        TG__GPU(cudaMemsetAsync(x, 0, n * sizeof *x, q->stream));
    TG_TRY(add_coded(q, host, frame, len, x, n, at_once && spoilt == NULL, at_once ? share : 1,
                     at_once ? spoilt : NULL));
    if (last && !at_once)
        TG__GPU(tg__sparse_finish(x, n, share, spoilt, q->stream));
    return TG_OK;
}

const tg__coder_ops tg__coder_topk = {
    .codec = "topk",
    .impl_bytes = sizeof(topk),
    .init = init,
    .fini = fini,
    .encode = encode,
    .decode = decode,
};

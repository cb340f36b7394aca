/* Coders on a GPU, or in its emulation, beside the codecs and feedbacks of the host: frames,
 * vectors and the codec's memory have the same bits, step by step. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "codec/on_gpu.h"
#include "feedback/feedback.h"
#include "telegrad/cuda.h"
#include "hard_vectors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS = 4,
    LAYOUTS = 4,
    MIXED = 3,
    RESIDUAL = 1,
    SEGMENTS_MAX = 64,
    LARGE = 5000,
    LARGEST = 200000,
    GUARD = 64
};

static const size_t sizes[] = {1,   2,   15,  16,   17,   63,    64,    65,    127,
                               511, 512, 513, 1000, 4097, 65536, 65537, 200003};

typedef struct memory_kind {
    const char *feedback;
    bool nesterov, masking;
} memory_kind;
static const memory_kind kinds[] = {{"none", false, false},     {"residual", false, false},
                                    {"velocity", false, false}, {"velocity", false, true},
                                    {"velocity", true, false},  {"velocity", true, true}};

/* One coder beside the host's codec. */
typedef struct pair {
    const tg_device_ops *ops;
    tg_queue *queue;
    tg_codec *codec;
    tg_coder *coder;
    tg__feedback f;
    tg_segment segments[SEGMENTS_MAX];
    size_t nsegments, n, bound, floats;
    float *g, *scratch, *seen;
    float *codec_memory, *coder_memory; /* of ctx */
    uint8_t *frame, *other;
    float *device_g, *vector[TG_CODER_VECTORS];
    uint64_t seed;
    bool pinned;
    char name[256];
} pair;

static void need(const pair *p, tg_status status, const char *what)
{
    if (status != TG_OK)
        fail_msg("%s: %s: %s", p->name, what, tg_error());
}

static void lay_out_mixed(pair *p)
{
    static const size_t sizes_of[][2] = {{40, 17}, {7, 1},     {3, 257}, {66, 33}, {5, 8},
                                         {2, 100}, {300, 100}, {11, 1},  {9, 16},  {1, 300}};
    const bool wide = p->n > LARGEST; /* rows of several chunks */
    size_t at = 0;
    for (size_t k = 0; k < TG_COUNT(sizes_of) && !wide; k++) {
        const size_t rows = sizes_of[k][0], cols = sizes_of[k][1], n = rows * cols;
        if (n > p->n - at)
            continue;
        p->segments[p->nsegments++] = (tg_segment){at, n, rows, cols, cols > 1 ? 2 : 1};
        at += n;
    }
    if (at == p->n)
        return;
    const size_t cols = wide ? p->n / 3 : at > 0 && p->n - at > 100 ? 64 : 1;
    const size_t rows = (p->n - at) / cols;
    p->segments[p->nsegments++] = (tg_segment){at, rows * cols, rows, cols, cols > 1 ? 2 : 1};
    at += rows * cols;
    if (at < p->n)
        p->segments[p->nsegments++] = (tg_segment){at, p->n - at, p->n - at, 1, 1};
}

/* 0: one tensor, a matrix if it can be; 1: tensors of 1, 2, 3, ... elements and the rest; 2:
 * matrices of 3 columns and a vector; 3: matrices of other sizes, and short vectors among them. */
static void lay_out(pair *p, int layout)
{
    size_t at = 0;
    p->nsegments = 0;
    if (layout == 0) {
        const size_t cols = p->n % 16 == 0 ? 16 : 1;
        p->segments[p->nsegments++] = (tg_segment){0, p->n, p->n / cols, cols, cols > 1 ? 2 : 1};
        return;
    }
    if (layout == MIXED) {
        lay_out_mixed(p);
        return;
    }
    while (at < p->n) {
        const size_t k = p->nsegments, left = p->n - at, rows = k + 1;
        const bool last = k + 1 == 20;
        size_t n = layout == 1 ? k + 1 : rows * rows * 3, cols = layout == 1 ? 1 : 3;
        if (last || n > left) {
            const bool few =
                layout == 2 && p->n % 2 == 0 && left > 60; /* a short vector at the end */
            n = few ? (left - left / 35) / 3 * 3 : left;
            cols = few ? 3 : 1;
        }
        p->segments[p->nsegments++] = (tg_segment){at, n, n / cols, cols, cols > 1 ? 2 : 1};
        at += n;
    }
}

static void *room(size_t count, size_t size)
{
    void *p;
    assert_int_equal(tg_alloc(count, size, &p), TG_OK);
    return p;
}

/* Returns false if the backend has no such coder. */
static bool open_pair(pair *p, const char *spec, size_t n, const memory_kind *kind, int layout)
{
    *p = (pair){.ops = tg__device(), .n = n, .seed = n * 31 + (size_t)layout};
    (void)snprintf(p->name, sizeof p->name, "%s feedback=%s%s%s n=%zu layout %d", spec,
                   kind->feedback, kind->nesterov ? " nesterov" : "",
                   kind->masking ? " masking" : "", n, layout);
    lay_out(p, layout);
    need(p, tg_codec_create(spec, &p->codec), "codec");
    need(p, p->ops->queue_create(0, &p->queue), "queue");
    p->f = (tg__feedback){
        .ops = tg__feedback_find(kind->feedback),
        .params = {
            .momentum = 0.9, .nesterov = kind->nesterov, .masking = kind->masking, .world = 1}};
    tg_coder_setup setup = {.struct_size = sizeof setup,
                            .codec = p->codec->ops->entry.name,
                            .spec = p->codec->spec,
                            .feedback = kind->feedback,
                            .momentum = 0.9,
                            .nesterov = kind->nesterov,
                            .masking = kind->masking,
                            .n = n,
                            .segments = p->segments,
                            .nsegments = p->nsegments};
    for (size_t i = 0; i < p->f.ops->vectors; i++) {
        p->f.vec[i] = room(n, sizeof(float));
        need(p, p->ops->alloc(p->queue, n * sizeof(float), (void **)&p->vector[i]), "alloc");
        setup.vector[i] = p->vector[i];
    }
    const tg_status status = p->ops->coder_create(p->queue, &setup, &p->coder);
    if (status == TG_E_UNSUPPORTED)
        return false;
    need(p, status, "coder_create");
    p->bound = tg_codec_bound(p->codec, n);
    p->floats = p->nsegments * tg_codec_memory(p->codec);
    p->g = room(n, sizeof *p->g);
    p->scratch = room(n, sizeof *p->scratch);
    p->seen = room(n, sizeof *p->seen);
    p->codec_memory = room(p->floats, sizeof(float));
    p->coder_memory = room(p->floats, sizeof(float));
    p->frame = room(p->bound, 1);
    p->other = room(p->bound + GUARD, 1);
    need(p, p->ops->alloc(p->queue, (n + 4) * sizeof(float), (void **)&p->device_g), "alloc");
    p->pinned = n % 2 == 1;
    if (p->pinned)
        p->ops->pin(p->queue, p->other, p->bound + GUARD);
    return true;
}

static void close_pair(pair *p)
{
    if (p->pinned)
        p->ops->unpin(p->queue, p->other);
    p->ops->coder_destroy(p->coder);
    p->ops->release(p->queue, p->device_g);
    for (size_t i = 0; i < TG_CODER_VECTORS; i++) {
        p->ops->release(p->queue, p->vector[i]);
        free(p->f.vec[i]);
    }
    p->ops->queue_destroy(p->queue);
    tg_codec_destroy(p->codec);
    free(p->g);
    free(p->scratch);
    free(p->seen);
    free(p->codec_memory);
    free(p->coder_memory);
    free(p->frame);
    free(p->other);
}

/* ---- a step ---------------------------------------------------------------------------------- */

static tg_encode_context context_of(const pair *p, uint64_t step, float *memory)
{
    return (tg_encode_context){
        .struct_size = sizeof(tg_encode_context),
        .rng = {.seed = p->seed, .purpose = TG_PURPOSE_CODEC, .rank = 3, .step = step},
        .segments = p->segments,
        .nsegments = p->nsegments,
        .memory = p->floats > 0 ? memory : NULL};
}

/* As the default program does it, step by step. */
static tg_status encode_on_host(pair *p, uint64_t step, tg__part *part)
{
    tg_encode_context ctx = context_of(p, step, p->codec_memory);
    const float *sent;
    tg__view view = {0};
    *part = (tg__part){.dst = p->frame, .cap = p->bound, .hi = p->n};
    if (!p->f.ops->compensate(&p->f, p->g, p->n, p->scratch, &sent))
        return TG_E_NONFINITE;
    ctx.gradient = tg__feedback_last(&p->f, p->g);
    TG_TRY(tg__codec_encode(p->codec, &ctx, sent, p->n, part, 1,
                            p->f.ops->sent != NULL ? &view : NULL));
    if (p->f.ops->sent != NULL && view.sparse)
        p->f.ops->sent(&p->f, sent, p->n, view.idx, view.val, view.k);
    else if (p->f.ops->sent != NULL)
        p->f.ops->sent(&p->f, sent, p->n, NULL, view.dense, p->n);
    return TG_OK;
}

/* g is aligned to 4 bytes only in odd steps. */
static tg_status encode_on_device(pair *p, uint64_t step, tg_coded *coded)
{
    const tg_encode_context ctx = context_of(p, step, p->coder_memory);
    float *g = p->device_g + step % 2;
    *coded = (tg_coded){.struct_size = sizeof *coded, .bad = 77};
    memset(p->other, 0xee, p->bound + GUARD);
    need(p, p->ops->copy_in(p->queue, g, p->g, p->n * sizeof *g), "copy_in");
    return p->ops->encode(p->coder, &ctx, g, p->other, p->bound, coded);
}

static void same_floats(const pair *p, const char *what, uint64_t step, const float *host,
                        const float *device, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (memcmp(&host[i], &device[i], sizeof *host) != 0)
            fail_msg("%s: step %d: %s[%zu]: host %a, device %a", p->name, (int)step, what, i,
                     (double)host[i], (double)device[i]);
}

static void same_memory(pair *p, uint64_t step)
{
    for (size_t i = 0; i < p->f.ops->vectors; i++) {
        need(p, p->ops->copy_out(p->queue, p->seen, p->vector[i], p->n * sizeof(float)),
             "copy_out");
        need(p, p->ops->finish(p->queue), "finish");
        same_floats(p, p->f.ops->names[i], step, p->f.vec[i], p->seen, p->n);
    }
    same_floats(p, "memory", step, p->codec_memory, p->coder_memory, p->floats);
}

static void same_frames(const pair *p, uint64_t step, const tg__part *part, const tg_coded *coded)
{
    if (coded->len != part->len)
        fail_msg("%s: step %d: %zu bytes on the host, %zu on the device", p->name, (int)step,
                 part->len, coded->len);
    for (size_t i = 0; i < part->len; i++)
        if (p->frame[i] != p->other[i])
            fail_msg("%s: step %d: byte %zu of %zu: host %#x, device %#x", p->name, (int)step, i,
                     part->len, p->frame[i], p->other[i]);
    if (coded->kept != part->kept)
        fail_msg("%s: step %d: kept: host %zu, device %zu", p->name, (int)step, part->kept,
                 coded->kept);
    for (size_t i = 0; i < GUARD; i++)
        if (p->other[p->bound + i] != 0xee)
            fail_msg("%s: step %d: written behind the bound", p->name, (int)step);
}

static void step(pair *p, uint64_t number)
{
    tg__part part;
    tg_coded coded;
    const tg_status want = encode_on_host(p, number, &part);
    const tg_status status = encode_on_device(p, number, &coded);
    if (status != want)
        fail_msg("%s: step %d: host %s, device %s (%s)", p->name, (int)number, tg_status_name(want),
                 tg_status_name(status), tg_error());
    assert_true(coded.bad == SIZE_MAX);
    if (status != TG_OK)
        return;
    same_frames(p, number, &part, &coded);
    same_memory(p, number);
}

/* A gradient that is not finite is refused, and changes nothing. */
static void refused(pair *p, uint64_t number, size_t bad, float value)
{
    tg_coded coded;
    const float kept = p->g[bad], last = p->g[p->n - 1];
    p->g[p->n - 1] = -INFINITY;
    p->g[bad] = value;
    assert_int_equal(encode_on_device(p, number, &coded), TG_E_NONFINITE);
    if (coded.bad != bad)
        fail_msg("%s: bad: %zu, not %zu", p->name, coded.bad, bad);
    p->g[p->n - 1] = last;
    p->g[bad] = kept;
    same_memory(p, number);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static bool try_pair(const char *spec, size_t n, const memory_kind *kind, int layout)
{
    pair p;
    const bool opened = open_pair(&p, spec, n, kind, layout);
    for (uint64_t s = 0; opened && s < STEPS; s++) {
        /* Huge values stay in the vectors, so they come last. */
        const int now =
            s == STEPS - 1 ? VECTOR_HUGE : (int)((s + n + (size_t)layout) % VECTOR_HUGE);
        vector_draw(p.g, n, now, p.seed, s);
        if (s == 2)
            refused(&p, s, n / 2, n % 2 == 0 ? NAN : INFINITY);
        step(&p, s);
    }
    close_pair(&p);
    return opened;
}

/* Small vectors have every feedback and layout; those of sparsifiers, which take long in the
 * emulation, one feedback each, which changes from size to size and from setting to setting.
 * Tensors mean little to sparsifiers, so they do without the mixed layout, which the others have
 * with one feedback. */
static size_t try_small(const char *spec, size_t size, size_t setting, bool sparse)
{
    size_t tried = 0;
    for (size_t kind = 0; kind < TG_COUNT(kinds); kind++)
        for (int layout = 0; layout < (sparse ? MIXED : LAYOUTS); layout++)
            if (sparse ? kind == (size + setting) % TG_COUNT(kinds)
                       : layout < MIXED || (kind == RESIDUAL && sizes[size] > 500))
                tried += try_pair(spec, sizes[size], &kinds[kind], layout);
    return tried;
}

/* The first feedback from this one on that the coder has; false: there is none. */
static bool try_any(const char *spec, size_t n, size_t kind, int layout)
{
    for (size_t i = 0; i < TG_COUNT(kinds); i++)
        if (try_pair(spec, n, &kinds[(kind + i) % TG_COUNT(kinds)], layout))
            return true;
    return false;
}

/* Large ones have one layout, or two. */
static size_t try_large(const char *spec, size_t size, size_t setting, bool sparse)
{
    const size_t n = sizes[size], layouts = sparse ? MIXED : LAYOUTS;
    const int layout = (int)((size / 2 + setting) % layouts);
    size_t tried = 0;
    if (setting == 0 || n <= (sparse ? LARGE : LARGEST))
        tried += try_any(spec, n, size + setting, layout);
    if (!sparse && n % 2 == 1)
        tried += try_any(spec, n, RESIDUAL, MIXED);
    return tried;
}

static size_t try_setting(const char *spec, size_t setting, bool sparse)
{
    size_t small = 0, large = 0;
    for (size_t size = 0; size < TG_COUNT(sizes); size++)
        if (sizes[size] < LARGE)
            small += try_small(spec, size, setting, sparse);
        else
            large += try_large(spec, size, setting, sparse);
    if (!sparse && small > 0 && large < 3)
        fail_msg("%s: %zu coders, but %zu large ones", spec, small, large);
    return small + large;
}

static void spec_of(char *spec, size_t cap, const tg__codec_ops *codec, const char *settings)
{
    (void)snprintf(spec, cap, "%s%s%s", codec->entry.name, settings == NULL ? "" : ":",
                   settings == NULL ? "" : settings);
}

static void test_codec(void **state)
{
    const tg__codec_ops *codec = *state;
    const char *const *settings = codec->promise.settings;
    char spec[128];
    const bool sparse = (codec->properties & TG__SPARSE) != 0;
    size_t tried, all = 0;
    spec_of(spec, sizeof spec, codec, NULL);
    all = tried = try_setting(spec, 0, sparse);
    for (size_t i = 0; settings != NULL && settings[i] != NULL; i++) {
        spec_of(spec, sizeof spec, codec, settings[i]);
        tried = try_setting(spec, i + 1, sparse);
        printf("%s: %zu coders\n", spec, tried);
        all += tried;
    }
    printf("%s: %zu coders\n", codec->entry.name, all);
    assert_true(all > 0);
}

/* Of the first matrix, which has 17 columns: row 9 is huge, and row 1 has one element only. The
 * best value of its column times the weight of row 9 is infinite. */
static float mixed_huge(size_t i)
{
    if (i / 17 == 9)
        return -3e38f;
    return i == 17 + 3 ? 1e30f : 0.0f;
}

static void overflow(const char *spec, const memory_kind *kind, int layout)
{
    pair p;
    const bool opened = open_pair(&p, spec, 1000, kind, layout);
    for (uint64_t s = 0; opened && s < 3; s++) {
        for (size_t j = 0; j < p.n; j++)
            p.g[j] = layout == MIXED ? mixed_huge(j)
                                     : (j % 2 == 0 ? 3e38f : -2e38f) * (j == 700 ? 0.01f : 1.0f);
        tg__part part;
        tg_coded coded;
        const tg_status want = encode_on_host(&p, s, &part);
        const tg_status status = encode_on_device(&p, s, &coded);
        if (status != want)
            fail_msg("%s: overflow in step %d: host %s, device %s", p.name, (int)s,
                     tg_status_name(want), tg_status_name(status));
        assert_true(coded.bad == SIZE_MAX);
        if (status != TG_OK)
            break;
        same_frames(&p, s, &part, &coded);
        same_memory(&p, s);
    }
    close_pair(&p);
}

/* What is formed of finite numbers may overflow: coders say so where the host does. */
static void test_overflow(void **state)
{
    const tg__codec_ops *codec = *state;
    const char *const *settings = codec->promise.settings;
    for (size_t kind = 0; kind < TG_COUNT(kinds); kind++)
        for (size_t i = 0; i == 0 || (settings != NULL && settings[i - 1] != NULL); i++) {
            char spec[128];
            spec_of(spec, sizeof spec, codec, i == 0 ? NULL : settings[i - 1]);
            for (int layout = 2; layout <= MIXED; layout++)
                overflow(spec, &kinds[kind], layout);
        }
}

int main(int argc, char **argv)
{
    static struct CMUnitTest tests[64];
    size_t count, used = 0;
    const tg__codec_ops *const *all = tg__codecs(&count);
    if (tg_cuda_attach() != TG_OK) {
        printf("SKIP: %s\n", tg_error());
        return 77;
    }
    for (size_t i = 0; i < count && used + 2 <= TG_COUNT(tests); i++) {
        const char *name = all[i]->entry.name;
        if (!tg__device()->decodes(name) || (argc > 1 && strcmp(argv[1], name) != 0))
            continue;
        void *state = (void *)(uintptr_t)all[i];
        tests[used++] =
            (struct CMUnitTest){.name = name, .test_func = test_codec, .initial_state = state};
        tests[used++] = (struct CMUnitTest){
            .name = "overflow", .test_func = test_overflow, .initial_state = state};
    }
    return _cmocka_run_group_tests("coders", tests, used, NULL, NULL);
}

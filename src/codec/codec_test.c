/* What every codec must keep, looping over the registry, at every instruction set level, in guard
 * pages. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "each_level.h"
#include "kernel/guarded.h"
#include "vectors.h"
#include <string.h>

static const size_t lengths[] = {0, 1, 7, 8, 31, 33, 4097};
enum { MAX_N = 4097, FRAME_MAX = 12 + 4 * MAX_N, VARIANTS_MAX = 96 };

/* Beside each codec's defaults. */
static const char *const variants[] = {
    "topk:density=1,values=f32",
    "topk:density=1",
    "topk:density=0.3,index=raw",
    "topk:density=0.6,values=f32,index=raw",
    "topk:density=0.25,values=f32,index=bitmap",
    "topk:density=0.05,index=rice",
    "topk:density=1e-9",
    "topk:density=0.3,values=int8",
    "topk:density=0.25,values=4bit,index=bitmap",
    "topk:density=0.2,values=2bit,index=rice",
    "topk:density=0.3,values=1bit,index=ef",
    "topk:density=0.01,index=ef",
    "topk:density=0.1,scope=tensor",
    "2bit:threshold=0.01",
    "2bit:threshold=1",
    "2bit:threshold=auto",
    "2bit:threshold=auto,start=0.01",
    "2bit:threshold=auto,target=0.5",
    "strom:threshold=0.01",
    "strom:threshold=1,index=bitmap",
    "strom:threshold=1e-3,index=raw",
    "strom:target=0.3,index=rice",
    "strom:start=0.03,index=ef",
    "adacomp:bin=1",
    "adacomp:bin=500,index=raw",
    "adacomp:bin=7,index=bitmap",
    "terngrad:clip=0",
    "terngrad:clip=1,rounds=10",
    "qsgd:bits=2,norm=l2",
    "qsgd:bits=3,bucket=1024",
    "qsgd:bits=5,levels=8,rounds=10",
    "qsgd:bits=6,norm=l2",
    "qsgd:bits=7,bucket=4096,norm=l2,coding=elias",
    "qsgd:bits=8,coding=elias",
    "qsgd:bits=4,norm=l2,levels=1,coding=elias",
    "sign:scale=tensor",
    "sign:scale=row",
    "1bit:threshold=mean",
    "blocktopk:keep=3",
    "blocktopk:keep=1,values=f32",
    "blocktopk:keep=9,values=fp16",
    "dct:keep=4",
    "dct:keep=9,values=fp16",
};

/* Memory that a codec sees, each at the end or the start of its pages. */
typedef struct world {
    tg__guarded x_mem, frame_mem, out_mem;
    float *x, *out;
    uint8_t *frame;
} world;

static void world_open(world *w)
{
    tg__guarded_open(&w->x_mem, (MAX_N + 4) * sizeof(float));
    tg__guarded_open(&w->out_mem, (MAX_N + 4) * sizeof(float));
    tg__guarded_open(&w->frame_mem, FRAME_MAX + 4);
}

static void world_close(world *w)
{
    tg__guarded_close(&w->x_mem);
    tg__guarded_close(&w->out_mem);
    tg__guarded_close(&w->frame_mem);
}

static void world_place(world *w, size_t n, size_t cap, size_t shift, bool at_end)
{
    w->x = tg__guarded_place(&w->x_mem, n * sizeof(float), shift * sizeof(float), at_end);
    w->out = tg__guarded_place(&w->out_mem, n * sizeof(float), shift * sizeof(float), at_end);
    w->frame = tg__guarded_place(&w->frame_mem, cap, shift, at_end);
}

static void assert_intact(const world *w)
{
    assert_true(tg__guarded_intact(&w->x_mem));
    assert_true(tg__guarded_intact(&w->out_mem));
    assert_true(tg__guarded_intact(&w->frame_mem));
}

static tg_codec *create(const char *spec)
{
    tg_codec *c = NULL;
    assert_int_equal(tg_codec_create(spec, &c), TG_OK);
    return c;
}

static size_t all_specs(const char *specs[VARIANTS_MAX])
{
    size_t count, total = 0;
    const tg__codec_ops *const *all = tg__codecs(&count);
    assert_true(count >= 5);
    for (size_t i = 0; i < count; i++)
        specs[total++] = all[i]->entry.name;
    assert_true(count + TG_COUNT(variants) <= VARIANTS_MAX);
    for (size_t i = 0; i < TG_COUNT(variants); i++)
        specs[total++] = variants[i];
    return total;
}

/* ---- one vector ------------------------------------------------------------------------------ */

static void assert_floats(const float *a, const float *b, size_t n)
{
    if (n > 0)
        assert_memory_equal(a, b, n * sizeof(*a));
}

/* What receivers decode is what the view says, the same by every way. */
static void check_decoded(world *w, tg_codec *c, size_t n, size_t len)
{
    static float view_dense[MAX_N], base[MAX_N], sum[MAX_N];
    static uint8_t again[FRAME_MAX];
    tg__view view;
    tg__part part = {.dst = again, .cap = tg__codec_bound(c, n), .lo = 0, .hi = n};
    assert_int_equal(tg__codec_encode(c, NULL, w->x, n, &part, 1, &view), TG_OK);
    assert_int_equal(part.len, len);
    assert_memory_equal(again, w->frame, len); /* deterministic */
    assert_int_equal(view.sparse, (c->ops->properties & TG__SPARSE) != 0);
    memset(view_dense, 0, sizeof(view_dense));
    if (view.sparse) {
        assert_non_null(view.idx);
        for (size_t i = 0; i < view.k; i++) {
            assert_true(view.idx[i] < n && (i == 0 || view.idx[i] > view.idx[i - 1]));
            view_dense[view.idx[i]] = view.val[i];
        }
    } else if (n > 0) {
        memcpy(view_dense, view.dense, n * sizeof(float));
    }
    assert_int_equal(tg__frame_check(w->frame, len, n, c->ops->wire_id), TG_OK);
    assert_int_equal(tg__frame_check(w->frame, len, n, 255), TG_E_MISMATCH);
    tg_array out = tg_array_f32(w->out, n);
    assert_int_equal(tg_frame_decode(w->frame, len, &out), TG_OK);
    for (size_t i = 0; i < n; i++)
        assert_true(isfinite(w->out[i]));
    if (c->ops->properties & TG__LOSSLESS)
        assert_floats(w->out, w->x, n);
    assert_floats(w->out, view_dense, n);
    for (size_t i = 0; i < n; i++) {
        base[i] = (float)((double)i / 7 - 100);
        sum[i] = base[i] + view_dense[i];
        w->out[i] = base[i];
    }
    assert_int_equal(tg_frame_decode_add(w->frame, len, &out), TG_OK);
    assert_floats(w->out, sum, n);
    assert_intact(w);
}

/* Each part decodes to its piece of the view; a sparse one selects as the whole does (values may be
 * rounded frame by frame), a dense one decodes as the whole does. */
static void check_parts(world *w, tg_codec *c, size_t n)
{
    static uint8_t frames[4][FRAME_MAX];
    static float whole[MAX_N], piece[MAX_N];
    size_t cuts[] = {0, n / 5, n / 5, n / 2, n};
    static uint32_t support[MAX_N];
    tg__part part = {.dst = frames[0], .cap = FRAME_MAX, .lo = 0, .hi = n}, parts[4];
    tg__view view;
    assert_int_equal(tg__codec_encode(c, NULL, w->x, n, &part, 1, &view), TG_OK);
    tg__frame_decode(frames[0], part.len, whole, NULL);
    size_t k = view.sparse ? view.k : 0;
    if (k > 0)
        memcpy(support, view.idx, k * sizeof(support[0]));
    for (size_t i = 0; i < 4; i++)
        parts[i] = (tg__part){.dst = frames[i],
                              .cap = tg__codec_bound(c, cuts[i + 1] - cuts[i]),
                              .lo = cuts[i],
                              .hi = cuts[i + 1]};
    assert_int_equal(tg__codec_encode(c, NULL, w->x, n, parts, 4, &view), TG_OK);
    const bool depends = (c->ops->properties & TG__CUTS) != 0;
    if (view.sparse) {
        assert_true(depends || view.k == k);
        if (!depends && k > 0)
            assert_memory_equal(view.idx, support, k * sizeof(support[0]));
        memset(whole, 0, sizeof(whole));
        for (size_t i = 0; i < view.k; i++)
            whole[view.idx[i]] = view.val[i];
    }
    for (size_t i = 0; i < 4; i++) {
        size_t m = parts[i].hi - parts[i].lo;
        assert_true(parts[i].len <= parts[i].cap);
        assert_int_equal(tg__frame_check(frames[i], parts[i].len, m, c->ops->wire_id), TG_OK);
        tg__frame_decode(frames[i], parts[i].len, piece, NULL);
        if (!depends || view.sparse)
            assert_floats(piece, whole + parts[i].lo, m);
    }
}

static void check_refusals(world *w, size_t n, size_t len)
{
    static uint8_t copy[FRAME_MAX];
    memcpy(copy, w->frame, len);
    tg_array out = tg_array_f32(w->out, n);
    size_t step = len > 300 ? 97 : 1;
    for (size_t cut = 0; cut < len; cut += step) {
        uint8_t *frame = tg__guarded_place(&w->frame_mem, cut, 0, true);
        memcpy(frame, copy, cut);
        assert_int_equal(tg_frame_decode(frame, cut, &out), TG_E_CORRUPT);
        if (cut < 12)
            continue;
        tg__frame_head(frame, copy[0], copy[1], tg__get16(copy + 2), n, cut - 12);
        assert_int_equal(tg_frame_decode(frame, cut, &out), TG_E_CORRUPT); /* a length that lies */
    }
    uint8_t *frame = tg__guarded_place(&w->frame_mem, len, 0, true);
    memcpy(frame, copy, len);
    tg_array other = tg_array_f32(w->out, n > 0 ? n - 1 : 1);
    assert_int_equal(tg_frame_decode(frame, len, &other), TG_E_MISMATCH);
    for (size_t bit = 0; bit < 8 * len; bit += bit < 8 * 40 ? 1 : 8 * step - 1) {
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        for (size_t i = 0; i < n; i++)
            w->out[i] = 3;
        tg_status status = tg_frame_decode_add(frame, len, &out);
        for (size_t i = 0; status != TG_OK && i < n; i++)
            assert_true(w->out[i] == 3); /* refused whole */
        assert_true(status == TG_OK || status == TG_E_CORRUPT || status == TG_E_MISMATCH);
        assert_int_equal(tg_frame_decode(frame, len, &out), status);
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_intact(w);
}

static void every_codec_keeps_the_rules(void **state)
{
    (void)state;
    const char *specs[VARIANTS_MAX];
    size_t total = all_specs(specs);
    world w;
    world_open(&w);
    for (size_t s = 0; s < total; s++) {
        tg_codec *c = create(specs[s]);
        for (size_t l = 0; l < TG_COUNT(lengths); l++) {
            size_t n = lengths[l], cap = tg_codec_bound(c, n), len;
            assert_true(cap >= 12 && cap <= 12 + 4 * n);
            for (unsigned v = 0; v < TEST_VECTORS; v++) {
                size_t shift = (l + v) % 4;
                world_place(&w, n, cap, shift, v % 2);
                test_vector(w.x, n, (enum test_vector)v, s * 100 + l);
                tg_array x = tg_array_f32(w.x, n);
                assert_int_equal(tg_codec_encode(c, NULL, &x, w.frame, 11, &len), TG_E_SPACE);
                assert_int_equal(tg_codec_encode(c, NULL, &x, w.frame, cap, &len), TG_OK);
                assert_true(len <= cap);
                check_decoded(&w, c, n, len);
                check_parts(&w, c, n);
                if (v < 2 || v == TEST_ZERO)
                    check_refusals(&w, n, len);
            }
        }
        tg_codec_destroy(c);
    }
    world_close(&w);
}

/* A stale hint, another size before: the same bytes. */
static void handles_keep_nothing(void **state)
{
    (void)state;
    static float x[MAX_N], y[MAX_N];
    static uint8_t a[FRAME_MAX], b[FRAME_MAX];
    const char *specs[VARIANTS_MAX];
    size_t total = all_specs(specs), a_len, b_len;
    for (size_t s = 0; s < total; s++) {
        tg_codec *used = create(specs[s]), *fresh = create(specs[s]);
        for (uint64_t seed = 0; seed < 20; seed++) {
            size_t n = seed % 3 ? MAX_N : 1000;
            test_vector(y, n, (enum test_vector)(seed % TEST_VECTORS), seed);
            test_vector(x, n, (enum test_vector)(seed % 3), seed + 50);
            tg_array ax = tg_array_f32(x, n), ay = tg_array_f32(y, n);
            assert_int_equal(tg_codec_encode(used, NULL, &ay, a, sizeof(a), &a_len), TG_OK);
            assert_int_equal(tg_codec_encode(used, NULL, &ax, a, sizeof(a), &a_len), TG_OK);
            tg_codec_destroy(fresh);
            fresh = create(specs[s]);
            assert_int_equal(tg_codec_encode(fresh, NULL, &ax, b, sizeof(b), &b_len), TG_OK);
            assert_int_equal(a_len, b_len);
            assert_memory_equal(a, b, a_len);
        }
        tg_codec_destroy(used);
        tg_codec_destroy(fresh);
    }
}

static void nonfinite_vectors_are_refused_before_anything_is_written(void **state)
{
    (void)state;
    static float x[MAX_N];
    static uint8_t frame[FRAME_MAX];
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    const char *specs[VARIANTS_MAX];
    size_t total = all_specs(specs), len = 77;
    for (size_t s = 0; s < total; s++) {
        tg_codec *c = create(specs[s]);
        for (size_t i = 0; i < 3 * TG_COUNT(bad); i++) {
            test_vector(x, MAX_N, TEST_GRADIENT, i);
            x[i / 3 * 2048] = bad[i % 3];
            memset(frame, 0x5a, sizeof(frame));
            tg_array ax = tg_array_f32(x, MAX_N);
            assert_int_equal(tg_codec_encode(c, NULL, &ax, frame, sizeof(frame), &len),
                             TG_E_NONFINITE);
            assert_int_equal(len, 77);
            for (size_t j = 0; j < sizeof(frame); j++)
                assert_int_equal(frame[j], 0x5a);
            /* The inner way is told that x is finite; it must stand it if not. */
            tg__part part = {.dst = frame, .cap = sizeof(frame), .lo = 0, .hi = MAX_N};
            tg_status status = tg__codec_encode(c, NULL, x, MAX_N, &part, 1, NULL);
            assert_true(status == TG_OK || status == TG_E_NONFINITE);
        }
        tg_codec_destroy(c);
    }
}

static void bad_arguments_are_named(void **state)
{
    (void)state;
    float x[4] = {1, 2, 3, 4};
    uint8_t frame[64];
    size_t len;
    tg_codec *c = NULL;
    assert_int_equal(tg_codec_create("gzip", &c), TG_E_SPEC);
    assert_int_equal(tg_codec_create("topk:density=0", &c), TG_E_SPEC);
    assert_int_equal(tg_codec_create("topk:density=1.5", &c), TG_E_SPEC);
    assert_int_equal(tg_codec_create("topk:values=f64", &c), TG_E_SPEC);
    assert_int_equal(tg_codec_create("2bit:threshold=0", &c), TG_E_SPEC);
    assert_int_equal(tg_codec_create("2bit:threshold=1e-60", &c), TG_E_SPEC); /* 0 as f32 */
    assert_null(c);
    c = create("topk:density=0.5");
    static const struct {
        size_t struct_size, n;
        int dtype, memory;
        tg_status status;
    } cases[] = {{sizeof(tg_array), 4, 0, 0, TG_OK},
                 {8, 4, 0, 0, TG_E_ARG},
                 {sizeof(tg_array), TG_MAX_ELEMENTS + 1, 0, 0, TG_E_ARG},
                 {sizeof(tg_array), 4, 9, 0, TG_E_UNSUPPORTED},
                 {sizeof(tg_array), 4, 0, TG_CUDA, TG_E_UNSUPPORTED}};
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        tg_array a = tg_array_f32(x, cases[i].n);
        a.struct_size = cases[i].struct_size;
        a.dtype = (tg_dtype)cases[i].dtype;
        a.memory = (tg_memory)cases[i].memory;
        assert_int_equal(tg_codec_encode(c, NULL, &a, frame, sizeof(frame), &len), cases[i].status);
        if (cases[i].status != TG_OK)
            assert_int_equal(tg_frame_decode(frame, len, &a), cases[i].status);
    }
    tg_array a = tg_array_f32(x, 4), odd = tg_array_f32((float *)(void *)((char *)x + 2), 3),
             null = tg_array_f32(NULL, 3), none = tg_array_f32(NULL, 0);
    assert_int_equal(tg_codec_encode(c, NULL, &odd, frame, sizeof(frame), &len), TG_E_ARG);
    assert_int_equal(tg_codec_encode(c, NULL, &null, frame, sizeof(frame), &len), TG_E_ARG);
    assert_int_equal(tg_codec_encode(c, NULL, &a, NULL, sizeof(frame), &len), TG_E_ARG);
    assert_int_equal(tg_codec_encode(c, NULL, NULL, frame, sizeof(frame), &len), TG_E_ARG);
    tg_encode_context ctx = {.struct_size = sizeof(ctx), .density = 2};
    assert_int_equal(tg_codec_encode(c, &ctx, &a, frame, sizeof(frame), &len), TG_E_ARG);
    ctx.density = 0;
    tg_segment odd_ones[][2] = {{{0, 2, 2, 1, 0}, {2, 1, 1, 1, 0}}, /* too short, too long, a gap */
                                {{0, 2, 2, 1, 0}, {2, 3, 3, 1, 0}},
                                {{0, 1, 1, 1, 0}, {2, 2, 2, 1, 0}},
                                {{0, 2, 2, 2, 0}, {2, 2, 2, 1, 0}}, /* no matrix of 2 elements */
                                {{0, 2, 0, 2, 0}, {2, 2, 2, 1, 0}}};
    for (size_t i = 0; i < TG_COUNT(odd_ones); i++) {
        ctx.segments = odd_ones[i];
        ctx.nsegments = 2;
        assert_int_equal(tg_codec_encode(c, &ctx, &a, frame, sizeof(frame), &len), TG_E_ARG);
    }
    ctx.segments = NULL;
    ctx.struct_size = 1;
    assert_int_equal(tg_codec_encode(c, &ctx, &a, frame, sizeof(frame), &len), TG_E_ARG);
    assert_int_equal(tg_codec_encode(c, NULL, &none, frame, sizeof(frame), &len), TG_OK);
    assert_int_equal(tg_frame_decode(frame, len, &none), TG_OK);
    frame[0] = 250; /* a codec that nobody has */
    assert_int_equal(tg_frame_decode(frame, len, &none), TG_E_CORRUPT);
    tg_codec_destroy(c);
    tg_codec_destroy(NULL);
}

/* The vector of the 2-bit method's description, threshold 4. */
static void twobit_hand_vector(void **state)
{
    (void)state;
    static const float x[] = {-9, -1, 2, 6, 8, 7, 0, -5, -10, -100};
    static const float want[] = {-4, 0, 0, 4, 4, 4, 0, -4, -4, -4};
    static const uint8_t bytes[] = {5, 0, 0, 0, 10,   0,    0,    0, 8,    0,
                                    0, 0, 0, 0, 0x80, 0x40, 0x38, 0, 0x81, 0x03};
    float out[10];
    uint8_t frame[64];
    size_t len;
    tg_codec *c = create("2bit:threshold=4");
    tg_array ax = tg_array_f32(x, 10), aout = tg_array_f32(out, 10);
    assert_int_equal(tg_codec_encode(c, NULL, &ax, frame, tg_codec_bound(c, 10), &len), TG_OK);
    assert_int_equal(len, sizeof(bytes));
    assert_memory_equal(frame, bytes, sizeof(bytes));
    assert_int_equal(tg_frame_decode(frame, len, &aout), TG_OK);
    assert_memory_equal(out, want, sizeof(want));
    tg_codec_destroy(c);
}

/* The context's density overrides the codec's; a context without one does not. */
static void density_of_the_call(void **state)
{
    (void)state;
    static float x[1000];
    static uint8_t frame[4012];
    test_vector(x, 1000, TEST_GRADIENT, 1);
    tg_codec *c = create("topk:density=0.01,index=raw");
    tg_array ax = tg_array_f32(x, 1000);
    static const double densities[] = {0, 0.05, 0.0001, 0.3};
    static const uint32_t ks[] = {10, 50, 1, 300};
    for (size_t i = 0; i < TG_COUNT(ks); i++) {
        tg_encode_context ctx = {.struct_size = sizeof(ctx), .density = densities[i]};
        size_t len;
        assert_int_equal(tg_codec_encode(c, &ctx, &ax, frame, sizeof(frame), &len), TG_OK);
        assert_int_equal(tg__get32(frame + 12), ks[i]);
        assert_int_equal(len, 12 + 4 + 6 * (size_t)ks[i]);
    }
    tg_codec_destroy(c);
}

static const tg_segment tensors[] = {
    {0, 700, 700, 1, 0}, {700, 1, 1, 1, 0}, {701, 0, 0, 1, 0}, {701, 3396, 4, 849, 0}};

/* scope=tensor is each tensor by itself, in one frame. */
static void tensors_compete_within(void **state)
{
    (void)state;
    static float x[MAX_N], all[MAX_N], alone[MAX_N];
    static uint8_t frame[FRAME_MAX];
    tg_codec *by_tensor = create("topk:density=0.05,values=f32,scope=tensor"),
             *by_bucket = create("topk:density=0.05,values=f32");
    for (unsigned v = 0; v < TEST_VECTORS; v++) {
        test_vector(x, MAX_N, (enum test_vector)v, v);
        for (size_t i = 0; i < 700; i++)
            x[i] *= 0.001f; /* would send nothing among all */
        tg_encode_context ctx = {.struct_size = sizeof(ctx), .segments = tensors, .nsegments = 4};
        tg_array ax = tg_array_f32(x, MAX_N), out = tg_array_f32(all, MAX_N);
        size_t len;
        assert_int_equal(tg_codec_encode(by_tensor, &ctx, &ax, frame, sizeof(frame), &len), TG_OK);
        assert_int_equal(tg_frame_decode(frame, len, &out), TG_OK);
        for (size_t t = 0; t < 4; t++) {
            size_t lo = tensors[t].begin, n = tensors[t].n;
            tg_array part = tg_array_f32(x + lo, n), piece = tg_array_f32(alone + lo, n);
            assert_int_equal(tg_codec_encode(by_bucket, NULL, &part, frame, sizeof(frame), &len),
                             TG_OK);
            assert_int_equal(tg_frame_decode(frame, len, &piece), TG_OK);
        }
        assert_floats(all, alone, MAX_N);
    }
    tg_codec_destroy(by_tensor);
    tg_codec_destroy(by_bucket);
}

/* One tensor: scope=tensor and scope=bucket give the same bytes; so does no list of tensors. */
static void one_tensor_is_the_bucket(void **state)
{
    (void)state;
    static float x[MAX_N];
    static uint8_t a[FRAME_MAX], b[FRAME_MAX];
    static const char *const specs[2] = {"topk:density=0.03,values=int8,scope=tensor",
                                         "topk:density=0.03,values=int8"};
    tg_codec *c[2] = {create(specs[0]), create(specs[1])};
    static const tg_segment whole = {0, MAX_N, MAX_N, 1, 0};
    for (unsigned v = 0; v < TEST_VECTORS; v++) {
        tg_encode_context ctx = {
            .struct_size = sizeof(ctx), .segments = v % 2 ? &whole : NULL, .nsegments = v % 2};
        test_vector(x, MAX_N, (enum test_vector)v, v);
        tg_array ax = tg_array_f32(x, MAX_N);
        size_t a_len, b_len;
        assert_int_equal(tg_codec_encode(c[0], &ctx, &ax, a, sizeof(a), &a_len), TG_OK);
        assert_int_equal(tg_codec_encode(c[1], &ctx, &ax, b, sizeof(b), &b_len), TG_OK);
        assert_int_equal(a_len, b_len);
        assert_memory_equal(a, b, a_len);
    }
    tg_codec_destroy(c[0]);
    tg_codec_destroy(c[1]);
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_keeps_the_rules),
        cmocka_unit_test(handles_keep_nothing),
        cmocka_unit_test(nonfinite_vectors_are_refused_before_anything_is_written),
        cmocka_unit_test(bad_arguments_are_named),
        cmocka_unit_test(twobit_hand_vector),
        cmocka_unit_test(density_of_the_call),
        cmocka_unit_test(tensors_compete_within),
        cmocka_unit_test(one_tensor_is_the_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

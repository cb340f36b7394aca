/* A fused pass gives the same frames and the same state, bit for bit, as compensate, encode and
 * sent one after another. What was sent plus what remains is the sum of the gradients. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "each_level.h"
#include "method/method.h"
#include "vectors.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_N = 150000, PARTS = 3, STEPS = 9 };

/* One rank's feedback and codec. */
typedef struct side {
    tg__feedback f;
    tg_codec *c;
    float *vec[TG__FEEDBACK_VECTORS], *scratch;
    uint8_t *frame[PARTS];
    tg__part parts[PARTS];
    float memory[8]; /* of codecs with memory per segment */
} side;

static void open_side(side *s, const char *feedback, const char *codec,
                      const tg__feedback_params *params, size_t n)
{
    memset(s, 0, sizeof(*s));
    s->f.ops = tg__feedback_find(feedback);
    assert_non_null(s->f.ops);
    s->f.params = *params;
    for (size_t i = 0; i < s->f.ops->vectors; i++) {
        assert_int_equal(tg_alloc(n, sizeof(float), &s->vec[i]), TG_OK);
        s->f.vec[i] = s->vec[i];
    }
    assert_int_equal(tg_alloc(n, sizeof(float), &s->scratch), TG_OK);
    for (size_t i = 0; i < PARTS; i++)
        assert_int_equal(tg_alloc(12 + 4 * n, 1, &s->frame[i]), TG_OK);
    assert_int_equal(tg_codec_create(codec, &s->c), TG_OK);
}

static void close_side(side *s)
{
    for (size_t i = 0; i < TG__FEEDBACK_VECTORS; i++)
        free(s->vec[i]);
    free(s->scratch);
    for (size_t i = 0; i < PARTS; i++)
        free(s->frame[i]);
    tg_codec_destroy(s->c);
}

static void cut(side *s, size_t n, size_t nparts)
{
    size_t at[] = {0, nparts == 1 ? n : n / 3,
                   nparts == 1 ? n : n / 3 + TG__MIN(n - n / 3, (size_t)1), n};
    for (size_t i = 0; i < nparts; i++)
        s->parts[i] = (tg__part){.dst = s->frame[i],
                                 .cap = tg__codec_bound(s->c, at[i + 1] - at[i]),
                                 .lo = at[i],
                                 .hi = at[i + 1]};
}

static void stepwise(side *s, const tg_encode_context *ctx, const float *g, size_t n, size_t nparts)
{
    const float *p;
    tg__view view;
    tg_encode_context last = *ctx;
    s->f.ops->compensate(&s->f, g, n, s->scratch, &p);
    last.gradient = tg__feedback_last(&s->f, ctx->gradient);
    assert_int_equal(tg__codec_encode(s->c, &last, p, n, s->parts, nparts, &view), TG_OK);
    if (view.sparse)
        s->f.ops->sent(&s->f, p, n, view.idx, view.val, view.k);
    else
        s->f.ops->sent(&s->f, p, n, NULL, view.dense, n);
}

static float g[MAX_N];
static tg__pool *pool; /* of the fused side, alternating with none */

/* Four tensors, one of them empty, and one with a single element if there is room. The first is a
 * matrix; if the vector is long, parts cut it inside a row. */
static void cut_tensors(tg_segment seg[4], size_t n)
{
    size_t half = n < 1000 ? n / 2 : n / 200 * 100;
    size_t at[] = {0, half, half, half + TG__MIN(n - half, (size_t)1), n};
    for (size_t i = 0; i < 4; i++)
        seg[i] = (tg_segment){
            .begin = at[i], .n = at[i + 1] - at[i], .rows = at[i + 1] - at[i], .cols = 1};
    if (n >= 1000) {
        seg[0].rows = half / 100;
        seg[0].cols = 100;
    }
}

/* The gradients: similar for some steps, then of all kinds, so that hints hit and miss. Shorter
 * vectors use the beginning of these. */
static float gradient[STEPS][MAX_N];

static void make_gradients(void)
{
    static const enum test_vector kinds[STEPS] = {TEST_GRADIENT, TEST_GRADIENT, TEST_GRADIENT,
                                                  TEST_TIES,     TEST_GRADIENT, TEST_ZERO,
                                                  TEST_EQUAL,    TEST_RARE,     TEST_GRADIENT};
    for (unsigned step = 0; step < STEPS; step++)
        test_vector(gradient[step], MAX_N, kinds[step], step);
    for (size_t i = 0; i < MAX_N; i++)
        gradient[4][i] *= 300;
}

static void compare(const char *feedback, const char *codec, tg__feedback_params params)
{
    static const size_t ns[] = {0, 1, 2, 7, 64, 1000, 4097, MAX_N};
    for (size_t i = 0; i < TG_COUNT(ns); i++) {
        for (size_t nparts = 1; nparts <= PARTS; nparts += PARTS - 1) {
            size_t n = ns[i];
            side a, b;
            open_side(&a, feedback, codec, &params, n);
            open_side(&b, feedback, codec, &params, n);
            tg__fused_fn fused = tg__fused_find(&b.f, b.c);
            assert_non_null(fused);
            tg_segment seg[4];
            cut_tensors(seg, n);
            for (unsigned step = 0; step < STEPS; step++) {
                tg_encode_context ctx = {.struct_size = sizeof(ctx),
                                         .density = step < 4 ? 0 : 0.003,
                                         .gradient = g,
                                         .segments = seg,
                                         .nsegments = 4};
                b.c->pool = step % 2 ? pool : NULL;
                tg_encode_context ctx_b = ctx;
                ctx.memory = a.memory;
                ctx_b.memory = b.memory;
                memcpy(g, gradient[step], n * sizeof *g);
                cut(&a, n, nparts);
                cut(&b, n, nparts);
                stepwise(&a, &ctx, g, n, nparts);
                assert_int_equal(fused(&b.f, b.c, &ctx_b, g, n, b.parts, nparts), TG_OK);
                assert_memory_equal(a.memory, b.memory, sizeof(a.memory));
                for (size_t j = 0; j < nparts; j++) {
                    assert_int_equal(a.parts[j].len, b.parts[j].len);
                    assert_memory_equal(a.frame[j], b.frame[j], a.parts[j].len);
                }
                for (size_t j = 0; j < a.f.ops->vectors; j++)
                    assert_memory_equal(a.vec[j], b.vec[j], n * sizeof(float));
            }
            close_side(&a);
            close_side(&b);
        }
    }
}

static void residual_topk(void **state)
{
    (void)state;
    tg__feedback_params params = {.world = 1};
    compare("residual", "topk:density=0.01", params);
    compare("residual", "topk:density=0.3,values=f32", params);
    compare("residual", "topk:density=1", params);
    compare("residual", "topk:density=0.001,index=rice", params);
    compare("residual", "topk:density=0.02,values=int8", params);
    compare("residual", "topk:density=0.02,scope=tensor", params);
    compare("residual", "topk:density=0.02,select=trimmed", params);
    compare("residual", "topk:density=0.2,select=trimmed,scope=tensor", params);
    compare("residual", "topk:density=0.1,values=2bit,index=ef,scope=tensor", params);
    compare("residual", "topk:density=0.01,lookahead=0", params);
    compare("residual", "topk:density=0.1,lookahead=0.3,scope=tensor", params);
    compare("residual", "topk:density=0.1,lookahead=0,scope=tensor", params);
}

static void velocity_topk(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        tg__feedback_params params = {
            .momentum = 0.9, .masking = i & 1, .nesterov = (i & 2) != 0, .world = 1};
        compare("velocity", "topk:density=0.01", params);
        compare("velocity", "topk:density=0.2,values=f32", params);
        compare("velocity", "topk:density=0.01,values=int8,scope=tensor", params);
        compare("velocity", "topk:density=0.05,values=1bit", params);
        compare("velocity", "topk:density=0.02,lookahead=0", params);
    }
}

static void residual_twobit(void **state)
{
    (void)state;
    tg__feedback_params params = {.world = 1};
    compare("residual", "2bit:threshold=0.02", params);
    compare("residual", "2bit:threshold=5", params);
    compare("residual", "2bit:threshold=0.5,lookahead=0", params);
    compare("residual", "strom:threshold=0.5,lookahead=0.3", params);
    compare("residual", "strom:threshold=0.5,lookahead=0", params);
}

static void residual_twobit_auto(void **state)
{
    (void)state;
    tg__feedback_params params = {.world = 1};
    compare("residual", "2bit:threshold=auto", params);
    compare("residual", "2bit:threshold=auto,start=0.3,target=0.02", params);
    compare("residual", "2bit:threshold=auto,lookahead=0", params);
    compare("residual", "2bit:threshold=auto,lookahead=4,target=0.01", params);
    compare("residual", "strom:lookahead=0.3", params);
    compare("residual", "strom:lookahead=0", params);
}

static void residual_strom(void **state)
{
    (void)state;
    tg__feedback_params params = {.world = 1};
    compare("residual", "strom:threshold=0.02", params);
    compare("residual", "strom:threshold=5,index=raw", params);
    compare("residual", "strom", params);
    compare("residual", "strom:start=1e-4,target=0.1", params);
}

static void residual_quant(void **state)
{
    (void)state;
    tg__feedback_params params = {.world = 1};
    compare("residual", "int8", params);
    compare("residual", "qsgd", params);
    compare("residual", "qsgd:bits=3,bucket=2048,norm=l2", params);
    compare("residual", "qsgd:bits=6,norm=l2,levels=16,rounds=10", params);
    compare("residual", "qsgd:bits=8,coding=elias", params);
}

static void residual_signs(void **state)
{
    (void)state;
    static const char *const codecs[] = {"sign", "sign:scale=tensor",   "sign:scale=row",
                                         "1bit", "1bit:threshold=mean", "1bit:weights=yes"};
    tg__feedback_params params = {.world = 1};
    for (size_t i = 0; i < TG_COUNT(codecs); i++)
        compare("residual", codecs[i], params);
}

static void pairs_without_a_fused_pass(void **state)
{
    (void)state;
    tg__feedback_params params = {.momentum = 0.9, .clip = 1, .world = 1};
    side s;
    open_side(&s, "velocity", "topk", &params, 8);
    assert_null(tg__fused_find(&s.f, s.c));
    s.f.params.clip = 0;
    assert_non_null(tg__fused_find(&s.f, s.c));
    close_side(&s);
    open_side(&s, "residual", "fp16", &params, 8);
    assert_null(tg__fused_find(&s.f, s.c));
    close_side(&s);
    open_side(&s, "none", "topk", &params, 8);
    assert_null(tg__fused_find(&s.f, s.c));
    close_side(&s);
}

/* Too little room: the state does not change. */
static void no_room_touches_nothing(void **state)
{
    (void)state;
    static const char *const codecs[] = {
        "topk", "2bit:threshold=0.001", "2bit:threshold=auto", "strom:threshold=0.001", "int8",
        "qsgd"};
    static float before[1000];
    tg__feedback_params params = {.world = 1};
    for (size_t i = 0; i < TG_COUNT(codecs); i++) {
        side s;
        open_side(&s, "residual", codecs[i], &params, 1000);
        test_vector(s.vec[0], 1000, TEST_GRADIENT, 3);
        memcpy(before, s.vec[0], sizeof(before));
        test_vector(g, 1000, TEST_GRADIENT, 4);
        cut(&s, 1000, PARTS);
        s.parts[2].cap--;
        tg_encode_context ctx = {.struct_size = sizeof(ctx)};
        tg__fused_fn fused = tg__fused_find(&s.f, s.c);
        assert_int_equal(fused(&s.f, s.c, &ctx, g, 1000, s.parts, PARTS), TG_E_SPACE);
        assert_memory_equal(before, s.vec[0], sizeof(before));
        close_side(&s);
    }
}

/* On dyadic data: sum of what was decoded + residual = sum of gradients, exactly. */
static void error_feedback_telescopes(void **state)
{
    (void)state;
    static const char *const codecs[] = {"topk:density=0.05",
                                         "topk:density=0.2,values=f32",
                                         "topk:density=1,values=f32,scope=tensor",
                                         "2bit:threshold=0.5",
                                         "fp16",
                                         "bf16",
                                         "strom:threshold=0.5",
                                         "int8",
                                         "qsgd",
                                         "qsgd:bits=5,norm=l2"};
    enum { N = 4097 };
    static float sum[N], total[N];
    tg__feedback_params params = {.world = 1};
    for (size_t i = 0; i < TG_COUNT(codecs); i++) {
        for (int use_fused = 0; use_fused < 2; use_fused++) {
            side s;
            open_side(&s, "residual", codecs[i], &params, N);
            tg__fused_fn fused = use_fused ? tg__fused_find(&s.f, s.c) : NULL;
            memset(sum, 0, sizeof(sum));
            memset(total, 0, sizeof(total));
            for (unsigned step = 0; step < 12; step++) {
                const tg_encode_context ctx = {.struct_size = sizeof(ctx), .gradient = g};
                test_vector(g, N, TEST_DYADIC, step);
                for (size_t j = 0; j < N; j++)
                    sum[j] += g[j];
                cut(&s, N, PARTS);
                if (fused)
                    assert_int_equal(fused(&s.f, s.c, &ctx, g, N, s.parts, PARTS), TG_OK);
                else
                    stepwise(&s, &ctx, g, N, PARTS);
                for (size_t j = 0; j < PARTS; j++) {
                    const tg__part *p = &s.parts[j];
                    assert_int_equal(tg__frame_check(p->dst, p->len, p->hi - p->lo, -1), TG_OK);
                    tg__frame_decode_add(p->dst, p->len, total + p->lo, NULL);
                }
            }
            for (size_t j = 0; j < N; j++)
                assert_true(total[j] + s.vec[0][j] == sum[j]);
            close_side(&s);
        }
    }
}

/* k = n with f32 values: nothing remains; this is plain SGD's gradient. */
static void density_one_sends_everything(void **state)
{
    (void)state;
    enum { N = 1000 };
    tg__feedback_params params = {.momentum = 0.9, .masking = true, .world = 1};
    for (int i = 0; i < 2; i++) {
        side s;
        float out[N];
        open_side(&s, i ? "velocity" : "residual", "topk:density=1,values=f32", &params, N);
        for (unsigned step = 0; step < 5; step++) {
            tg_encode_context ctx = {.struct_size = sizeof(ctx)};
            test_vector(g, N, TEST_GRADIENT, step);
            cut(&s, N, 1);
            assert_int_equal(tg__fused_find(&s.f, s.c)(&s.f, s.c, &ctx, g, N, s.parts, 1), TG_OK);
            tg__frame_decode(s.parts[0].dst, s.parts[0].len, out, NULL);
            assert_memory_equal(out, g, sizeof(out));
        }
        close_side(&s);
    }
}

int main(void)
{
    each_level();
    if (tg__pool_create(2, &pool) != TG_OK)
        return 1;
    make_gradients();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(residual_topk),
        cmocka_unit_test(velocity_topk),
        cmocka_unit_test(residual_twobit),
        cmocka_unit_test(residual_twobit_auto),
        cmocka_unit_test(residual_strom),
        cmocka_unit_test(residual_quant),
        cmocka_unit_test(residual_signs),
        cmocka_unit_test(pairs_without_a_fused_pass),
        cmocka_unit_test(no_room_touches_nothing),
        cmocka_unit_test(error_feedback_telescopes),
        cmocka_unit_test(density_one_sends_everything),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tg__pool_destroy(pool);
    return failed;
}

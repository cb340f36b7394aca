/* Calls of codecs: bad arguments are named, a hand-made vector, the density of the context, tensors
 * that compete within themselves; at every instruction set level. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec_made.h"
#include "each_level.h"
#include "vectors.h"

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
    assert_int_equal(tg_codec_create("topk:select=trimmed,lookahead=2", &c), TG_E_SPEC);
    assert_int_equal(tg_codec_create("topk:lookahead=-1", &c), TG_E_SPEC);
    assert_int_equal(tg_codec_create("2bit:lookahead=1e9", &c), TG_E_SPEC);
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

static void assert_says(tg_status status, tg_status want, const char *text)
{
    assert_int_equal(status, want);
    if (strstr(tg_error(), text) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", tg_error(), text);
}

/* Memory of vector and frame that overlaps, and elements that are not finite, are refused before
 * anything is written. */
static void memory_and_elements_are_named(void **state)
{
    (void)state;
    enum { N = 8 };
    union {
        float x[64];
        uint8_t bytes[256];
    } m = {.x = {1, 2, 3, 4, 5, 6, 7, 8}};
    size_t len = 77;
    tg_codec *c = create("f32");
    const size_t bound = tg_codec_bound(c, N);
    tg_array a = tg_array_f32(m.x, N);
    static const char overlaps[] = "tg_codec_encode: dst=", decode[] = "tg_frame_decode: x->data=",
                      add[] = "tg_frame_decode_add: x->data=";
    assert_says(tg_codec_encode(c, NULL, &a, m.bytes, sizeof m, &len), TG_E_ARG, overlaps);
    assert_says(tg_codec_encode(c, NULL, &a, m.bytes + 31, sizeof m - 31, &len), TG_E_ARG,
                overlaps);
    tg_array later = tg_array_f32(m.x + 10, N);
    assert_says(tg_codec_encode(c, NULL, &later, m.bytes, sizeof m, &len), TG_E_ARG, overlaps);
    assert_int_equal(len, 77);
    /* what lies behind the largest frame is not touched */
    later = tg_array_f32(m.x + (bound + 3) / 4, N);
    assert_int_equal(tg_codec_encode(c, NULL, &later, m.bytes, sizeof m, &len), TG_OK);
    assert_says(tg_frame_decode(m.bytes, len, &a), TG_E_ARG, decode);
    assert_says(tg_frame_decode_add(m.bytes, len, &a), TG_E_ARG, add);
    assert_int_equal(tg_frame_decode(m.bytes, len, &later), TG_OK);
    m.x[60] = NAN;
    later = tg_array_f32(m.x + 56, N);
    assert_says(tg_codec_encode(c, NULL, &later, m.bytes, bound, &len), TG_E_NONFINITE,
                "tg_codec_encode: element 4 of x is nan: allowed: finite numbers");
    tg_codec_destroy(c);
}

/* Values of the context that no caller means. */
static void contexts_are_checked(void **state)
{
    (void)state;
    float x[4] = {1, 2, 3, 4}, bad[4] = {1, 1, 1, NAN}, minus[4] = {-1};
    uint8_t frame[256];
    size_t len;
    static const tg_segment two[] = {{0, 2, 2, 1, 0}, {2, 2, 2, 1, 0}};
    const tg_encode_context cases[] = {
        {.gradient = bad},
        {.scale = minus},
        {.scale = bad + 2, .segments = two, .nsegments = 2},
        {.memory = bad, .segments = two, .nsegments = 2},
        {.memory = minus},
        {.scale = (const float *)(const void *)((const char *)x + 2)}};
    static const char *const says[] = {"ctx->gradient[3]=nan: allowed: finite numbers",
                                       "ctx->scale[0]=-1: allowed: finite numbers >= 0",
                                       "ctx->scale[1]=nan",
                                       "ctx->memory[3]=nan",
                                       "ctx->memory[0]=-1",
                                       "must be aligned to 4 bytes"};
    tg_codec *c = create("2bit:threshold=auto");
    tg_array a = tg_array_f32(x, 4);
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        tg_encode_context ctx = cases[i];
        ctx.struct_size = sizeof ctx;
        assert_says(tg_codec_encode(c, &ctx, &a, frame, sizeof frame, &len), TG_E_ARG, says[i]);
    }
    tg_encode_context ctx = {.struct_size = sizeof ctx, .scale = bad, .gradient = x};
    assert_int_equal(tg_codec_encode(c, &ctx, &a, frame, sizeof frame, &len), TG_OK);
    tg_codec_destroy(c);
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

/* Two of four elements: with lookahead=2 those of the largest |x + 2 g|, as they are; without a
 * gradient those of the largest |x|. With density=1 all, even where x + 2 g is 0. A threshold is
 * compared with the same sum, and sent with its sign. */
static void the_last_gradient_decides(void **state)
{
    (void)state;
    static const float x[4] = {4, 3, -2, 1}, gradient[4] = {-1, 1, -1, -0.5f};
    static const struct {
        const char *spec;
        bool given;
        float want[4];
    } cases[] = {{"topk:density=0.5,values=f32,lookahead=2", true, {0, 3, -2, 0}},
                 {"topk:density=0.5,values=f32", true, {0, 3, -2, 0}},
                 {"topk:density=0.5,values=f32,select=trimmed", true, {4, 3, 0, 0}},
                 {"topk:density=0.5,values=f32,lookahead=2", false, {4, 3, 0, 0}},
                 {"topk:density=0.5,values=f32,lookahead=0", true, {4, 3, 0, 0}},
                 {"topk:density=0.75,values=f32,lookahead=2", true, {4, 3, -2, 0}},
                 {"topk:density=1,values=f32,lookahead=2", true, {4, 3, -2, 1}},
                 {"2bit:threshold=3.5,lookahead=2", true, {0, 3.5f, -3.5f, 0}},
                 {"2bit:threshold=3.5,lookahead=2", false, {3.5f, 0, 0, 0}},
                 {"2bit:threshold=3.5,lookahead=0", true, {3.5f, 0, 0, 0}},
                 {"2bit:threshold=3.5", true, {0, 3.5f, 0, 0}},
                 {"2bit:threshold=0.5,lookahead=10", true, {-0.5f, 0.5f, -0.5f, -0.5f}},
                 {"strom:threshold=3.5,lookahead=2", true, {0, 3.5f, -3.5f, 0}}};
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        uint8_t frame[64];
        float out[4];
        size_t len;
        tg_codec *c = create(cases[i].spec);
        tg_encode_context ctx = {.struct_size = sizeof(ctx),
                                 .gradient = cases[i].given ? gradient : NULL};
        tg_array ax = tg_array_f32(x, 4), decoded = tg_array_f32(out, 4);
        assert_int_equal(tg_codec_encode(c, &ctx, &ax, frame, sizeof(frame), &len), TG_OK);
        assert_int_equal(tg_frame_decode(frame, len, &decoded), TG_OK);
        assert_floats(out, cases[i].want, 4);
        tg_codec_destroy(c);
    }
}

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
        cmocka_unit_test(bad_arguments_are_named), cmocka_unit_test(memory_and_elements_are_named),
        cmocka_unit_test(contexts_are_checked),    cmocka_unit_test(twobit_hand_vector),
        cmocka_unit_test(density_of_the_call),     cmocka_unit_test(the_last_gradient_decides),
        cmocka_unit_test(tensors_compete_within),  cmocka_unit_test(one_tensor_is_the_bucket),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

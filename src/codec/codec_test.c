/* The contract of every codec, for the whole registry, at every instruction set level, in guard
 * pages. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec_made.h"
#include "codec_specs.h"
#include "each_level.h"
#include "guarded.h"
#include "vectors.h"

static const size_t lengths[] = {0, 1, 7, 8, 31, 33, 4097};
enum { SPECS_MAX = 96 };
static char specs[SPECS_MAX][CODEC_SPEC_MAX];

/* The memory that a codec accesses; each array is at the end or the start of its pages. */
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

/* Each codec with its defaults and with its own settings. */
static size_t all_specs(void)
{
    size_t count, total = 0;
    const tg__codec_ops *const *all = tg__codecs(&count);
    assert_true(count >= 5);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; codec_own_spec(all[i], k, specs[total]); k++)
            assert_true(++total < SPECS_MAX);
    return total;
}

/* ---- one vector ------------------------------------------------------------------------------ */

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

/* Each part decodes to its piece of the view. A sparse part selects like the whole (values may be
 * rounded frame by frame); a dense part decodes like the whole. */
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
        assert_int_equal(tg_frame_decode(frame, cut, &out), TG_E_CORRUPT); /* a wrong length */
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
            assert_true(w->out[i] == 3); /* nothing was written */
        assert_true(status == TG_OK || status == TG_E_CORRUPT || status == TG_E_MISMATCH);
        assert_int_equal(tg_frame_decode(frame, len, &out), status);
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_intact(w);
}

static void every_codec_keeps_the_rules(void **state)
{
    (void)state;
    size_t total = all_specs();
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

/* A stale hint or another size before does not change the bytes. */
static void handles_keep_nothing(void **state)
{
    (void)state;
    static float x[MAX_N], y[MAX_N];
    static uint8_t a[FRAME_MAX], b[FRAME_MAX];
    size_t total = all_specs(), a_len, b_len;
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
    size_t total = all_specs(), len = 77;
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
            /* The inner function assumes that x is finite, but must be safe if it is not. */
            tg__part part = {.dst = frame, .cap = sizeof(frame), .lo = 0, .hi = MAX_N};
            tg_status status = tg__codec_encode(c, NULL, x, MAX_N, &part, 1, NULL);
            assert_true(status == TG_OK || status == TG_E_NONFINITE);
        }
        tg_codec_destroy(c);
    }
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_codec_keeps_the_rules),
        cmocka_unit_test(handles_keep_nothing),
        cmocka_unit_test(nonfinite_vectors_are_refused_before_anything_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

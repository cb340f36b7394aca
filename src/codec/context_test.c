/* The contract of every codec when it gets a context: random numbers, segments, memory, several
 * cores; and the largest difference between decoded and encoded values. For the whole registry. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "codec_specs.h"
#include "each_level.h"
#include "kernel/kernel.h"
#include "vectors.h"
#include "telegrad/random.h"
#include <math.h>

enum { MAX_N = 3 * 65536 + 777, PARTS = 3, STEPS = 2 };
static const size_t lengths[] = {0, 1, 2, 33, 4097, MAX_N};

static float x[MAX_N], memory[1 << 20];
static float longest[STEPS][MAX_N];   /* vectors of which x is the beginning */
static uint64_t hash = TG_HASH_START; /* of all frames */

typedef struct frames {
    uint8_t *bytes[STEPS][PARTS];
    size_t len[STEPS][PARTS];
} frames;

static void frames_free(frames *f)
{
    for (int t = 0; t < STEPS; t++)
        for (int p = 0; p < PARTS; p++)
            free(f->bytes[t][p]);
}

static void assert_same(const float *a, const float *b, size_t n)
{
    if (n > 0)
        assert_memory_equal(a, b, n * sizeof *a);
}

/* The frames decode to the codec's view; also on several cores. */
static void check_decoded(const tg_codec *c, const tg__part *parts, size_t nparts,
                          const tg__view *view, size_t n, tg__pool *pool)
{
    static float want[MAX_N], got[MAX_N], twice[MAX_N];
    memset(want, 0, n * sizeof *want);
    for (size_t i = 0; view->sparse && i < view->k; i++) {
        assert_true(view->idx[i] < n && (i == 0 || view->idx[i] > view->idx[i - 1]));
        want[view->idx[i]] = view->val[i];
    }
    if (!view->sparse && n > 0)
        memcpy(want, view->dense, n * sizeof *want);
    for (size_t p = 0; p < nparts; p++) {
        const tg__part *part = &parts[p];
        size_t m = part->hi - part->lo;
        assert_true(part->len <= part->cap && part->kept <= m);
        assert_int_equal(tg__frame_check(part->dst, part->len, m, c->ops->wire_id), TG_OK);
        tg__frame_decode(part->dst, part->len, got, NULL);
        assert_same(got, want + part->lo, m);
        tg__frame_decode(part->dst, part->len, twice, pool);
        assert_same(twice, got, m);
        tg__frame_decode_add(part->dst, part->len, twice, pool);
        bool fine = true;
        for (size_t i = 0; i < m; i++)
            fine = fine && isfinite(got[i]) && twice[i] == got[i] + got[i];
        assert_true(fine);
    }
}

/* Two steps, so that a codec with memory has some contents. */
static void encode(const char *spec, size_t n, size_t nparts, unsigned threads, frames *out)
{
    const size_t cuts[] = {0, nparts == 1 ? n : n / 3, n * 2 / 3, n};
    tg_segment segments[CODEC_SEGMENTS];
    tg__pool *pool = NULL;
    tg_codec *c = NULL;
    assert_int_equal(tg__pool_create(3, &pool), TG_OK);
    assert_int_equal(tg_codec_create(spec, &c), TG_OK);
    assert_int_equal(tg_codec_set_threads(c, threads), TG_OK);
    tg_encode_context ctx = {.struct_size = sizeof ctx,
                             .rng = {.seed = 5, .purpose = TG_PURPOSE_CODEC},
                             .segments = segments,
                             .nsegments = codec_segments(n, segments),
                             .memory = memory};
    size_t remembered = ctx.nsegments * tg_codec_memory(c);
    assert_true(remembered <= TG_COUNT(memory));
    memset(memory, 0, remembered * sizeof *memory);
    for (uint64_t t = 0; t < STEPS; t++) {
        tg__part parts[PARTS];
        tg__view view = {0};
        ctx.rng.step = t;
        memcpy(x, longest[t], n * sizeof *x);
        for (size_t p = 0; p < nparts; p++) {
            size_t lo = cuts[p], hi = nparts == 1 ? n : cuts[p + 1];
            parts[p] = (tg__part){.cap = tg__codec_bound(c, hi - lo), .lo = lo, .hi = hi};
            out->bytes[t][p] = parts[p].dst = malloc(parts[p].cap);
            assert_non_null(parts[p].dst);
        }
        tg_status status = tg__codec_encode(c, &ctx, x, n, parts, nparts, &view);
        if (nparts > 1 && status == TG_E_UNSUPPORTED)
            break; /* a codec that needs whole vectors */
        assert_int_equal(status, TG_OK);
        check_decoded(c, parts, nparts, &view, n, pool);
        for (size_t p = 0; p < nparts; p++)
            out->len[t][p] = parts[p].len;
        bool fine = true;
        for (size_t i = 0; i < remembered; i++)
            fine = fine && isfinite(memory[i]);
        assert_true(fine);
    }
    tg_codec_destroy(c);
    tg__pool_destroy(pool);
}

static void check_spec(const char *spec, size_t n)
{
    for (size_t nparts = 1; nparts <= PARTS; nparts += PARTS - 1) {
        frames alone = {0}, shared = {0};
        encode(spec, n, nparts, 1, &alone);
        encode(spec, n, nparts, 3, &shared);
        for (int t = 0; t < STEPS; t++)
            for (size_t p = 0; p < nparts; p++) {
                if (alone.len[t][p] != shared.len[t][p] ||
                    (alone.len[t][p] > 0 &&
                     memcmp(alone.bytes[t][p], shared.bytes[t][p], alone.len[t][p]) != 0))
                    fail_msg("%s, n = %zu, part %zu of %zu: three cores give other bytes", spec, n,
                             p, nparts);
                hash = tg_hash(hash, alone.bytes[t][p], alone.len[t][p]);
            }
        frames_free(&alone);
        frames_free(&shared);
    }
}

static void test_contexts(void **state)
{
    (void)state;
    char spec[CODEC_SPEC_MAX];
    size_t count;
    const tg__codec_ops *const *all = tg__codecs(&count);
    for (uint64_t t = 0; t < STEPS; t++)
        test_vector(longest[t], MAX_N, TEST_GRADIENT, t + 1);
    for (size_t i = 0; i < count; i++)
        for (size_t s = 0; codec_spec(&all[i]->entry, s, spec); s++)
            for (size_t l = 0; l < TG_COUNT(lengths); l++)
                check_spec(spec, lengths[l]);
}

/* Levels run one after another, as separate programs: each appends its hash to a file, where it
 * finds those of the levels before. */
static void test_same_bytes_at_every_level(void **state)
{
    (void)state;
    const char *path = getenv("TG_TEST_HASHES");
    if (!path)
        return; /* only one level was requested */
    unsigned long long other;
    FILE *file = fopen(path, "a+");
    assert_non_null(file);
    while (fscanf(file, "%llx", &other) == 1)
        assert_true(other == (unsigned long long)hash);
    fprintf(file, "%llx\n", (unsigned long long)hash);
    assert_int_equal(fclose(file), 0);
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* What the codec promises (tg__promise). */
static void check_error(const tg__codec_ops *ops, enum test_vector kind)
{
    static float decoded[4097];
    static uint8_t frame[12 + 4 * 4097];
    const size_t n = TG_COUNT(decoded);
    tg_codec *c = NULL;
    const tg__promise *p = &ops->promise;
    size_t len;
    double largest = 0;
    assert_int_equal(tg_codec_create(ops->entry.name, &c), TG_OK);
    test_vector(x, n, kind, 3);
    tg_array ax = tg_array_f32(x, n), out = tg_array_f32(decoded, n);
    assert_int_equal(tg_codec_encode(c, NULL, &ax, frame, sizeof frame, &len), TG_OK);
    assert_int_equal(tg_frame_decode(frame, len, &out), TG_OK);
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)x[i]));
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)decoded[i] - (double)x[i]);
        double bound = p->relative * fabs((double)x[i]) + p->share * largest + p->absolute;
        if (!(error <= bound * (1 + 1e-6)))
            fail_msg("%s: %g becomes %g: an error of at most %g is promised", ops->entry.name,
                     (double)x[i], (double)decoded[i], bound);
    }
    tg_codec_destroy(c);
}

static void test_errors(void **state)
{
    (void)state;
    size_t count;
    const tg__codec_ops *const *all = tg__codecs(&count);
    for (size_t i = 0; i < count; i++) {
        const tg__promise *p = &all[i]->promise;
        const bool stated = p->relative > 0 || p->share > 0 || p->absolute > 0;
        for (int kind = 0; kind < TEST_WILD; kind++)
            if (stated || !(all[i]->properties & TG__UNBIASED))
                check_error(all[i], (enum test_vector)kind);
    }
}

int main(void)
{
    char path[] = "/tmp/telegrad-context-XXXXXX";
    const char *level = getenv("TG_CPU");
    if (!level || !*level) {
        int file = mkstemp(path);
        if (file < 0 || close(file) != 0 || setenv("TG_TEST_HASHES", path, 1) != 0)
            return 1;
        int failed;
        if (!each_level_child(&failed)) {
            unlink(path);
            return failed;
        }
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contexts),
        cmocka_unit_test(test_same_bytes_at_every_level),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

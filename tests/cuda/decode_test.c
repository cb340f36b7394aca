/* Sums of frames on a GPU, or in its emulation, beside those of the host: means of several ranks in
 * their order, and one frame added to a vector. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "codec/codec_impl.h"
#include "codec/on_gpu.h"
#include "kernel/kernel.h"
#include "telegrad/cuda.h"
#include "hard_vectors.h"
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MOST = 5, SPEC = 128 };

static const size_t sizes[] = {1,   2,   15,  16,   17,   63,    64,    65,    127,
                               511, 512, 513, 1000, 4097, 65536, 65537, 200003};

typedef enum form { AS_CODED, AS_DENSE, AS_ZERO, FORMS } form;

typedef struct frames {
    uint8_t *frame[RANKS_MOST];
    size_t len[RANKS_MOST];
} frames;

static void need(const char *spec, tg_status status, const char *what)
{
    if (status != TG_OK)
        fail_msg("%s: %s: %s", spec, what, tg_error());
}

/* A frame of the codec, in the form that is asked for; the codec may choose another than coded. */
static void make_frame(frames *fs, int rank, const char *spec, size_t n, form as)
{
    tg_codec *c;
    float *x;
    need(spec, tg_codec_create(spec, &c), "codec");
    const size_t cap = TG__MAX(tg_codec_bound(c, n), TG__FRAME_HEAD + n * sizeof *x);
    const uint8_t id = c->ops->wire_id;
    assert_int_equal(tg_alloc(n, sizeof *x, &x), TG_OK);
    assert_int_equal(tg_alloc(cap, 1, &fs->frame[rank]), TG_OK);
    vector_draw(x, n, (rank + (int)(n % 3)) % VECTOR_KINDS, n, (uint64_t)rank);
    tg__part part = {.dst = fs->frame[rank], .cap = cap, .hi = n};
    const tg_encode_context ctx = {.struct_size = sizeof ctx,
                                   .rng = {.seed = n, .rank = (uint32_t)rank}};
    const tg_array array = tg_array_f32(x, n);
    if (as == AS_CODED)
        need(spec, tg_codec_encode(c, &ctx, &array, part.dst, cap, &part.len), "encode");
    else if (as == AS_DENSE)
        tg__part_dense(&part, id, x);
    else
        tg__part_zero(&part, id);
    fs->len[rank] = part.len;
    assert_int_equal(tg__frame_check(part.dst, part.len, n, id), TG_OK);
    free(x);
    tg_codec_destroy(c);
}

static void free_frames(frames *fs)
{
    for (size_t i = 0; i < RANKS_MOST; i++)
        free(fs->frame[i]);
    *fs = (frames){0};
}

static bool same(const float *a, const float *b)
{
    return memcmp(a, b, sizeof *a) == 0 || (isnan(*a) && isnan(*b)); /* of NaNs, any */
}

/* Start from x, on the host and on the device. */
static void compare(const char *spec, const frames *fs, size_t count, const float *x, size_t n,
                    bool add, bool pinned)
{
    const tg_device_ops *ops = tg__device();
    const float share = add ? 1.0f : 1.0f / (float)count;
    tg_queue *q;
    float *host, *seen, *device;
    need(spec, ops->queue_create(0, &q), "queue");
    assert_int_equal(tg_alloc(n, sizeof *host, &host), TG_OK);
    assert_int_equal(tg_alloc(n, sizeof *seen, &seen), TG_OK);
    need(spec, ops->alloc(q, (n + 1) * sizeof *device, (void **)&device), "alloc");
    float *at = device + n % 2; /* aligned to 4 bytes only, if n is odd */
    if (add)
        memcpy(host, x, n * sizeof *host);
    need(spec, ops->copy_in(q, at, x, n * sizeof *x), "copy_in");
    for (size_t i = 0; i < count; i++) {
        tg__frame_decode_add(fs->frame[i], fs->len[i], host, NULL);
        if (pinned)
            ops->pin(q, fs->frame[i], fs->len[i]);
    }
    if (!add)
        tg__kernel()->scale(host, share, n);
    bool finite = false, want = tg__kernel()->all_finite(host, n);
    const uint8_t *frame[RANKS_MOST];
    memcpy(frame, fs->frame, sizeof frame);
    need(spec, ops->decode(q, frame, fs->len, count, at, n, add, share, &finite), "decode");
    need(spec, ops->copy_out(q, seen, at, n * sizeof *seen), "copy_out");
    need(spec, ops->finish(q), "finish");
    for (size_t i = 0; i < n; i++)
        if (!same(&host[i], &seen[i]))
            fail_msg("%s: n=%zu, %zu frames%s: element %zu: host %a, device %a", spec, n, count,
                     add ? " added" : "", i, (double)host[i], (double)seen[i]);
    if (finite != want)
        fail_msg("%s: n=%zu, %zu frames: finite: host %d, device %d", spec, n, count, want, finite);
    for (size_t i = 0; pinned && i < count; i++)
        ops->unpin(q, fs->frame[i]);
    ops->release(q, device);
    ops->queue_destroy(q);
    free(host);
    free(seen);
}

/* Forms of the ranks' frames, one digit each. */
static const char *const mixes[] = {"0",   "1",   "2",   "00",    "02",    "20",   "22",
                                    "012", "201", "000", "22222", "01020", "20101"};

static void try_size(const char *spec, size_t n)
{
    float *x;
    assert_int_equal(tg_alloc(n, sizeof *x, &x), TG_OK);
    for (size_t mix = 0; mix < TG_COUNT(mixes); mix++) {
        const size_t count = strlen(mixes[mix]);
        frames fs = {0};
        if (n > 5000 && mix % 4 != n % 4)
            continue;
        for (size_t i = 0; i < count; i++)
            make_frame(&fs, (int)i, spec, n, (form)(mixes[mix][i] - '0'));
        vector_draw(x, n, (int)(mix % 2) * VECTOR_ZERO, n, 99); /* with zeros of both signs */
        compare(spec, &fs, count, x, n, false, mix % 2 == 0);
        if (count == 1)
            compare(spec, &fs, count, x, n, true, n % 2 == 0);
        if (count > 1)
            compare(spec, &fs, 1, x, n, true, false);
        free_frames(&fs);
    }
    free(x);
}

static void test_codec(void **state)
{
    const tg__codec_ops *codec = *state;
    const char *const *settings = codec->promise.settings;
    for (size_t i = 0; i == 0 || (settings != NULL && settings[i - 1] != NULL); i++) {
        char spec[SPEC];
        (void)snprintf(spec, sizeof spec, "%s%s%s", codec->entry.name, i == 0 ? "" : ":",
                       i == 0 ? "" : settings[i - 1]);
        for (size_t size = 0; size < TG_COUNT(sizes); size++)
            if (sizes[size] < 100000 || i == 0)
                try_size(spec, sizes[size]);
    }
}

/* Sums that overflow are not finite; no frame is needed to be. */
static void test_overflow(void **state)
{
    enum { N = 1000 };
    float x[N] = {0};
    frames fs = {0};
    (void)state;
    for (int rank = 0; rank < 2; rank++) {
        make_frame(&fs, rank, "f32", N, AS_ZERO);
        free(fs.frame[rank]);
        fs.len[rank] = TG__FRAME_HEAD + sizeof x;
        assert_int_equal(tg_alloc(fs.len[rank], 1, &fs.frame[rank]), TG_OK);
        x[N - 3] = 3e38f;
        tg__part part = {.dst = fs.frame[rank], .cap = fs.len[rank], .hi = N};
        tg__part_dense(&part, TG__ID_f32, x);
    }
    compare("f32 overflow", &fs, 2, x, N, false, false);
    compare("f32 overflow", &fs, 1, x, N, true, false);
    free_frames(&fs);
}

/* What the other members of the table do with elements. */
static void test_elementwise(void **state)
{
    enum { N = 70001 };
    const tg_device_ops *ops = tg__device();
    const tg__kernels *k = tg__kernel();
    tg_queue *q;
    float *x, *seen, *device;
    uint16_t *half, *words;
    (void)state;
    need("elementwise", ops->queue_create(0, &q), "queue");
    need("elementwise", tg_alloc(N, sizeof *x, &x), "alloc");
    need("elementwise", tg_alloc(N, sizeof *seen, &seen), "alloc");
    need("elementwise", tg_alloc(N, sizeof *half, &half), "alloc");
    need("elementwise", tg_alloc(N, sizeof *words, &words), "alloc");
    need("elementwise", ops->alloc(q, 2 * N * sizeof *x, (void **)&device), "alloc");
    float *wide = device + N;
    for (int brain = 0; brain < 2; brain++) {
        const tg_dtype dtype = brain ? TG_BF16 : TG_F16;
        for (size_t i = 0; i < N; i++) { /* all exponents, with ties; NaN and infinity */
            const uint32_t bits = (uint32_t)(i * 61356) ^ (i % 7 == 0 ? 0x1000u : 0u);
            memcpy(&x[i], &bits, sizeof bits);
        }
        need("narrow", ops->copy_in(q, device, x, N * sizeof *x), "copy_in");
        need("narrow", ops->narrow(q, wide, device, dtype, N), "narrow");
        need("narrow", ops->copy_out(q, half, wide, N * sizeof *half), "copy_out");
        need("narrow", ops->finish(q), "finish");
        (brain ? k->bf16_encode : k->f16_encode)(words, x, N);
        for (size_t i = 0; i < N; i++)
            if (half[i] != words[i])
                fail_msg("narrow %d: %a: host %#x, device %#x", brain, (double)x[i], words[i],
                         half[i]);
        for (size_t i = 0; i < N; i++)
            words[i] = (uint16_t)i;
        need("widen", ops->copy_in(q, device, words, N * sizeof *words), "copy_in");
        need("widen", ops->widen(q, wide, device, dtype, N), "widen");
        need("widen", ops->copy_out(q, seen, wide, N * sizeof *seen), "copy_out");
        need("widen", ops->finish(q), "finish");
        (brain ? k->bf16_decode : k->f16_decode)(x, words, N);
        for (size_t i = 0; i < N; i++)
            if (!same(&x[i], &seen[i]))
                fail_msg("widen %d: %#x: host %a, device %a", brain, words[i], (double)x[i],
                         (double)seen[i]);
    }
    vector_draw(x, N, VECTOR_MIXED, 1, 1);
    need("scale", ops->copy_in(q, device, x, N * sizeof *x), "copy_in");
    need("scale", ops->scale(q, device + 1, 0.3f, N - 1), "scale");
    need("scale", ops->copy_out(q, seen, device, N * sizeof *x), "copy_out");
    need("scale", ops->finish(q), "finish");
    k->scale(x + 1, 0.3f, N - 1);
    assert_memory_equal(x, seen, N * sizeof *x);
    size_t first;
    need("stray", ops->stray(q, device, N, FLT_MAX, &first), "stray");
    assert_int_equal(first, N);
    const float strays[] = {1e20f, NAN, -1e21f, INFINITY};
    for (size_t i = 0; i < 40; i++) {
        const size_t at = N - 1 - i * 1733;
        need("stray", ops->copy_in(q, device + at, &strays[i % 4], sizeof *x), "copy_in");
        need("stray", ops->stray(q, device + 1, N - 1, 1e19f, &first), "stray");
        assert_int_equal(first, at - 1);
    }
    need("zero", ops->zero(q, device + 3, N - 5), "zero");
    need("zero", ops->copy(q, wide, device, N * sizeof *x), "copy");
    need("zero", ops->copy_out(q, seen, wide, N * sizeof *x), "copy_out");
    need("zero", ops->finish(q), "finish");
    for (size_t i = 3; i < N - 2; i++)
        assert_true(seen[i] == 0 && !signbit(seen[i]));
    assert_true(memcmp(seen, x, 3 * sizeof *x) == 0);
    ops->release(q, device);
    ops->queue_destroy(q);
    free(x);
    free(seen);
    free(half);
    free(words);
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
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(test_elementwise);
    tests[used++] = (struct CMUnitTest)cmocka_unit_test(test_overflow);
    for (size_t i = 0; i < count && used < TG_COUNT(tests); i++) {
        const char *name = all[i]->entry.name;
        if (tg__device()->decodes(name) && (argc < 2 || strcmp(argv[1], name) == 0))
            tests[used++] = (struct CMUnitTest){
                .name = name, .test_func = test_codec, .initial_state = (void *)(uintptr_t)all[i]};
    }
    return _cmocka_run_group_tests("sums", tests, used, NULL, NULL);
}

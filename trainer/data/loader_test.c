/* Batches: they are functions of their number; every sample occurs once; rows of a text continue;
 * labels are the next tokens. Also the thread that prepares them ahead. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "trainer/data/augment.h"
#include "trainer/data/loader.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

extern const data_set data_text;

static train_data *images;

static int open_images(void **state)
{
    (void)state;
    return train_data_open("glyphs:train=103,test=31,augment=crop-flip", 0, &images) == TG_OK ? 0
                                                                                              : -1;
}

static int close_images(void **state)
{
    (void)state;
    train_data_close(images);
    return 0;
}

/* A text whose token i is i, for training and for testing. */
enum { TEXT = 1000 };
static int32_t numbers[TEXT];

static train_data text_of(size_t n)
{
    for (int32_t i = 0; i < TEXT; i++)
        numbers[i] = i;
    const data_part part = {.tokens = numbers, .count = n};
    return (train_data){.set = &data_text, .view = {part, part}, .vocabulary = TEXT};
}

static loader *make(const train_data *d, data_split split, loader_config config)
{
    loader *l;
    OK(loader_create(d, split, &config, &l));
    return l;
}

static model_batch next(loader *l)
{
    model_batch b;
    OK(loader_next(l, &b));
    return b;
}

/* ---- images ---------------------------------------------------------------------------------- */

/* An augmented image does not show which image it was made from, so labels are counted. */
static void test_epoch(void **state)
{
    (void)state;
    enum { P = 3, BATCH = 4, STEPS = 8, EPOCHS = 3 };
    loader *one =
        make(images, DATA_TRAIN, (loader_config){.batch = P * BATCH, .seed = 5, .world = 1});
    loader *many[P],
        *parts = make(images, DATA_TRAIN,
                      (loader_config){.batch = BATCH, .seed = 5, .world = 1, .parts = P});
    for (int r = 0; r < P; r++)
        many[r] = make(images, DATA_TRAIN,
                       (loader_config){.batch = BATCH, .seed = 5, .rank = r, .world = P});
    assert_int_equal(loader_steps_per_epoch(one), STEPS);
    assert_int_equal(loader_steps_per_epoch(many[2]), STEPS);
    assert_int_equal(loader_steps_per_epoch(parts), STEPS);
    for (int step = 0; step < STEPS * EPOCHS; step++) {
        const model_batch all = next(one);
        for (int r = 0; r < P; r++) {
            const model_batch part = next(many[r]), of_step = next(parts);
            const size_t bytes = BATCH * DATA_PIXELS * sizeof *part.x;
            assert_int_equal(part.count, BATCH);
            assert_memory_equal(part.x, all.x + (size_t)r * BATCH * DATA_PIXELS, bytes);
            assert_memory_equal(part.labels, all.labels + r * BATCH, BATCH * sizeof(int32_t));
            assert_memory_equal(of_step.x, part.x, bytes);
        }
    }
    loader_destroy(one);
    loader_destroy(parts);
    for (int r = 0; r < P; r++)
        loader_destroy(many[r]);
}

/* Any step can be the first one. */
static void resume(const train_data *d, loader_config config, size_t floats, size_t tokens)
{
    for (uint64_t first = 0; first < 25; first += first < 3 ? 1 : 7) {
        config.first_step = 0;
        loader *from_start = make(d, DATA_TRAIN, config);
        for (uint64_t i = 0; i < first * (config.parts ? config.parts : 1); i++)
            next(from_start);
        config.first_step = first;
        loader *later = make(d, DATA_TRAIN, config);
        for (int i = 0; i < 5; i++) {
            const model_batch a = next(from_start), b = next(later);
            if (floats > 0)
                assert_memory_equal(a.x, b.x, floats * sizeof(float));
            if (tokens > 0)
                assert_memory_equal(a.tokens, b.tokens, tokens * sizeof(int32_t));
            assert_memory_equal(a.labels, b.labels,
                                (tokens ? tokens : config.batch) * sizeof(int32_t));
        }
        loader_destroy(from_start);
        loader_destroy(later);
    }
}

static void test_resume(void **state)
{
    (void)state;
    const train_data text = text_of(TEXT);
    loader_config c = {.batch = 6, .seed = 2, .rank = 1, .world = 2};
    resume(images, c, 6 * DATA_PIXELS, 0);
    c.shard = "dirichlet:alpha=0.3";
    resume(images, c, 6 * DATA_PIXELS, 0);
    c = (loader_config){.batch = 3, .context = 7, .seed = 2, .rank = 1, .world = 2, .parts = 2};
    resume(&text, c, 0, 21);
    c.stream = true;
    resume(&text, c, 0, 21);
}

static void test_shutdown(void **state)
{
    (void)state;
    for (int calls = 0; calls < 6; calls++) {
        loader *l = make(images, DATA_TRAIN, (loader_config){.batch = 8, .world = 1});
        for (int i = 0; i < calls; i++)
            next(l);
        loader_destroy(l);
    }
    loader_destroy(NULL);
}

/* Every test image occurs once, in order, with any number of ranks; then all over again. */
static void test_testing(void **state)
{
    (void)state;
    for (int world = 1; world <= 40; world += 13) { /* the last has more ranks than images */
        size_t at = 0;
        for (int rank = 0; rank < world; rank++) {
            loader *l =
                make(images, DATA_TEST, (loader_config){.batch = 4, .rank = rank, .world = world});
            const uint64_t count = loader_steps_per_epoch(l);
            const size_t begin = at;
            model_batch b;
            if (count == 0) {
                assert_int_equal(loader_next(l, &b), TG_E_STATE);
                loader_destroy(l);
                continue;
            }
            for (int round = 0; round < 2; round++) {
                at = begin;
                for (uint64_t i = 0; i < count; i++) {
                    b = next(l);
                    for (size_t j = 0; j < b.count; j++, at++) {
                        float x[DATA_PIXELS];
                        int32_t label;
                        data_sample(images, DATA_TEST, at, x, &label);
                        assert_int_equal(b.labels[j], label);
                        assert_memory_equal(b.x + j * DATA_PIXELS, x, sizeof x);
                    }
                }
            }
            loader_destroy(l);
        }
        assert_int_equal(at, train_data_test(images));
    }
}

/* Whether x is the image moved by at most 4, black outside of it, and possibly mirrored. */
static bool is_crop(const float *x, const float *image, float black, int down, int right,
                    bool mirrored)
{
    for (int i = 0; i < DATA_SIDE; i++) {
        for (int j = 0; j < DATA_SIDE; j++) {
            const int row = i + down, column = (mirrored ? DATA_SIDE - 1 - j : j) + right;
            const bool inside = row >= 0 && row < DATA_SIDE && column >= 0 && column < DATA_SIDE;
            const float want = inside ? image[row * DATA_SIDE + column] : black;
            if (memcmp(&want, &x[i * DATA_SIDE + j], sizeof want) != 0)
                return false;
        }
    }
    return true;
}

static void test_augment(void **state)
{
    (void)state;
    enum { TIMES = 400 };
    float image[DATA_PIXELS], x[DATA_PIXELS], again[DATA_PIXELS];
    int32_t label, other;
    int place[9][9] = {{0}}, mirrored = 0, moved = 0;
    data_sample(images, DATA_TRAIN, 8, image, &label);
    for (uint64_t pass = 0; pass < TIMES; pass++) {
        int found = 0;
        augment_crop_flip(images, 3, pass, 8, x, &other);
        augment_crop_flip(images, 3, pass, 8, again, &other);
        assert_memory_equal(x, again, sizeof x);
        assert_int_equal(label, other);
        for (int down = -4; down <= 4; down++) {
            for (int right = -4; right <= 4; right++) {
                for (int flip = 0; flip < 2; flip++) {
                    if (!is_crop(x, image, images->value[0][0], down, right, flip))
                        continue;
                    found++;
                    place[down + 4][right + 4]++;
                    mirrored += flip;
                }
            }
        }
        assert_int_equal(found, 1);
    }
    for (int i = 0; i < 81; i++)
        moved += place[i / 9][i % 9] > 0;
    assert_true(moved > 70); /* of 81 positions */
    assert_in_range(mirrored, TIMES / 2 - 50, TIMES / 2 + 50);
    augment_crop_flip(images, 3, 0, 9, x, &other); /* each image is moved differently */
    augment_crop_flip(images, 3, 0, 8, again, &other);
    assert_true(memcmp(x, again, sizeof x) != 0);
}

/* Each image belongs to one rank, and each rank sees all of its images in a pass. */
static void test_shards(void **state)
{
    (void)state;
    enum { P = 4, BATCH = 5 };
    uint64_t counts[P][DATA_CLASSES], seen[DATA_CLASSES];
    const char *const shards[] = {"dirichlet:alpha=0.5", "label:classes=3"};
    for (int k = 0; k < 2; k++) {
        OK(train_data_shards(images, shards[k], 7, P, &counts[0][0]));
        for (int r = 0; r < P; r++) {
            loader *l =
                make(images, DATA_TRAIN,
                     (loader_config){
                         .batch = BATCH, .seed = 7, .rank = r, .world = P, .shard = shards[k]});
            assert_int_equal(loader_steps_per_epoch(l), 103 / (P * BATCH));
            uint64_t mine = 0;
            for (int c = 0; c < DATA_CLASSES; c++)
                mine += counts[r][c];
            memset(seen, 0, sizeof seen);
            for (uint64_t i = 0; i < mine; i++) { /* BATCH passes */
                const model_batch b = next(l);
                for (int j = 0; j < BATCH; j++)
                    seen[b.labels[j]]++;
            }
            for (int c = 0; c < DATA_CLASSES; c++)
                assert_int_equal(seen[c], BATCH * counts[r][c]);
            loader_destroy(l);
        }
    }
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void test_stream(void **state)
{
    (void)state;
    enum { P = 2, BATCH = 3, CONTEXT = 8, ROW = (TEXT - 1) / (P * BATCH), STEPS = ROW / CONTEXT };
    const train_data text = text_of(TEXT);
    for (int r = 0; r < P; r++) {
        loader *l =
            make(&text, DATA_TRAIN,
                 (loader_config){
                     .batch = BATCH, .context = CONTEXT, .rank = r, .world = P, .stream = true});
        assert_int_equal(loader_steps_per_epoch(l), STEPS);
        for (int step = 0; step < 2 * STEPS; step++) {
            const model_batch b = next(l);
            for (int row = 0; row < BATCH; row++) {
                for (int i = 0; i < CONTEXT; i++) {
                    const int at = (r * BATCH + row) * ROW + step % STEPS * CONTEXT + i;
                    assert_int_equal(b.tokens[row * CONTEXT + i], at);
                    assert_int_equal(b.labels[row * CONTEXT + i], at + 1);
                }
            }
        }
        loader_destroy(l);
    }
}

/* Windows lie anywhere inside the text, and differ between rows, ranks and steps. */
static void test_windows(void **state)
{
    (void)state;
    enum { N = 100, P = 2, BATCH = 2, CONTEXT = 10, STEPS = (N - 1) / (P * BATCH * CONTEXT) };
    const train_data text = text_of(N);
    int start[N] = {0}, places = 0;
    for (int r = 0; r < P; r++) {
        loader *l =
            make(&text, DATA_TRAIN,
                 (loader_config){.batch = BATCH, .context = CONTEXT, .rank = r, .world = P});
        assert_int_equal(loader_steps_per_epoch(l), STEPS);
        for (int step = 0; step < 500; step++) {
            const model_batch b = next(l);
            for (int row = 0; row < BATCH; row++) {
                const int32_t *tokens = b.tokens + row * CONTEXT;
                assert_in_range(tokens[0], 0, N - 1 - CONTEXT);
                start[tokens[0]]++;
                for (int i = 0; i < CONTEXT; i++) {
                    assert_int_equal(tokens[i], tokens[0] + i);
                    assert_int_equal(b.labels[row * CONTEXT + i], tokens[i] + 1);
                }
            }
        }
        loader_destroy(l);
    }
    for (int i = 0; i < N; i++) /* 2000 draws of 90 places: 22 each; equal rows leave gaps */
        places += start[i] > 4 && start[i] < 50;
    assert_int_equal(places, N - CONTEXT);
}

/* Contiguous: the windows of a rank, and their labels, lie anywhere in its piece of the text. */
static void test_pieces(void **state)
{
    (void)state;
    enum { N = 101, P = 3, CONTEXT = 10, PIECE = (N - 1) / P };
    const train_data text = text_of(N);
    for (int r = 0; r < P; r++) {
        const int begin = (N - 1) * r / P, end = (N - 1) * (r + 1) / P; /* of labels */
        loader *l =
            make(&text, DATA_TRAIN,
                 (loader_config){
                     .batch = 1, .context = CONTEXT, .rank = r, .world = P, .shard = "contiguous"});
        int least = N, most = 0;
        for (int step = 0; step < 500; step++) {
            const model_batch b = next(l);
            for (int i = 0; i < CONTEXT; i++)
                assert_int_equal(b.labels[i], b.tokens[0] + i + 1);
            least = b.tokens[0] < least ? b.tokens[0] : least;
            most = b.labels[CONTEXT - 1] > most ? b.labels[CONTEXT - 1] : most;
        }
        assert_int_equal(least, begin);
        assert_int_equal(most, end);
        loader_destroy(l);
    }
}

/* Every token but the first is predicted once, from the token before it. */
static void predict_all(size_t n, size_t batch, size_t context, int world, bool stream)
{
    const train_data text = text_of(n);
    int count[TEXT] = {0};
    for (int rank = 0; rank < world; rank++) {
        loader *l = make(&text, DATA_TEST,
                         (loader_config){.batch = batch,
                                         .context = context,
                                         .rank = rank,
                                         .world = world,
                                         .stream = stream});
        int32_t last[64];
        memset(last, -1, sizeof last);
        for (uint64_t i = loader_steps_per_epoch(l); i > 0; i--) {
            const model_batch b = next(l);
            size_t labels = 0;
            for (size_t at = 0; at < b.count * context; at++) {
                if (b.labels[at] < 0)
                    continue;
                labels++;
                assert_int_equal(b.labels[at], b.tokens[at] + 1);
                count[b.labels[at]]++;
                if (stream && at % context == 0 && last[at / context] >= 0)
                    assert_int_equal(b.tokens[at], last[at / context]); /* the row continues */
                last[at / context] = b.labels[at];
            }
            assert_true(labels > 0);
        }
        loader_destroy(l);
    }
    assert_int_equal(count[0], 0);
    for (size_t i = 1; i < n; i++)
        assert_int_equal(count[i], 1);
    assert_int_equal(data_test_labels(&text), n - 1);
}

static void test_predict(void **state)
{
    (void)state;
    const size_t lengths[] = {2, 3, 30, 257, 1000};
    for (size_t i = 0; i < 5; i++) {
        for (int world = 1; world <= 4; world++) {
            for (int stream = 0; stream < 2; stream++) {
                predict_all(lengths[i], 1, 1, world, stream);
                predict_all(lengths[i], 3, 5, world, stream);
                predict_all(lengths[i], 20, 35, world, stream);
                predict_all(lengths[i], 64, 2, world, stream);
            }
        }
    }
}

/* ---- refused --------------------------------------------------------------------------------- */

static void refused(const train_data *d, loader_config c, tg_status status, const char *says)
{
    loader *l;
    assert_int_equal(loader_create(d, DATA_TRAIN, &c, &l), status);
    if (!strstr(tg_error(), says))
        fail_msg("\"%s\" does not say \"%s\"", tg_error(), says);
}

static void test_refused(void **state)
{
    (void)state;
    const train_data text = text_of(100);
    refused(images, (loader_config){.batch = 52, .world = 2}, TG_E_ARG,
            "--batch 52: allowed: 1 to 51 (103 training samples over 2 ranks)");
    refused(images, (loader_config){.batch = 26, .world = 2, .parts = 2}, TG_E_ARG,
            "--accumulate 2: allowed: 1 to 1 (51 training samples a rank");
    refused(images, (loader_config){.batch = 1, .world = 1, .shard = "odd"}, TG_E_SPEC,
            "unknown shard");
    refused(&text, (loader_config){.batch = 10, .context = 10, .world = 1}, TG_E_ARG,
            "--batch 10: allowed: 1 to 9 (100 training tokens over 1 rank)");
    refused(&text, (loader_config){.batch = 10, .world = 1}, TG_E_ARG, "--context 0");
    refused(&text, (loader_config){.batch = 1, .context = 50, .world = 2}, TG_E_ARG,
            "--context 50: allowed: 1 to 49 (100 training tokens over 2 ranks)");
    refused(images, (loader_config){.batch = 1, .world = 104}, TG_E_ARG,
            "103 training samples over 104 ranks: allowed: at most 103 ranks");
    refused(&text, (loader_config){.batch = 1, .context = 1, .world = 1, .shard = "label"},
            TG_E_ARG, "which has no classes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epoch),    cmocka_unit_test(test_resume),
        cmocka_unit_test(test_shutdown), cmocka_unit_test(test_testing),
        cmocka_unit_test(test_augment),  cmocka_unit_test(test_shards),
        cmocka_unit_test(test_stream),   cmocka_unit_test(test_windows),
        cmocka_unit_test(test_pieces),   cmocka_unit_test(test_predict),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, open_images, close_images);
}

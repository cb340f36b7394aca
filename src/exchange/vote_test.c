/* Majority vote: truth tables, ties, abstaining ranks, in every exchange, frame by frame and all at
 * once. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "each_level.h"
#include "exchange/exchange.h"
#include "vectors.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_N = 70001, MAX_P = 64, MAX_WISHES = 4 * MAX_P * MAX_P };

static float vote[MAX_P][MAX_N], out[MAX_N]; /* 0 everywhere: the rank abstains */
static size_t n;
static int P;

static float verdict(size_t i)
{
    int sum = 0;
    for (int r = 0; r < P; r++)
        sum += vote[r][0] == 0 ? 0 : vote[r][i] < 0 ? -1 : 1;
    return (float)((sum > 0) - (sum < 0));
}

static bool abstains(int r)
{
    return n == 0 || vote[r][0] == 0;
}

/* Run all ranks in one thread: messages are copied when both ends have returned them as wishes. */
static void play(const char *exchange)
{
    static tg__wish open[MAX_WISHES];
    static int owner[MAX_WISHES];
    tg__exchange *x[MAX_P];
    tg_codec *codec;
    size_t count = 0;
    assert_int_equal(tg_codec_create("sign", &codec), TG_OK);
    for (int r = 0; r < P; r++) {
        assert_int_equal(tg__exchange_create(tg__exchange_find(exchange), r, P, n, codec,
                                             &tg__combine_vote, &x[r]),
                         TG_OK);
        for (size_t p = 0; abstains(r) && p < x[r]->nparts; p++)
            tg__part_zero(&x[r]->parts[p], codec->ops->wire_id);
        if (!abstains(r))
            assert_int_equal(
                tg__codec_encode(codec, NULL, vote[r], n, x[r]->parts, x[r]->nparts, NULL), TG_OK);
        assert_int_equal(x[r]->ops->start(x[r]), TG_OK);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < P; r++) {
            size_t more;
            while ((more = x[r]->ops->wants(x[r], open + count, MAX_WISHES - count)) > 0)
                for (; more > 0; more--)
                    owner[count++] = r;
        }
        for (size_t s = 0; s < count; s++)
            for (size_t t = 0; open[s].send && owner[s] >= 0 && t < count; t++) {
                if (open[t].send || owner[t] != open[s].peer || open[t].peer != owner[s] ||
                    open[t].round != open[s].round)
                    continue;
                int from = owner[s], to = owner[t];
                memcpy(open[t].msg + TG__ENVELOPE_BYTES, open[s].msg + TG__ENVELOPE_BYTES,
                       open[s].len);
                assert_int_equal(x[from]->ops->done(x[from], open[s].id, open[s].len), TG_OK);
                assert_int_equal(x[to]->ops->done(x[to], open[t].id, open[s].len), TG_OK);
                owner[s] = owner[t] = -1;
                moved = true;
            }
    }
    for (int r = 0; r < P; r++) {
        assert_true(x[r]->ops->finished(x[r]));
        x[r]->ops->result(x[r], out);
        for (size_t i = 0; i < n; i++)
            if (out[i] != verdict(i))
                fail_msg("%s, rank %d of %d, element %zu: %g, not %g", exchange, r, P, i,
                         (double)out[i], (double)verdict(i));
        tg__exchange_destroy(x[r]);
    }
    tg_codec_destroy(codec);
}

/* All possible votes of up to 4 ranks; 0 and -0 are votes for plus. */
static void truth_table(void **state)
{
    (void)state;
    for (P = 1; P <= 4; P++) {
        n = (size_t)1 << P;
        for (int r = 0; r < P; r++)
            for (size_t i = 0; i < n; i++)
                vote[r][i] = i >> r & 1 ? -0.25f : i % 3 ? 3.0f : 1e-30f;
        play("allgather");
        play("direct");
    }
}

/* Ranks whose gradient was not finite send zero frames, which are no votes: the result is 0 if
 * nobody votes. */
static void the_dead_do_not_vote(void **state)
{
    (void)state;
    n = 100;
    P = 5;
    for (int dead = 0; dead < 32; dead++) {
        for (int r = 0; r < P; r++) {
            test_vector(vote[r], n, TEST_GRADIENT, (uint64_t)r + 1);
            if (dead >> r & 1)
                memset(vote[r], 0, sizeof vote[r]);
        }
        play("allgather");
        play("direct");
    }
}

static void many_ranks(void **state)
{
    (void)state;
    static const int sizes[] = {1, 2, 7, 16, 64};
    static const size_t ns[] = {0, 1, 9, 1000, MAX_N};
    for (size_t s = 0; s < TG_COUNT(sizes); s++)
        for (size_t l = 0; l < TG_COUNT(ns); l++) {
            P = sizes[s];
            n = ns[l];
            if (n == MAX_N && P > 7)
                continue;
            for (int r = 0; r < P; r++)
                test_vector(vote[r], n, TEST_GRADIENT, (uint64_t)(r + 3));
            play("allgather");
            if (n < MAX_N)
                play("direct");
        }
}

/* all() equals begin(), add() in order and finish(), also with threads; frames of other kinds
 * abstain. */
static void one_by_one(void **state)
{
    (void)state;
    static uint8_t frames[8][12 + 4 * MAX_N];
    static float sum[MAX_N];
    static const char *const specs[] = {"sign", "sign", "sign", "sign:scale=row", "sign", "f32"};
    enum { FRAMES = TG_COUNT(specs) };
    const uint8_t *list[FRAMES];
    size_t lens[FRAMES];
    tg__pool *pool;
    assert_int_equal(tg__pool_create(3, &pool), TG_OK);
    memset(sum, 0, sizeof sum);
    for (size_t f = 0; f < FRAMES; f++) {
        tg_codec *c;
        test_vector(vote[f], MAX_N, TEST_GRADIENT, f);
        tg_array x = tg_array_f32(vote[f], MAX_N);
        assert_int_equal(tg_codec_create(specs[f], &c), TG_OK);
        assert_int_equal(tg_codec_encode(c, NULL, &x, frames[f], sizeof frames[f], &lens[f]),
                         TG_OK);
        tg_codec_destroy(c);
        list[f] = frames[f];
        tg__combine_vote.add(sum, MAX_N, frames[f], lens[f], NULL);
    }
    tg__combine_vote.finish(sum, MAX_N, FRAMES);
    const tg__exchange x = {.size = FRAMES, .n = MAX_N, .pool = pool};
    tg__combine_vote.all(&x, out, list, lens);
    assert_memory_equal(out, sum, sizeof sum);
    tg__pool_destroy(pool);
}

int main(void)
{
    each_level();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truth_table),
        cmocka_unit_test(the_dead_do_not_vote),
        cmocka_unit_test(many_ranks),
        cmocka_unit_test(one_by_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

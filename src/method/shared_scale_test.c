/* TernGrad among ranks: the scaler is the largest of all, tensor by tensor; what goes over the wire
 * has the right mean; nobody needs the gradient after begin. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "method/method.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { P = 3, N = 1000, FIRST = 100 };

typedef struct rank {
    tg__state *state;
    tg__method *m;
    tg__task task;
    tg__exchange *x;
    float g[N];
} rank;

static rank ranks[P];

static void start(const char *text)
{
    static const char *const names[] = {"a", "b"};
    static const size_t len[] = {FIRST, N - FIRST}, cols[] = {1, 1};
    memset(ranks, 0, sizeof ranks);
    for (int r = 0; r < P; r++) {
        assert_int_equal(tg__state_create(&ranks[r].state), TG_OK);
        tg__method_setup setup = {.rank = r,
                                  .size = P,
                                  .seed = 1,
                                  .steps_per_epoch = 5,
                                  .tensor = names,
                                  .len = len,
                                  .rows = len,
                                  .cols = cols,
                                  .count = 2,
                                  .lanes = 1,
                                  .may_bypass = true,
                                  .momentum = (double)NAN,
                                  .nesterov = -1,
                                  .state = ranks[r].state};
        if (tg__method_create(text, &setup, &ranks[r].m) != TG_OK)
            fail_msg("%s: %s", text, tg_error());
    }
}

static void stop(void)
{
    for (int r = 0; r < P; r++) {
        tg__method_destroy(ranks[r].m);
        tg__state_destroy(ranks[r].state);
    }
}

/* All ranks' exchanges, by hand: every message goes where it is awaited. */
static void exchange(void)
{
    enum { MAX = 64 };
    static tg__wish wish[P][MAX];
    size_t count[P] = {0};
    for (int r = 0; r < P; r++)
        assert_int_equal(ranks[r].x->ops->start(ranks[r].x), TG_OK);
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < P; r++)
            count[r] += ranks[r].x->ops->wants(ranks[r].x, wish[r] + count[r], MAX - count[r]);
        for (int r = 0; r < P && !moved; r++)
            for (size_t i = 0; i < count[r] && !moved; i++) {
                const tg__wish s = wish[r][i];
                for (size_t j = 0; s.send && j < count[s.peer] && !moved; j++) {
                    const tg__wish d = wish[s.peer][j];
                    if (d.send || d.peer != r || d.round != s.round || d.slice != s.slice)
                        continue;
                    assert_true(s.len <= d.len);
                    memcpy(d.msg + TG__ENVELOPE_BYTES, s.msg + TG__ENVELOPE_BYTES, s.len);
                    wish[r][i] = wish[r][--count[r]];
                    wish[s.peer][j] = wish[s.peer][--count[s.peer]];
                    tg__exchange *to = ranks[s.peer].x;
                    assert_int_equal(to->ops->done(to, d.id, s.len), TG_OK);
                    assert_int_equal(ranks[r].x->ops->done(ranks[r].x, s.id, s.len), TG_OK);
                    moved = true;
                }
            }
    }
    for (int r = 0; r < P; r++)
        assert_true(ranks[r].x->ops->finished(ranks[r].x));
}

/* Returns how many rounds there were. */
static unsigned step(uint64_t t, bool coded, int nonfinite)
{
    static float copy[P][N];
    unsigned rounds = 0;
    bool more = true;
    for (int r = 0; r < P; r++) {
        ranks[r].task =
            (tg__task){.step = t, .g = ranks[r].g, .coded = coded, .nonfinite = r == nonfinite};
        const tg__program_ops *ops = ranks[r].m->def->program;
        assert_int_equal(ops->begin(ranks[r].m, &ranks[r].task, &ranks[r].x), TG_OK);
        memcpy(copy[r], ranks[r].g, sizeof copy[r]);
        for (size_t i = 0; i < N; i++) /* it is no longer valid */
            ranks[r].g[i] = NAN;
    }
    for (; more; rounds++) {
        exchange();
        for (int r = 0; r < P; r++) {
            tg__method *m = ranks[r].m;
            assert_int_equal(m->def->program->next(m, &ranks[r].task, &ranks[r].x), TG_OK);
            more = ranks[r].x != NULL;
        }
    }
    for (int r = 0; r < P; r++) {
        tg__method *m = ranks[r].m;
        assert_memory_equal(m->def->program->aggregate(m, &ranks[r].task),
                            ranks[0].m->def->program->aggregate(ranks[0].m, &ranks[0].task),
                            N * sizeof(float));
        memcpy(ranks[r].g, copy[r], sizeof copy[r]);
    }
    return rounds;
}

static const float *aggregate(void)
{
    return ranks[0].m->def->program->aggregate(ranks[0].m, &ranks[0].task);
}

static void fill(float size)
{
    for (int r = 0; r < P; r++) {
        tg_rng_key key = {.seed = 4, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)r};
        for (size_t i = 0; i < N; i++)
            ranks[r].g[i] = size * (float)(r + 1) * (float)tg_rng_normal(&key, i);
    }
}

/* Every rank's entries are 0, s and -s for the s of all: the exact mean. */
static void ternary_gradients_are_exact(void **state)
{
    (void)state;
    static const char *const texts[] = {"terngrad:clip=0", "terngrad:clip=0,exchange=direct",
                                        "terngrad:clip=0,scaler=local"};
    for (size_t c = 0; c < TG__COUNT(texts); c++) {
        start(texts[c]);
        for (uint64_t t = 0; t < 5; t++) {
            for (int r = 0; r < P; r++)
                for (size_t i = 0; i < N; i++) {
                    float s = (float)(t + 1) * (i < FIRST ? 0.25f : 32);
                    ranks[r].g[i] = s * (float)((int)((i * 7 + (size_t)r * 5 + t) % 3) - 1);
                }
            assert_int_equal(step(t, true, -1), c == 2 ? 1 : 2);
            for (size_t i = 0; i < N; i++) {
                float sum = ranks[0].g[i] + ranks[1].g[i] + ranks[2].g[i];
                assert_true(aggregate()[i] == sum * (1.0f / P));
            }
        }
        stop();
    }
}

/* What is sent is a multiple of the largest rank's s of the tensor, for all ranks. */
static void the_largest_scaler_counts(void **state)
{
    (void)state;
    start("terngrad:clip=0");
    fill(1);
    float s[2] = {0};
    for (int r = 0; r < P; r++)
        for (size_t i = 0; i < N; i++)
            s[i >= FIRST] = fmaxf(s[i >= FIRST], fabsf(ranks[r].g[i]));
    assert_int_equal(step(0, true, -1), 2);
    for (size_t i = 0; i < N; i++) {
        float unit = s[i >= FIRST];
        bool found = false;
        for (int k = -P; k <= P; k++) { /* sums of P terms are rounded the same way here */
            float sum = 0;
            for (int j = 0; j < (k < 0 ? -k : k); j++)
                sum += k < 0 ? -unit : unit;
            found |= aggregate()[i] == sum * (1.0f / P);
        }
        assert_true(found);
    }
    assert_true(ranks[0].task.kept > 0 && ranks[0].task.kept < N);
    assert_int_equal(ranks[0].task.coded_bytes, 12 + 2 * 4 + 12 + 4 + 2 * 8 + 64 * 3 + 4 * 15);
    stop();
}

/* Mean over many steps: that of the clipped gradients. */
static void the_mean_is_right(void **state)
{
    (void)state;
    enum { STEPS = 400 };
    static const char *const texts[] = {"terngrad", "terngrad:scaler=local,exchange=direct"};
    for (size_t c = 0; c < TG__COUNT(texts); c++) {
        static double sum[N];
        double z = 0;
        start(texts[c]);
        fill(0.01f);
        memset(sum, 0, sizeof sum);
        for (uint64_t t = 0; t < STEPS; t++) {
            (void)step(t, true, -1);
            for (size_t i = 0; i < N; i++)
                sum[i] += (double)aggregate()[i];
        }
        for (size_t i = 0; i < N; i++) {
            double want = 0, s = 0;
            for (int r = 0; r < P; r++) {
                size_t lo = i < FIRST ? 0 : FIRST, hi = i < FIRST ? FIRST : N;
                double sq = 0;
                for (size_t j = lo; j < hi; j++)
                    sq += (double)ranks[r].g[j] * (double)ranks[r].g[j];
                double limit = 2.5 * sqrt(sq / (double)(hi - lo));
                want += fmin(limit, fmax(-limit, (double)ranks[r].g[i])) / P;
                s = fmax(s, limit);
            }
            double error = (sum[i] / STEPS - want) / (s / sqrt((double)P * STEPS));
            assert_true(fabs(error) < 4.5); /* a draw's deviation is at most s / 2 */
            z += error;
        }
        assert_true(fabs(z) / sqrt(N) < 3);
        stop();
    }
}

static void dense_steps_and_ranks_without_a_gradient(void **state)
{
    (void)state;
    start("terngrad:clip=0");
    fill(1);
    assert_int_equal(step(0, false, -1), 1);
    for (size_t i = 0; i < N; i++)
        assert_true(aggregate()[i] ==
                    ((ranks[0].g[i] + ranks[1].g[i]) + ranks[2].g[i]) * (1.0f / P));
    assert_int_equal(step(1, true, 2), 2); /* its zeros do not raise the scaler */
    assert_int_equal(ranks[2].task.kept, 0);
    for (int r = 0; r < P; r++)
        assert_int_equal(ranks[r].m->def->program->undo(ranks[r].m, &ranks[r].task), TG_OK);
    memset(ranks[0].g, 0, sizeof ranks[0].g);
    memset(ranks[1].g, 0, sizeof ranks[1].g);
    (void)step(2, true, 2);
    for (size_t i = 0; i < N; i++)
        assert_true(aggregate()[i] == 0);
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ternary_gradients_are_exact),
        cmocka_unit_test(the_largest_scaler_counts),
        cmocka_unit_test(the_mean_is_right),
        cmocka_unit_test(dense_steps_and_ranks_without_a_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

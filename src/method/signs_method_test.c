/* Methods with one bit per element on plain arrays: Signum's average, EF-signSGD compared with the
 * paper's own loops, the owners' memory, and the learning rate in the residual's units. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "exchange/message.h"
#include "method/method.h"
#include "state/slots.h"
#include "telegrad/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 30, COLS = 41, BIAS = 19, N = ROWS * COLS + BIAS, STEPS = 50 };

/* A single rank. */
static tg__state *slots;
static tg__method *m;
static float g[N], sent[N];

static tg_status make(const char *text)
{
    static const char *const names[] = {"w", "b"};
    static const size_t len[] = {ROWS * COLS, BIAS}, rows[] = {ROWS, BIAS}, cols[] = {COLS, 1};
    tg__method_setup setup = {.size = 1,
                              .steps_per_epoch = 5,
                              .tensor = names,
                              .len = len,
                              .rows = rows,
                              .cols = cols,
                              .count = 2,
                              .lanes = 1,
                              .may_bypass = true,
                              .momentum = (double)NAN,
                              .nesterov = -1,
                              .state = slots};
    return tg__method_create(text, &setup, &m);
}

static void start(const char *text)
{
    assert_int_equal(tg__state_create(&slots), TG_OK);
    if (make(text) != TG_OK)
        fail_msg("%s: %s", text, tg_error());
}

static void stop(void)
{
    tg__method_destroy(m);
    tg__state_destroy(slots);
}

static void gradient(uint64_t t)
{
    tg_rng_key key = {.seed = 4, .purpose = TG_PURPOSE_TEST, .step = t};
    for (size_t i = 0; i < N; i++)
        g[i] = (float)tg_rng_normal(&key, i) + 0.2f;
}

static tg__task step(uint64_t t, double eta, bool coded)
{
    tg__exchange *x;
    tg__task task = {.step = t, .g = g, .coded = coded, .eta = eta};
    gradient(t);
    assert_int_equal(m->def->program->begin(m, &task, &x), TG_OK);
    assert_int_equal(x->ops->start(x), TG_OK);
    assert_true(x->ops->finished(x));
    assert_int_equal(m->def->program->next(m, &task, &x), TG_OK);
    memcpy(sent, m->def->program->aggregate(m, &task), sizeof sent);
    return task;
}

/* The sign of m = beta*m + (1 - beta)*g; a dense step updates m as well and sends it; beta = 0 is
 * signsgd. */
static void signum_is_the_sign_of_the_average(void **state)
{
    (void)state;
    static const double betas[] = {0.9, 0.5, 0};
    static float average[N];
    for (size_t b = 0; b < TG_COUNT(betas); b++) {
        char text[64];
        snprintf(text, sizeof text, "signum:beta=%g", betas[b]);
        start(text);
        memset(average, 0, sizeof average);
        for (uint64_t t = 0; t < STEPS; t++) {
            bool coded = t % 7 != 3;
            tg__task task = step(t, 0, coded);
            for (size_t i = 0; i < N; i++) {
                volatile float old = (float)betas[b] * average[i];
                volatile float more = (float)(1 - betas[b]) * g[i];
                average[i] = old + more;
                if (sent[i] != (!coded ? average[i] : average[i] < 0 ? -1.0f : 1.0f))
                    fail_msg("step %d, element %zu", (int)t, i);
            }
            assert_int_equal(m->def->program->undo(m, &task), TG_OK); /* nothing to restore */
        }
        stop();
    }
}

/* Karimireddy et al., alg. 1, in units of the update, with one scale per row (or tensor). */
static void paper_step(float *w, float *e, double eta, size_t row, size_t n)
{
    double sum = 0;
    for (size_t i = row; i < row + n; i++) {
        e[i] = (float)eta * g[i] + e[i];
        sum += fabs((double)e[i]);
    }
    float scale = (float)(sum / (double)n);
    for (size_t i = row; i < row + n; i++) {
        float delta = e[i] < 0 ? -scale : scale;
        w[i] -= delta;
        e[i] -= delta;
    }
}

/* A vector that is sent as it is. */
static void whole_step(float *w, float *e, double eta, size_t begin, size_t n)
{
    for (size_t i = begin; i < begin + n; i++) {
        w[i] -= (float)eta * g[i] + e[i];
        e[i] = 0;
    }
}

/* With a scale per row, the vector is sent as it is, because it is short. */
static void efsign_is_the_papers(void **state)
{
    (void)state;
    static float w[N], paper[N], e[N];
    for (int rows = 0; rows < 2; rows++) {
        start(rows ? "efsign:scale=row" : "efsign:scale=tensor");
        memset(w, 0, sizeof w);
        memset(paper, 0, sizeof paper);
        memset(e, 0, sizeof e);
        double eta = 0.1, largest = 0;
        for (uint64_t t = 0; t < STEPS; t++) {
            eta = t % 10 == 9 ? eta * 0.5 : eta * 1.01;
            step(t, eta, true);
            for (size_t i = 0; i < N; i++)
                w[i] -= (float)eta * sent[i];
            for (size_t r = 0; r < (rows ? ROWS : 1); r++)
                paper_step(paper, e, eta, r * COLS, rows ? COLS : ROWS * COLS);
            (rows ? whole_step : paper_step)(paper, e, eta, ROWS * COLS, BIAS);
        }
        const float *r = tg__feedback_pending(m->feedback);
        for (size_t i = 0; i < N; i++) {
            largest = fmax(largest, fabs((double)(w[i] - paper[i])));
            assert_true(fabs(eta * (double)r[i] - (double)e[i]) < 1e-5);
        }
        assert_true(largest < 1e-5);
        stop();
    }
}

/* The learning rate that a checkpoint stores with the residual; 0: none. */
static double saved_eta(void)
{
    double eta = 0;
    for (size_t i = 0; i < slots->count; i++)
        if (strstr(slots->slot[i].key, "eta") != NULL && slots->slot[i].len == sizeof eta)
            memcpy(&eta, slots->slot[i].data, sizeof eta);
    return eta;
}

/* With rescale=yes, eta * (what is owed) is preserved when eta changes; an unknown rate changes
 * nothing. */
static void rates_change_the_units(void **state)
{
    (void)state;
    static const char *const methods[] = {"1bit:rescale=yes", "2bit:rescale=yes",
                                          "topk:density=0.1,rescale=yes", "1bit", "2bit"};
    static double owed[N];
    for (size_t k = 0; k < TG_COUNT(methods); k++) {
        start(methods[k]);
        bool rescales = strstr(methods[k], "yes") != NULL;
        memset(owed, 0, sizeof owed);
        for (uint64_t t = 0; t < 20; t++) {
            double eta = t < 5 ? 0 : t < 10 ? 0.25 : 0.125;
            step(t, eta, t % 4 != 3);
            for (size_t i = 0; rescales && t == 10 && i < N; i++)
                owed[i] *= 2;
            for (size_t i = 0; t % 4 != 3 && i < N; i++)
                owed[i] += (double)g[i] - (double)sent[i];
        }
        const float *r = tg__feedback_pending(m->feedback);
        for (size_t i = 0; i < N; i++)
            assert_true(fabs((double)r[i] - owed[i]) < 2e-5);
        assert_true(saved_eta() == (rescales ? 0.125 : 0));
        stop();
    }
}

/* All that was sent plus the residual is the sum of the gradients. */
static void sums_to_rounding(void **state)
{
    (void)state;
    static const char *const methods[] = {"1bit",   "1bit:threshold=mean", "1bit:weights=no",
                                          "efsign", "efsign:scale=row",    "efsign:scale=tensor"};
    static double sum[N];
    for (size_t k = 0; k < TG_COUNT(methods); k++) {
        start(methods[k]);
        memset(sum, 0, sizeof sum);
        for (uint64_t t = 0; t < STEPS; t++) {
            step(t, 0, true);
            for (size_t i = 0; i < N; i++)
                sum[i] += (double)g[i] - (double)sent[i];
        }
        const float *r = tg__feedback_pending(m->feedback);
        for (size_t i = 0; i < N; i++)
            assert_true(fabs((double)r[i] - sum[i]) < 1e-4);
        stop();
    }
}

/* Exact if the means are dyadic: here g + r is -3, -1, 1 or 3 in equal shares. */
static void sums_on_dyadic_data(void **state)
{
    (void)state;
    static const char *const methods[] = {"1bit", "efsign:scale=tensor"};
    enum { M = 1024 };
    static const size_t len[] = {M}, cols[] = {1};
    static const char *const names[] = {"v"};
    static float sum[M];
    for (size_t k = 0; k < TG_COUNT(methods); k++) {
        assert_int_equal(tg__state_create(&slots), TG_OK);
        tg__method_setup setup = {.size = 1,
                                  .steps_per_epoch = 1,
                                  .tensor = names,
                                  .len = len,
                                  .rows = len,
                                  .cols = cols,
                                  .count = 1,
                                  .lanes = 1,
                                  .momentum = (double)NAN,
                                  .nesterov = -1,
                                  .state = slots};
        assert_int_equal(tg__method_create(methods[k], &setup, &m), TG_OK);
        memset(sum, 0, sizeof sum);
        for (uint64_t t = 0; t < 6; t++) {
            const float *r = tg__feedback_pending(m->feedback);
            for (size_t i = 0; i < M; i++)
                g[i] = (float)(i % 2 ? 1 : -1) * (i / 2 % 2 ? 3.0f : 1.0f) - (t ? r[i] : 0);
            tg__exchange *x;
            tg__task task = {.step = t, .g = g, .coded = true};
            assert_int_equal(m->def->program->begin(m, &task, &x), TG_OK);
            assert_int_equal(x->ops->start(x), TG_OK);
            assert_int_equal(m->def->program->next(m, &task, &x), TG_OK);
            const float *a = m->def->program->aggregate(m, &task);
            for (size_t i = 0; i < M; i++) {
                assert_true(fabsf(a[i]) == 2);
                sum[i] += g[i] - a[i];
            }
        }
        assert_memory_equal(sum, tg__feedback_pending(m->feedback), M * sizeof *sum);
        stop();
    }
}

/* ---- several ranks, two-way ------------------------------------------------------------------ */

enum { P = 3 };
static tg__state *states[P];
static tg__method *ranks[P];
static float aggregate[N];

static void start_ranks(const char *text)
{
    static const char *const names[] = {"w", "b"};
    static const size_t len[] = {ROWS * COLS, BIAS}, rows[] = {ROWS, BIAS}, cols[] = {COLS, 1};
    for (int r = 0; r < P; r++) {
        assert_int_equal(tg__state_create(&states[r]), TG_OK);
        tg__method_setup setup = {.rank = r,
                                  .size = P,
                                  .steps_per_epoch = 5,
                                  .tensor = names,
                                  .len = len,
                                  .rows = rows,
                                  .cols = cols,
                                  .count = 2,
                                  .lanes = 1,
                                  .momentum = (double)NAN,
                                  .nesterov = -1,
                                  .state = states[r]};
        if (tg__method_create(text, &setup, &ranks[r]) != TG_OK)
            fail_msg("%s: %s", text, tg_error());
    }
}

static void stop_ranks(void)
{
    for (int r = 0; r < P; r++) {
        tg__method_destroy(ranks[r]);
        tg__state_destroy(states[r]);
    }
}

/* Move all messages of the ranks' exchanges. */
static void deliver(tg__exchange *x[P])
{
    static tg__wish open[8 * P * P];
    int owner[8 * P * P];
    size_t count = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < P; r++) {
            size_t more = x[r]->ops->wants(x[r], open + count, TG_COUNT(open) - count);
            for (; more > 0; more--)
                owner[count++] = r;
        }
        for (size_t s = 0; s < count; s++)
            for (size_t t = 0; owner[s] >= 0 && open[s].send && t < count; t++) {
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
}

/* One step of all ranks; dead: a rank whose gradient is not finite (-1: none). Adds the other
 * ranks' gradients / P to mean. rate: of the step */
static void step_ranks(uint64_t t, double rate, int dead, double *mean, tg__task task[P])
{
    static float gs[P][N];
    tg__exchange *x[P], *none;
    for (int r = 0; r < P; r++) {
        gradient(t * P + (uint64_t)r);
        memcpy(gs[r], g, sizeof g);
        for (size_t i = 0; r != dead && i < N; i++)
            mean[i] += (double)g[i] / P;
        task[r] = (tg__task){.step = t,
                             .g = gs[r],
                             .coded = true,
                             .nonfinite = r == dead,
                             .eta = rate,
                             .no_update = rate == 0};
        assert_int_equal(ranks[r]->def->program->begin(ranks[r], &task[r], &x[r]), TG_OK);
        assert_int_equal(x[r]->ops->start(x[r]), TG_OK);
    }
    deliver(x);
    for (int r = 0; r < P; r++) {
        assert_true(x[r]->ops->finished(x[r]));
        assert_int_equal(ranks[r]->def->program->next(ranks[r], &task[r], &none), TG_OK);
        const float *a = ranks[r]->def->program->aggregate(ranks[r], &task[r]);
        if (r == 0)
            memcpy(aggregate, a, sizeof aggregate);
        assert_memory_equal(aggregate, a, sizeof aggregate);
    }
}

/* The owner's residual of rank r's block. */
static const float *owner_of(int r)
{
    for (size_t i = 0; i < states[r]->count; i++)
        if (strstr(states[r]->slot[i].key, "owner residual") != NULL)
            return states[r]->slot[i].data;
    fail_msg("rank %d owns nothing", r);
    return NULL;
}

/* All that was applied, plus the mean of the ranks' memory, plus the owners' memory, is the sum of
 * the mean gradients, up to rounding. A step dropped because of one rank's NaN leaves the owners'
 * residuals unchanged, bit for bit, and keeps the finite gradients in the residuals of their
 * ranks. */
static void two_ways_lose_nothing(void **state)
{
    (void)state;
    static const char *const methods[] = {"1bit:twoway=yes", "1bit:twoway=yes,threshold=mean"};
    static double owed[N];
    static float before[P][N];
    for (size_t k = 0; k < TG_COUNT(methods); k++) {
        tg__task task[P];
        start_ranks(methods[k]);
        memset(owed, 0, sizeof owed);
        for (uint64_t t = 0; t < 30; t++) {
            int dead = t % 10 == 6 ? (int)t % P : -1;
            for (int r = 0; r < P; r++)
                memcpy(before[r], owner_of(r), tg__block_len(N, P, r) * sizeof(float));
            step_ranks(t, 1, dead, owed, task);
            for (size_t i = 0; dead < 0 && i < N; i++)
                owed[i] -= (double)aggregate[i];
            for (int r = 0; dead >= 0 && r < P; r++) {
                assert_int_equal(ranks[r]->def->program->undo(ranks[r], &task[r]), TG_OK);
                assert_memory_equal(before[r], owner_of(r), tg__block_len(N, P, r) * sizeof(float));
            }
        }
        for (int r = 0; r < P; r++) {
            size_t lo = tg__block_begin(N, P, r);
            const float *residual = tg__feedback_pending(ranks[r]->feedback);
            for (size_t i = 0; i < N; i++)
                owed[i] -= (double)residual[i] / P;
            for (size_t i = 0; i < tg__block_len(N, P, r); i++)
                owed[lo + i] -= (double)owner_of(r)[i];
        }
        for (size_t i = 0; i < N; i++)
            assert_true(fabs(owed[i]) < 1e-4);
        stop_ranks();
    }
}

/* A step with rate 0 sends zeros in both directions, and neither residual changes. */
static void two_ways_rest(void **state)
{
    (void)state;
    static const float zeros[N];
    static double unused[N];
    static float before[2][P][N];
    tg__task task[P];
    start_ranks("1bit:twoway=yes,rescale=yes");
    for (uint64_t t = 0; t < 6; t++) {
        const size_t bytes = sizeof(float);
        for (int r = 0; r < P; r++) {
            memcpy(before[0][r], owner_of(r), tg__block_len(N, P, r) * bytes);
            memcpy(before[1][r], tg__feedback_pending(ranks[r]->feedback), N * bytes);
        }
        step_ranks(t, t == 4 ? 0 : 0.5, -1, unused, task);
        assert_true((t == 4) == (memcmp(aggregate, zeros, sizeof zeros) == 0));
        for (int r = 0; t == 4 && r < P; r++) {
            const float *pending = tg__feedback_pending(ranks[r]->feedback);
            assert_memory_equal(before[0][r], owner_of(r), tg__block_len(N, P, r) * bytes);
            assert_memory_equal(before[1][r], pending, N * bytes);
        }
    }
    stop_ranks();
}

static void two_ways_need_blocks(void **state)
{
    (void)state;
    assert_int_equal(tg__state_create(&slots), TG_OK);
    assert_int_equal(make("1bit:twoway=yes,exchange=allgather"), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "allowed: direct, auto"));
    tg__state_destroy(slots);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signum_is_the_sign_of_the_average),
        cmocka_unit_test(efsign_is_the_papers),
        cmocka_unit_test(rates_change_the_units),
        cmocka_unit_test(sums_to_rounding),
        cmocka_unit_test(sums_on_dyadic_data),
        cmocka_unit_test(two_ways_lose_nothing),
        cmocka_unit_test(two_ways_rest),
        cmocka_unit_test(two_ways_need_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

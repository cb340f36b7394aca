/* Robust rules: against plain references, exact limits, permutations of ranks, ranks that are left
 * out, and what hostile ranks can do. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "server/mode.h"
#include "base/mem.h"
#include "codec/codec_impl.h"
#include "telegrad/random.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { P_MOST = 17, N_MOST = 2500 };
static const size_t lengths[] = {0, 1, 7, 1023, 1024, 1025, N_MOST};

typedef struct world {
    size_t P, n;
    float g[P_MOST][N_MOST];
    bool flagged[P_MOST];
    uint8_t frame[P_MOST][TG__FRAME_HEAD + 4 * N_MOST];
    float last[N_MOST], got[N_MOST], expected[N_MOST];
} world;

static world w;

/* ---- worlds ---------------------------------------------------------------------------------- */

/* Gradients like those of workers: the same direction, and noise; some values are equal. */
static void draw(size_t P, size_t n, uint64_t seed)
{
    memset(&w, 0, sizeof w);
    w.P = P;
    w.n = n;
    for (size_t p = 0; p < P; p++) {
        const tg_rng_key key = {.seed = seed, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)p};
        for (size_t i = 0; i < n; i++) {
            const float noise = (float)(tg_rng_uniform(&key, i) - 0.5);
            w.g[p][i] = i % 5 == 0 ? roundf(4 * noise) : (float)(i % 3) * 0.1f + noise;
        }
    }
}

static void open_rule(tg__robust *r, const char *combine, size_t ranks)
{
    char text[100];
    tg__mode m;
    snprintf(text, sizeof text, "sum:combine=%s", combine);
    assert_int_equal(tg__mode_parse(text, NULL, &m), TG_OK);
    if (tg__robust_init(r, &m.rule, (int)ranks) != TG_OK)
        fail_msg("%s", tg_error());
    tg__mode_free(&m);
}

/* Combine w.g into w.got; w.last is the last result of clipped. Returns whether there is one. */
static bool run(tg__robust *r)
{
    const tg__envelope about = {.bucket = 3};
    tg__robust_frame in[P_MOST];
    float *last;
    bool formed;
    for (size_t p = 0; p < w.P; p++) {
        memcpy(w.frame[p] + TG__FRAME_HEAD, w.g[p], w.n * sizeof(float));
        tg__frame_head(w.frame[p], TG__ID_f32, TG__FORM_DENSE, 0, w.n, w.n * sizeof(float));
        in[p] = (tg__robust_frame){w.frame[p], TG__FRAME_HEAD + w.n * sizeof(float), w.flagged[p],
                                   (int)p};
    }
    assert_int_equal(tg__robust_last_of(r, &about, 0, w.n, &last), TG_OK);
    if (last != NULL)
        memcpy(last, w.last, w.n * sizeof *last);
    assert_int_equal(tg__robust_combine(r, in, (int)w.P, w.n, last, w.got, &formed), TG_OK);
    if (last != NULL)
        memcpy(w.last, last, w.n * sizeof *last);
    return formed;
}

static bool combine(const char *rule)
{
    tg__robust r;
    open_rule(&r, rule, w.P);
    const bool formed = run(&r);
    tg__robust_fini(&r);
    return formed;
}

static bool same(const float *a, const float *b)
{
    return memcmp(a, b, w.n * sizeof *a) == 0;
}

static void check_same(const char *rule, const float *expected)
{
    for (size_t i = 0; i < w.n; i++)
        if (memcmp(&w.got[i], &expected[i], sizeof w.got[i]) != 0)
            fail_msg("%s of %zu ranks, element %zu of %zu: %.9g, expected %.9g", rule, w.P, i, w.n,
                     (double)w.got[i], (double)expected[i]);
}

/* ---- plain references ------------------------------------------------------------------------ */

static int ascending(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The mean of elements [cut, P - cut) of each sorted column. */
static void plain_sorted(size_t cut)
{
    for (size_t i = 0; i < w.n; i++) {
        float column[P_MOST];
        double sum = 0;
        for (size_t p = 0; p < w.P; p++)
            column[p] = w.g[p][i];
        qsort(column, w.P, sizeof *column, ascending);
        for (size_t k = cut; k < w.P - cut; k++)
            sum += (double)column[k];
        w.expected[i] = (float)(sum / (double)(w.P - 2 * cut));
    }
}

static double square_between(const float *a, const float *b)
{
    double sum = 0;
    for (size_t i = 0; i < w.n; i++)
        sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sum;
}

static int ascending_f64(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static size_t plain_krum(size_t f)
{
    size_t best = 0;
    double least = INFINITY;
    for (size_t p = 0; p < w.P; p++) {
        double to[P_MOST], sum = 0;
        size_t count = 0;
        for (size_t q = 0; q < w.P; q++)
            if (q != p)
                to[count++] = square_between(w.g[p], w.g[q]);
        qsort(to, count, sizeof *to, ascending_f64);
        for (size_t k = 0; k < w.P - f - 2; k++)
            sum += to[k];
        if (sum < least) {
            least = sum;
            best = p;
        }
    }
    return best;
}

static void plain_clipped(double tau)
{
    double norm[P_MOST], sorted[P_MOST];
    for (size_t p = 0; p < w.P; p++)
        sorted[p] = norm[p] = sqrt(square_between(w.g[p], w.last));
    qsort(sorted, w.P, sizeof *sorted, ascending_f64);
    if (!(tau > 0))
        tau = sorted[(w.P - 1) / 2];
    for (size_t i = 0; i < w.n; i++) {
        double sum = 0;
        for (size_t p = 0; p < w.P; p++)
            sum += ((double)w.g[p][i] - (double)w.last[i]) * (norm[p] > tau ? tau / norm[p] : 1);
        w.expected[i] = (float)((double)w.last[i] + sum / (double)w.P);
    }
}

static void check_near(const char *rule, double tolerance)
{
    for (size_t i = 0; i < w.n; i++)
        if (!(fabs((double)w.got[i] - (double)w.expected[i]) <= tolerance))
            fail_msg("%s of %zu ranks, element %zu of %zu: %.9g, expected %.9g", rule, w.P, i, w.n,
                     (double)w.got[i], (double)w.expected[i]);
}

static void rules_are_their_references(void **state)
{
    char rule[64];
    (void)state;
    for (size_t P = 1; P <= P_MOST; P++)
        for (size_t k = 0; k < TG_COUNT(lengths); k++) {
            draw(P, lengths[k], 10 * P + k);
            assert_true(combine("median"));
            plain_sorted((P - 1) / 2);
            check_same("median", w.expected);
            for (size_t f = 1; 2 * f < P; f++) {
                snprintf(rule, sizeof rule, "trimmed,f=%zu", f);
                assert_true(combine(rule));
                plain_sorted(f);
                check_same(rule, w.expected);
            }
            for (size_t f = 0; 2 * f + 3 <= P; f++) {
                snprintf(rule, sizeof rule, "krum,f=%zu", f);
                assert_true(combine(rule));
                check_same(rule, w.g[plain_krum(f)]);
            }
            for (size_t i = 0; i < w.n; i++)
                w.last[i] = 0.1f * (float)(i % 7);
            plain_clipped(0);
            assert_true(combine("clipped"));
            check_near("clipped", 1e-5);
            plain_clipped(0.5);
            assert_true(combine("clipped,tau=0.5"));
            check_near("clipped,tau=0.5", 1e-5);
        }
}

/* ---- exact limits ---------------------------------------------------------------------------- */

static void no_trimming_is_the_mean(void **state)
{
    tg__mode m;
    (void)state;
    assert_int_equal(tg__mode_parse("sum:combine=trimmed,f=0", NULL, &m), TG_OK);
    assert_int_equal(m.rule.kind, TG__ROBUST_NONE); /* see robust_server_test.c */
    tg__mode_free(&m);
}

static void alike_gradients_stay(void **state)
{
    (void)state;
    for (size_t P = 1; P <= P_MOST; P++) {
        draw(P, N_MOST, P);
        for (size_t p = 1; p < P; p++)
            memcpy(w.g[p], w.g[0], sizeof w.g[0]);
        for (size_t i = 0; i < w.n; i += 7) /* -0 becomes 0 in sums */
            for (size_t p = 0; p < P; p++)
                w.g[p][i] = 3e38f;
        for (size_t i = 0; i < w.n; i++)
            w.expected[i] = w.g[0][i] + 0.0f;
        assert_true(combine("median"));
        check_same("median", w.expected);
        if (P >= 3) {
            assert_true(combine("trimmed,f=1"));
            check_same("trimmed", w.expected);
            assert_true(combine("krum,f=0"));
            check_same("krum", w.g[0]);
        }
        for (size_t i = 0; i < w.n; i += 7) /* sums of f32 */
            for (size_t p = 0; p < P; p++)
                w.g[p][i] = 3;
        memcpy(w.expected, w.g[0], sizeof w.expected);
        assert_true(combine("clipped"));
        check_near("clipped", 1e-6);
    }
}

/* Nothing is clipped: the mean, up to rounding: P + 2 sums in f32. */
static void huge_tau_is_the_mean(void **state)
{
    (void)state;
    for (size_t P = 1; P <= P_MOST; P++) {
        draw(P, N_MOST, P);
        plain_sorted(0);
        for (size_t i = 0; i < w.n; i++)
            w.last[i] = (float)(i % 11) - 5;
        assert_true(combine("clipped,tau=1e30"));
        check_near("clipped", (double)(P + 2) * 8 * 0x1p-24);
        assert_true(same(w.last, w.got));
    }
}

static void order_of_ranks_is_nothing(void **state)
{
    static const char *const rules[] = {"median", "trimmed,f=2", "krum,f=2"};
    (void)state;
    for (size_t k = 0; k < TG_COUNT(rules); k++)
        for (size_t P = 7; P <= P_MOST; P += 5) {
            draw(P, N_MOST, P);
            for (size_t i = 0; i < w.n; i += 4)
                w.g[i % P][i] = -0.0f;
            assert_true(combine(rules[k]));
            memcpy(w.expected, w.got, sizeof w.got);
            for (size_t turn = 1; turn < P; turn++) {
                float first[N_MOST];
                memcpy(first, w.g[0], sizeof first);
                memmove(w.g[0], w.g[1], (P - 2) * sizeof w.g[0]);
                memcpy(w.g[P - 2], first, sizeof first); /* the last one is not moved */
                assert_true(combine(rules[k]));
                check_same(rules[k], w.expected);
            }
        }
}

/* ---- ranks that are not finite --------------------------------------------------------------- */

/* Ranks 1, 3, ..., 9, 0 of 11 are not finite, in several ways. */
static void spoil(size_t count)
{
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t b = 0; b < count; b++)
        if (b % 4 == 3)
            w.flagged[(2 * b + 1) % w.P] = true;
        else
            w.g[(2 * b + 1) % w.P][b] = bad[b % 4];
}

/* The others alone, with so many fewer that are wrong. */
static void keep_others(size_t count)
{
    size_t to = 0;
    for (size_t p = 0; p < w.P; p++)
        if (p % 2 == 0 || p > 2 * count)
            memcpy(w.g[to++], w.g[p], sizeof w.g[p]);
    w.P = to;
    memset(w.flagged, 0, sizeof w.flagged);
}

static void some_are_left_out(void **state)
{
    static const struct {
        const char *rule;
        size_t most;
        bool counts;
    } all[] = {{"median", 5, false}, {"clipped", 5, false}, {"trimmed", 5, true},
               {"trimmed", 3, true}, {"krum", 4, true},     {"krum", 1, true}};
    char rule[64];
    (void)state;
    for (size_t k = 0; k < TG_COUNT(all); k++)
        for (size_t bad = 1; bad <= all[k].most + 1; bad++) {
            draw(11, N_MOST, bad);
            spoil(bad);
            snprintf(rule, sizeof rule, all[k].counts ? "%s,f=%zu" : "%s", all[k].rule,
                     all[k].most);
            const bool formed = combine(rule);
            if (formed != (bad <= all[k].most))
                fail_msg("%s with %zu ranks that are not finite: %d", rule, bad, formed);
            memcpy(w.expected, w.got, sizeof w.got);
            if (!formed) {
                memset(w.expected, 0, sizeof w.expected);
                check_same(rule, w.expected);
                continue;
            }
            memset(w.last, 0, sizeof w.last);
            keep_others(bad);
            snprintf(rule, sizeof rule, all[k].counts ? "%s,f=%zu" : "%s", all[k].rule,
                     all[k].most - bad);
            if (strcmp(rule, "trimmed,f=0") == 0) {
                plain_sorted(0);
                memcpy(w.got, w.expected, sizeof w.got);
                check_near(rule, 1e-6);
            } else {
                assert_true(combine(rule));
                check_same(rule, w.expected);
            }
        }
}

/* ---- hostile ranks --------------------------------------------------------------------------- */

/* With f hostile ranks, whatever they send, results stay among what the others have sent. */
static void hostile_values_do_nothing(void **state)
{
    static const float factor[] = {-1, 1000, -1e30f, 3e38f};
    static const char *const rules[] = {"median", "trimmed,f=3", "krum,f=3", "clipped"};
    (void)state;
    for (size_t k = 0; k < TG_COUNT(rules); k++)
        for (size_t a = 0; a < TG_COUNT(factor); a++) {
            draw(10, N_MOST, a);
            for (size_t p = 0; p < 3; p++)
                for (size_t i = 0; i < w.n; i++)
                    w.g[p][i] = factor[a] > 1e38f ? (i + p) % 2 ? factor[a] : -factor[a]
                                                  : factor[a] * w.g[p][i];
            assert_true(combine(rules[k]));
            double norm = 0;
            for (size_t i = 0; i < w.n; i++) {
                float low = INFINITY, high = -INFINITY;
                for (size_t p = 3; p < 10; p++) {
                    low = fminf(low, w.g[p][i]);
                    high = fmaxf(high, w.g[p][i]);
                }
                norm += (double)w.got[i] * (double)w.got[i];
                if (k < 3 && !(w.got[i] >= low && w.got[i] <= high))
                    fail_msg("%s, factor %g, element %zu: %g is not in [%g, %g]", rules[k],
                             (double)factor[a], i, (double)w.got[i], (double)low, (double)high);
            }
            double longest = 0; /* clipped: no step is longer than that of an honest rank */
            memset(w.last, 0, sizeof w.last);
            for (size_t p = 3; p < 10; p++)
                longest = TG__MAX(longest, square_between(w.g[p], w.last));
            assert_true(k < 3 || norm <= 1.0001 * longest);
        }
}

/* clipped goes on from where it was, unless there was no result. */
static void clipped_remembers(void **state)
{
    tg__robust r;
    const tg__envelope about = {.bucket = 3}, other = {.bucket = 4};
    float *v, *same_v, *other_v;
    (void)state;
    draw(3, 100, 1);
    open_rule(&r, "clipped,tau=0.25", 3);
    assert_true(run(&r));
    assert_int_equal(tg__robust_last_of(&r, &about, 0, 100, &v), TG_OK);
    assert_true(memcmp(v, w.got, 100 * sizeof *v) == 0);
    double norm = 0;
    for (size_t i = 0; i < 100; i++)
        norm += (double)v[i] * (double)v[i];
    assert_true(norm <= 0.25 * 0.25 * 1.0001 && norm > 0);
    memcpy(w.last, v, 100 * sizeof *v);
    w.flagged[0] = w.flagged[2] = true;
    assert_false(run(&r));
    assert_true(memcmp(v, w.last, 100 * sizeof *v) == 0);
    assert_int_equal(tg__robust_last_of(&r, &about, 0, 100, &same_v), TG_OK);
    assert_int_equal(tg__robust_last_of(&r, &other, 0, 100, &other_v), TG_OK);
    assert_true(same_v == v && other_v != v && other_v[0] >= 0 && other_v[0] <= 0);
    tg__robust_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_their_references), cmocka_unit_test(no_trimming_is_the_mean),
        cmocka_unit_test(alike_gradients_stay),       cmocka_unit_test(huge_tau_is_the_mean),
        cmocka_unit_test(order_of_ranks_is_nothing),  cmocka_unit_test(some_are_left_out),
        cmocka_unit_test(hostile_values_do_nothing),  cmocka_unit_test(clipped_remembers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* PowerSGD among ranks: its exact limits, the bits on any number of cores, golden vectors. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include <golden/golden_powersgd.h> /* tests/golden */
#include "powersgd_world.h"

/* ---- limits ---------------------------------------------------------------------------------- */

static void full_rank_is_the_mean(void **state)
{
    (void)state;
    for (int size = 1; size <= MAX_RANKS; size++) {
        world w = open_world("powersgd:rank=40,min_ratio=1", size, NULL);
        for (uint64_t t = 0; t < 3; t++) {
            draw_all(&w, t, 1);
            assert_int_equal(step(&w, t, true, -1), 1);
            assert_alike(&w);
            for (size_t i = 0; i < N; i++) {
                float sum = 0;
                for (int r = 0; r < size; r++)
                    sum += w.ranks[r].g[i];
                assert_true(output(&w, 0)[i] == sum * (1.0f / (float)size));
            }
            assert_true(tg__method_residual_norm(w.ranks[0].m) == 0);
        }
        close_world(&w);
    }
}

/* Tensors that do not pay are sent unchanged, together with matrices that do. */
static void others_ride_along(void **state)
{
    (void)state;
    world w = open_world("powersgd:rank=2", 2, NULL);
    for (uint64_t t = 0; t < 3; t++) {
        draw_all(&w, t, 1);
        assert_int_equal(step(&w, t, true, -1), 2);
        size_t exact = 0, factors = 0;
        for (size_t i = 0, at = 0; i < TENSORS; at += rows[i] * cols[i], i++) {
            if (pays(i, 2)) {
                factors += 2 * (rows[i] + cols[i]);
                continue;
            }
            exact += rows[i] * cols[i];
            for (size_t a = at; a < at + rows[i] * cols[i]; a++)
                assert_true(output(&w, 0)[a] == (w.ranks[0].g[a] + w.ranks[1].g[a]) * 0.5f);
        }
        assert_int_equal(exact, 21 + 7 + 12);
        assert_int_equal(w.ranks[0].task.kept, exact + factors);
        assert_int_equal(w.ranks[0].task.coded_bytes, 4 * (exact + factors) + 4 * 12);
    }
    close_world(&w);
}

/* Outputs and the mean residual equal those of one rank on the mean gradient, up to rounding. */
static void ranks_are_as_one_on_the_mean(void **state)
{
    (void)state;
    static double e[N], one[N], sum[N];
    static const char *const texts[] = {
        "powersgd:rank=1", "powersgd:rank=3", "powersgd:rank=3,exchange=halving",
        "powersgd:rank=2,warm=no,exchange=ring", "powersgd:rank=4,exchange=allgather"};
    static const size_t of[] = {1, 3, 3, 2, 4};
    for (size_t c = 0; c < TG_COUNT(texts); c++)
        for (int size = 2; size <= MAX_RANKS; size++) {
            world w = open_world(texts[c], size, NULL), alone = open_world(texts[c], 1, NULL);
            for (uint64_t t = 0; t < 5; t++) {
                draw_all(&w, t, 0.5);
                for (size_t i = 0; i < N; i++) {
                    double mean = 0;
                    for (int r = 0; r < size; r++)
                        mean += w.ranks[r].g[i];
                    alone.ranks[0].g[i] = (float)(mean / size);
                }
                (void)step(&w, t, true, -1);
                (void)step(&alone, t, true, -1);
                assert_alike(&w);
                residual(&alone, 0, of[c], one);
                memset(sum, 0, sizeof sum);
                for (int r = 0; r < size; r++) {
                    residual(&w, r, of[c], e);
                    for (size_t i = 0; i < N; i++)
                        sum[i] += e[i] / size;
                }
                for (size_t i = 0; i < N; i++) {
                    assert_true(fabs(output(&w, 0)[i] - output(&alone, 0)[i]) < 2e-3);
                    assert_true(fabs(sum[i] - one[i]) < 2e-3);
                }
                assert_true(largest(one) > 1); /* so that the comparison is meaningful */
            }
            close_world(&w);
            close_world(&alone);
        }
}

/* What was sent plus what remains equals the gradients, up to rounding, over all ranks. */
static void nothing_is_lost(void **state)
{
    (void)state;
    static double e[N], total[N];
    for (int size = 1; size <= MAX_RANKS; size++) {
        world w = open_world("powersgd:rank=2", size, NULL);
        memset(total, 0, sizeof total);
        for (uint64_t t = 0; t < 20; t++) {
            draw_all(&w, t, 1);
            (void)step(&w, t, true, -1);
            for (size_t i = 0; i < N; i++) {
                for (int r = 0; r < size; r++)
                    total[i] += w.ranks[r].g[i];
                total[i] -= (double)size * output(&w, 0)[i];
            }
        }
        double norm = 0;
        for (int r = 0; r < size; r++) {
            residual(&w, r, 2, e);
            double own = 0;
            for (size_t i = 0; i < N; i++) {
                total[i] -= e[i];
                own += e[i] * e[i];
            }
            norm = tg__method_residual_norm(w.ranks[r].m);
            assert_true(fabs(norm - sqrt(own)) < 1e-5 * norm);
        }
        assert_true(norm > 1 && largest(total) < 1e-3);
        close_world(&w);
    }
}

/* Matrices of rank 1 are exact after one step, whatever the basis was. */
static void rank_one_is_reproduced(void **state)
{
    (void)state;
    static const char *const texts[] = {"powersgd:rank=1", "powersgd:rank=4",
                                        "powersgd:rank=2,warm=no"};
    for (size_t c = 0; c < TG_COUNT(texts); c++) {
        world w = open_world(texts[c], 3, NULL);
        for (uint64_t t = 0; t < 4; t++) {
            for (int r = 0; r < 3; r++)
                for (size_t i = 0, at = 0; i < TENSORS; at += rows[i] * cols[i], i++)
                    for (size_t a = 0; a < rows[i] * cols[i]; a++)
                        w.ranks[r].g[at + a] =
                            (float)((r + 1) * sin((double)(a / cols[i]) + (double)t) *
                                    cos((double)(3 * (a % cols[i]))));
            (void)step(&w, t, true, -1);
            for (size_t i = 0; i < N; i++)
                assert_true(fabsf(output(&w, 0)[i] - w.ranks[1].g[i]) < 1e-5f);
        }
        close_world(&w);
    }
}

/* Zero gradients give zeros, and do not prevent later ones from being sent. */
static void zeros_are_no_end(void **state)
{
    (void)state;
    world w = open_world("powersgd:rank=4", 2, NULL);
    for (uint64_t t = 0; t < 3; t++) {
        for (int r = 0; r < 2; r++)
            memset(w.ranks[r].g, 0, sizeof w.ranks[r].g);
        (void)step(&w, t, true, -1);
        for (size_t i = 0; i < N; i++)
            assert_true(output(&w, 0)[i] == 0);
    }
    draw_all(&w, 3, 0); /* of rank 3: the first step contains all of them */
    (void)step(&w, 3, true, -1);
    for (size_t i = 0; i < N; i++)
        assert_true(fabsf(output(&w, 0)[i] - (w.ranks[0].g[i] + w.ranks[1].g[i]) / 2) < 1e-3f);
    close_world(&w);
}

/* Gradients of any magnitude give the same bits, apart from the power of two. */
static void scale_does_not_matter(void **state)
{
    (void)state;
    world w = open_world("powersgd:rank=3", 2, NULL);
    static const int exponents[] = {-80, 60};
    for (size_t c = 0; c < TG_COUNT(exponents); c++) {
        world scaled = open_world("powersgd:rank=3", 2, NULL);
        close_world(&w);
        w = open_world("powersgd:rank=3", 2, NULL);
        for (uint64_t t = 0; t < 4; t++) {
            draw_all(&w, t, 0.5);
            for (int r = 0; r < 2; r++)
                for (size_t i = 0; i < N; i++)
                    scaled.ranks[r].g[i] = ldexpf(w.ranks[r].g[i], exponents[c]);
            (void)step(&w, t, true, -1);
            (void)step(&scaled, t, true, -1);
            for (size_t i = 0; i < N; i++)
                assert_true(output(&scaled, 0)[i] == ldexpf(output(&w, 0)[i], exponents[c]));
        }
        close_world(&scaled);
    }
    close_world(&w);
}

/* Products that overflow f32 are dropped, not propagated. */
static void huge_values_do_no_harm(void **state)
{
    (void)state;
    world w = open_world("powersgd:rank=2", 1, NULL);
    for (uint64_t t = 0; t < 4; t++) {
        draw_all(&w, t, 1);
        for (size_t i = 21; t == 0 && i < 21 + 18 * 75; i++)
            w.ranks[0].g[i] = 3e38f;
        (void)step(&w, t, true, -1);
        for (size_t i = 0; i < N; i++)
            assert_true(!isnan(output(&w, 0)[i]));
    }
    close_world(&w);
}

/* A basis that is kept approximates a matrix of higher rank better than a new one. */
static void warm_start_helps(void **state)
{
    (void)state;
    double error[2];
    for (int cold = 0; cold < 2; cold++) {
        world w = open_world(cold ? "powersgd:rank=3,warm=no" : "powersgd:rank=3", 2, NULL);
        error[cold] = 0;
        for (uint64_t t = 0; t < 12; t++) {
            draw_all(&w, t, 0.3);
            (void)step(&w, t, true, -1);
        }
        for (int r = 0; r < 2; r++)
            error[cold] += tg__method_residual_norm(w.ranks[r].m);
        close_world(&w);
    }
    assert_true(error[0] < error[1]);
}

/* ---- bits ------------------------------------------------------------------------------------ */

/* Any number of cores, and all exchanges that sum in rank order, give the same bits. */
static void threads_and_exchanges_agree(void **state)
{
    (void)state;
    static float want[N];
    static const char *const texts[] = {"powersgd:rank=2", "powersgd:rank=2,exchange=allgather"};
    for (unsigned threads = 1; threads <= 4; threads++)
        for (size_t c = 0; c < TG_COUNT(texts); c++) {
            tg__pool *pool;
            assert_int_equal(tg__pool_create(threads, &pool), TG_OK);
            world w = open_world(texts[c], 3, pool);
            for (uint64_t t = 0; t < 4; t++) {
                draw_all(&w, t, 1);
                (void)step(&w, t, true, -1);
                assert_alike(&w);
            }
            if (threads == 1 && c == 0)
                memcpy(want, output(&w, 0), sizeof want);
            assert_memory_equal(output(&w, 0), want, sizeof want);
            close_world(&w);
            tg__pool_destroy(pool);
        }
}

/* ---- golden vectors -------------------------------------------------------------------------- */

static const float *floats(const char *hex, float *to)
{
    for (size_t i = 0; hex[8 * i] != '\0'; i++) {
        uint32_t bits = 0;
        for (unsigned b = 0; b < 4; b++) {
            unsigned byte;
            assert_int_equal(sscanf(hex + 8 * i + 2 * b, "%2x", &byte), 1);
            bits |= byte << 8 * b;
        }
        memcpy(&to[i], &bits, sizeof bits);
    }
    return to;
}

/* Three steps of two ranks, computed from the formulas in f64. */
static void golden_run(void **state)
{
    (void)state;
    static float g[4096], want[4096];
    for (size_t c = 0; c < TG_COUNT(golden_powersgd); c++) {
        const struct golden_powersgd *v = &golden_powersgd[c];
        const size_t len[] = {v->rows * v->cols, v->rows}, side[] = {v->rows, v->rows},
                     other[] = {v->cols, 1};
        static const char *const name[] = {"fc.weight", "fc.bias"};
        static peer ranks[2];
        world w = {.ranks = ranks, .size = 2};
        for (int r = 0; r < 2; r++) {
            assert_int_equal(tg__state_create(&ranks[r].state), TG_OK);
            const tg__method_setup setup = {.rank = r,
                                            .size = 2,
                                            .seed = v->seed,
                                            .tensor = name,
                                            .len = len,
                                            .rows = side,
                                            .cols = other,
                                            .count = 2,
                                            .lanes = 1,
                                            .state = ranks[r].state};
            assert_int_equal(tg__method_create(v->spec, &setup, &ranks[r].m), TG_OK);
        }
        const size_t n = len[0] + len[1];
        for (uint64_t t = 0; t < 3; t++) {
            for (int r = 0; r < 2; r++)
                memcpy(ranks[r].g, floats(v->gradient[t][r], g), n * sizeof *g);
            assert_int_equal(step(&w, t, true, -1), 2);
            (void)floats(v->out[t], want);
            for (size_t i = 0; i < n; i++)
                if (!(fabsf(output(&w, 0)[i] - want[i]) <= 2e-5f * (1 + fabsf(want[i]))))
                    fail_msg("%s, step %d, element %zu: %g in place of %g", v->spec, (int)t, i,
                             (double)output(&w, 0)[i], (double)want[i]);
        }
        for (int r = 0; r < 2; r++) {
            tg__method_destroy(ranks[r].m);
            tg__state_destroy(ranks[r].state);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_rank_is_the_mean),
        cmocka_unit_test(others_ride_along),
        cmocka_unit_test(ranks_are_as_one_on_the_mean),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(rank_one_is_reproduced),
        cmocka_unit_test(zeros_are_no_end),
        cmocka_unit_test(scale_does_not_matter),
        cmocka_unit_test(huge_values_do_no_harm),
        cmocka_unit_test(warm_start_helps),
        cmocka_unit_test(threads_and_exchanges_agree),
        cmocka_unit_test(golden_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* CSC with several ranks: golden runs, its exact limits, its memory, the last chunk, warm-up,
 * dropped steps. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <golden/golden_csc.h> /* tests/golden */
#include "method_ranks.h"
#include "telegrad/random.h"

#include <stdio.h>
#include <stdlib.h>

static float *velocity(int r)
{
    return ranks[r].m->feedback->vec[0];
}

static float *accumulated(int r)
{
    return ranks[r].m->feedback->vec[1];
}

static void dyadic_gradients(uint64_t t)
{
    for (int r = 0; r < ranks_size; r++) {
        const tg_rng_key key = {
            .seed = 8, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)r, .step = t};
        for (size_t i = 0; i < RANKS_N; i++)
            ranks[r].g[i] = (float)(floor(tg_rng_normal(&key, i) * 16) / 16);
    }
}

static bool is_zero(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != 0)
            return false;
    return true;
}

/* ---- golden vectors -------------------------------------------------------------------------- */

/* The formula of tools/golden_csc.py. */
static void golden_gradients(uint64_t t)
{
    for (uint32_t r = 0; r < (uint32_t)ranks_size; r++) {
        uint32_t lcg = 1000 * r + (uint32_t)t + 1;
        for (uint32_t i = 0; i < RANKS_N; i++) {
            lcg = lcg * UINT32_C(1664525) + UINT32_C(1013904223);
            const float unit = (float)(lcg >> 8) * 0x1p-23f - 1;
            ranks[r].g[i] = unit * (float)(1 + (i / 100 + 3 * (uint32_t)t + r) % 5);
        }
    }
}

/* The i-th f32 of little-endian bytes in hexadecimal. */
static float float_of(const char *hex, size_t i)
{
    uint32_t bits = 0;
    float x;
    for (unsigned b = 0; b < 4; b++) {
        unsigned byte;
        assert_int_equal(sscanf(hex + 8 * i + 2 * b, "%2x", &byte), 1);
        bits |= byte << 8 * b;
    }
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The same chunks, the same bits. */
static void golden_runs(void **state)
{
    (void)state;
    for (size_t c = 0; c < TG_COUNT(golden_csc); c++) {
        const struct golden_csc *v = &golden_csc[c];
        ranks_start(v->spec, v->ranks);
        for (uint64_t t = 0; t < TG_COUNT(v->step); t++) {
            const bool dense = v->step[t].count == 0;
            size_t at = 0;
            golden_gradients(t);
            ranks_step(t, true, -1);
            for (size_t i = 0; i < (dense ? 400 : RANKS_N); i++) {
                bool sent = dense;
                for (size_t j = 0; j < v->step[t].count; j++)
                    sent = sent || i / v->chunk == v->step[t].chunk[j];
                const float want = sent ? float_of(v->step[t].mean, at++) : 0;
                if (ranks_aggregate(0)[i] != want)
                    fail_msg("%s, step %d, element %zu: %g in place of %g", v->spec, (int)t, i,
                             (double)ranks_aggregate(0)[i], (double)want);
            }
            assert_int_equal(v->step[t].mean[8 * at], '\0');
            ranks_settle(false);
        }
        ranks_stop();
    }
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* All chunks, masked: the mean of the gradients in one round. Unmasked: the mean of the velocities,
 * which equals one rank's momentum SGD on the mean where sums are exact. */
static void all_chunks(void **state)
{
    static const char *const specs[] = {
        "csc:chunk=64,density=1,warmup=0,momentum=0.5",
        "csc:chunk=1000,density=0.01,warmup=0,momentum=0.5",
        "csc:chunk=4096,density=0.01,warmup=0,momentum=0.5",
        "csc:chunk=1,density=1,warmup=0,momentum=0.5",
        "csc:chunk=64,density=1,warmup=0,momentum=0.5,masking=no",
        "csc:chunk=4096,density=0.01,warmup=0,momentum=0.5,masking=no",
    };
    static float u[RANKS_N];
    (void)state;
    for (size_t c = 0; c < TG_COUNT(specs); c++)
        for (int size = 1; size <= 8; size++) {
            const bool masking = strstr(specs[c], "masking=no") == NULL;
            if (!masking && (size & (size - 1)) != 0)
                continue;
            memset(u, 0, sizeof u);
            ranks_start(specs[c], size);
            for (uint64_t t = 0; t < 4; t++) {
                dyadic_gradients(t);
                assert_int_equal(ranks_step(t, true, -1), 1);
                for (size_t i = 0; i < RANKS_N; i++) {
                    float sum = 0;
                    for (int r = 0; r < size; r++)
                        sum += ranks[r].g[i];
                    u[i] = (masking ? 0 : 0.5f * u[i]) + sum * (1.0f / (float)size);
                }
                for (size_t i = 0; i < RANKS_N; i++)
                    assert_true(ranks_aggregate(0)[i] == u[i]);
                assert_true(tg__method_residual_norm(ranks[0].m) == 0);
                assert_int_equal(ranks[0].task.kept, RANKS_N);
                ranks_settle(false);
            }
            ranks_stop();
        }
}

/* Sum of what was applied + memory = sum of the gradients; nothing is rounded if the number of
 * ranks is a power of two. */
static void nothing_is_lost(void **state)
{
    static const char *const specs[] = {
        "csc:chunk=64,density=0.2,warmup=0,momentum=0",
        "csc:chunk=7,density=0.1,warmup=0,momentum=0,exchange=ring",
        "csc:chunk=333,density=0.01,warmup=0,momentum=0,exchange=allgather",
        "csc:chunk=1,density=0.1,warmup=0,momentum=0,exchange=halving",
    };
    static double sum[RANKS_N];
    (void)state;
    for (size_t c = 0; c < TG_COUNT(specs); c++)
        for (int size = 1; size <= 8; size++) {
            const bool exact = (size & (size - 1)) == 0;
            double worst = 0;
            memset(sum, 0, sizeof sum);
            ranks_start(specs[c], size);
            for (uint64_t t = 0; t < 10; t++) {
                dyadic_gradients(t);
                assert_int_equal(ranks_step(t, true, t == 4 ? size - 1 : -1), 2);
                for (int r = 0; r < size; r++)
                    for (size_t i = 0; i < RANKS_N && !(t == 4 && r == size - 1); i++)
                        sum[i] += (double)ranks[r].g[i];
                for (size_t i = 0; i < RANKS_N && t != 4; i++)
                    sum[i] -= size * (double)ranks_aggregate(0)[i];
                ranks_settle(t == 4);
            }
            for (size_t i = 0; i < RANKS_N; i++) {
                for (int r = 0; r < size; r++)
                    sum[i] -= (double)accumulated(r)[i];
                worst = fmax(worst, fabs(sum[i]));
            }
            if (worst > (exact ? 0 : 1e-4))
                fail_msg("%s, %d ranks: %g is lost", specs[c], size, worst);
            ranks_stop();
        }
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* The last chunk is shorter, and so is its frame. */
static void the_last_chunk(void **state)
{
    (void)state;
    ranks_start("csc:chunk=300,density=0.25,warmup=0", 3);
    for (uint64_t t = 0; t < 4; t++) {
        const size_t begin = t % 2 == 0 ? 900 : 300, len = t % 2 == 0 ? 100 : 300;
        for (int r = 0; r < 3; r++)
            for (size_t i = 0; i < RANKS_N; i++)
                ranks[r].g[i] = i >= begin && i < begin + len ? 10 + (float)r : 0.001f;
        assert_int_equal(ranks_step(t, true, -1), 2);
        for (int r = 0; r < 3; r++) {
            assert_int_equal(ranks[r].task.kept, len);
            assert_true(ranks[r].task.density == 0.25);
            assert_true(is_zero(accumulated(r) + begin, len) && is_zero(velocity(r) + begin, len));
            assert_true(accumulated(r)[0] != 0 && velocity(r)[0] != 0);
            /* 4 norms in one frame, the values in a frame for each rank */
            assert_int_equal(ranks[r].task.coded_bytes,
                             TG__FRAME_HEAD + 4 * 4 + 3 * TG__FRAME_HEAD + 4 * len);
        }
        for (size_t i = 0; i < RANKS_N; i++)
            assert_true((ranks_aggregate(0)[i] != 0) == (i >= begin && i < begin + len));
        ranks_settle(false);
    }
    ranks_stop();
}

/* By default chunks are as small as the bucket requires: here 15 of 64, and a shorter one. */
static void chunks_that_suit(void **state)
{
    static const char *const specs[] = {"csc:density=0.2,warmup=0",
                                        "csc:chunk=auto,density=0.2,warmup=0",
                                        "csc:chunk=64,density=0.2,warmup=0"};
    static float sent[TG_COUNT(specs)][RANKS_N];
    (void)state;
    for (size_t c = 0; c < TG_COUNT(specs); c++) {
        ranks_start(specs[c], 2);
        for (uint64_t t = 0; t < 3; t++) {
            dyadic_gradients(t);
            assert_int_equal(ranks_step(t, true, -1), 2);
            ranks_settle(false);
        }
        assert_true(ranks[0].task.density == 3 / 16.0);
        memcpy(sent[c], ranks_aggregate(0), sizeof sent[c]);
        ranks_stop();
        assert_memory_equal(sent[c], sent[0], sizeof sent[c]);
    }
}

static void ties_go_to_the_lower_index(void **state)
{
    (void)state;
    ranks_start("csc:chunk=100,density=0.3,warmup=0,momentum=0", 2);
    for (uint64_t t = 0; t < 3; t++) {
        for (int r = 0; r < 2; r++)
            for (size_t i = 0; i < RANKS_N; i++)
                ranks[r].g[i] = t == 0 ? 1 : 0;
        ranks_step(t, true, -1);
        for (size_t i = 0; i < RANKS_N; i++)
            assert_true(ranks_aggregate(0)[i] == (i / 300 == t ? 1 : 0));
        ranks_settle(false);
    }
    ranks_stop();
}

/* A choice that no single rank would make. */
static void the_sum_decides(void **state)
{
    (void)state;
    ranks_start("csc:chunk=100,density=0.1,warmup=0", 2);
    for (int r = 0; r < 2; r++)
        for (size_t i = 0; i < RANKS_N; i++)
            ranks[r].g[i] = i / 100 == (size_t)r ? 3 : i / 100 == 7 ? -2 : 0.5f;
    ranks_step(0, true, -1);
    for (size_t i = 0; i < RANKS_N; i++)
        assert_true(ranks_aggregate(0)[i] == (i / 100 == 7 ? -2 : 0));
    ranks_stop();
}

/* Norms that overflow f32: these chunks come first, and all ranks agree. */
static void huge(void **state)
{
    (void)state;
    ranks_start("csc:chunk=100,density=0.2,warmup=0", 2);
    for (int r = 0; r < 2; r++)
        for (size_t i = 0; i < RANKS_N; i++)
            ranks[r].g[i] = i / 100 == 4 || i / 100 == 9 ? (r == 0 ? 0x1.8p127f : -0x1p127f) : 1;
    ranks_step(0, true, -1);
    for (size_t i = 0; i < RANKS_N; i++)
        assert_true(ranks_aggregate(0)[i] == (i / 100 == 4 || i / 100 == 9 ? 0x1p125f : 0));
    ranks_stop();
}

/* So many norms among so many ranks are sent via owners, with one delay more; the bits are the
 * same. */
static void many_ranks(void **state)
{
    static float sent[2][RANKS_N];
    (void)state;
    for (int size = 2; size <= 12; size += 10) {
        ranks_start("csc:chunk=1,density=0.1,warmup=0", size);
        for (uint64_t t = 0; t < 3; t++) {
            size_t kept = 0;
            dyadic_gradients(0);
            for (int r = 2; r < size; r++)
                memset(ranks[r].g, 0, sizeof ranks[r].g);
            assert_int_equal(ranks_step(t, true, -1), 2);
            for (size_t i = 0; i < RANKS_N; i++) {
                sent[size > 2][i] = ranks_aggregate(0)[i] * (float)size;
                kept += ranks_aggregate(0)[i] != 0;
            }
            assert_true(kept <= 100 && kept > 80);
            ranks_settle(false);
        }
        ranks_stop();
    }
    for (size_t i = 0; i < RANKS_N; i++)
        assert_true(fabsf(sent[0][i] - sent[1][i]) <= 1e-6f * fabsf(sent[0][i]));
}

/* ---- steps that are dense or dropped --------------------------------------------------------- */

/* Momentum SGD during the warm-up and in later dense steps; nothing accumulates. */
static void dense_steps(void **state)
{
    static float u[RANKS_N], v[RANKS_N];
    (void)state;
    for (int nesterov = 0; nesterov < 2; nesterov++) {
        ranks_start(nesterov ? "csc:chunk=100,warmup=1ep,momentum=0.5,nesterov=yes"
                             : "csc:chunk=100,warmup=1ep,momentum=0.5",
                    1);
        memset(u, 0, sizeof u);
        for (uint64_t t = 0; t < 8; t++) {
            const bool coded = t != 6;
            dyadic_gradients(t);
            memcpy(v, accumulated(0), sizeof v);
            assert_int_equal(ranks_step(t, coded, -1), t < 5 || !coded ? 1 : 2);
            assert_true((ranks[0].task.density == 1) == (t < 5 || !coded));
            if (t == 6)
                assert_memory_equal(v, accumulated(0), sizeof v);
            for (size_t i = 0; t < 5 && i < RANKS_N; i++) {
                u[i] = nesterov ? 0.5f * (u[i] + ranks[0].g[i]) : 0.5f * u[i] + ranks[0].g[i];
                assert_true(ranks_aggregate(0)[i] == (nesterov ? u[i] + ranks[0].g[i] : u[i]));
                assert_true(v[i] == 0 && velocity(0)[i] == u[i]);
            }
            ranks_settle(false);
        }
        ranks_stop();
    }
}

/* A rank whose gradient is not finite sends zeros and keeps its memory; the others take back what
 * they sent. */
static void dropped_steps(void **state)
{
    static float v[3][RANKS_N], u[RANKS_N];
    (void)state;
    ranks_start("csc:chunk=64,density=0.2,warmup=0,momentum=0.5", 3);
    for (uint64_t t = 0; t < 6; t++) {
        const bool dropped = t % 2 == 1;
        dyadic_gradients(t);
        for (int r = 0; r < 3; r++)
            memcpy(v[r], accumulated(r), sizeof v[r]);
        memcpy(u, velocity(1), sizeof u);
        assert_int_equal(ranks_step(t, true, dropped ? 1 : -1), 2);
        if (dropped) {
            assert_memory_equal(accumulated(1), v[1], sizeof v[1]);
            assert_memory_equal(velocity(1), u, sizeof u);
        }
        ranks_settle(dropped);
        for (size_t i = 0; dropped && i < RANKS_N; i++) {
            const bool sent = ranks_aggregate(0)[i] != 0; /* or the sum was 0 */
            assert_true(accumulated(1)[i] == v[1][i]);
            if (!sent)
                assert_true(accumulated(0)[i] - v[0][i] == velocity(0)[i] || velocity(0)[i] == 0);
            else
                assert_true(accumulated(0)[i] != 0 || accumulated(2)[i] != 0);
        }
    }
    ranks_stop();
}

/* Each tensor's gradient is scaled before it is accumulated. */
static void clipping(void **state)
{
    (void)state;
    ranks_start("csc:chunk=100,density=1,warmup=0,clip=2", 4);
    for (int r = 0; r < 4; r++)
        for (size_t i = 0; i < RANKS_N; i++)
            ranks[r].g[i] = i < RANKS_FIRST ? 0.5f : 0.001f; /* norms 5 and 0.03; the limit is 1 */
    ranks_step(0, true, -1);
    for (size_t i = 0; i < RANKS_N; i++)
        assert_true(fabsf(ranks_aggregate(0)[i] - (i < RANKS_FIRST ? 0.1f : 0.001f)) < 1e-7f);
    ranks_stop();
}

/* Any number of cores gives the same bits. */
static void several_cores(void **state)
{
    static float sent[2][RANKS_N], v[2][RANKS_N];
    tg__pool *pool = NULL;
    (void)state;
    assert_int_equal(tg__pool_create(3, &pool), TG_OK);
    for (int many = 0; many < 2; many++) {
        ranks_start("csc:chunk=30,density=0.3,warmup=0", 2);
        for (int r = 0; r < 2; r++)
            ranks[r].m->setup.pool = many ? pool : NULL;
        for (uint64_t t = 0; t < 5; t++) {
            dyadic_gradients(t);
            ranks_step(t, true, -1);
            ranks_settle(false);
        }
        memcpy(sent[many], ranks_aggregate(0), sizeof sent[many]);
        memcpy(v[many], accumulated(1), sizeof v[many]);
        ranks_stop();
    }
    assert_memory_equal(sent[0], sent[1], sizeof sent[0]);
    assert_memory_equal(v[0], v[1], sizeof v[0]);
    tg__pool_destroy(pool);
}

static void refused(void **state)
{
    static const refusal cases[] = {
        {"csc:chunk=0", "chunk=0: allowed: 1 <= chunk <= 1e+09; or auto"},
        {"csc:chunk=64.5", "not a whole number of 64 bits; allowed: 1 <= chunk"},
        {"csc:chunk=all", "or auto"},
        {"csc:density=0", "density=0"},
        {"csc:momentum=1", "momentum=1"},
        {"csc:exchange=reducescatter",
         "allowed: direct, ring, halving, allgather, star, auto, none"},
        {"csc:values=fp16", "values"},
    };
    (void)state;
    ranks_refuse(cases, TG_COUNT(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_runs),      cmocka_unit_test(all_chunks),
        cmocka_unit_test(nothing_is_lost),  cmocka_unit_test(the_last_chunk),
        cmocka_unit_test(chunks_that_suit), cmocka_unit_test(ties_go_to_the_lower_index),
        cmocka_unit_test(the_sum_decides),  cmocka_unit_test(huge),
        cmocka_unit_test(many_ranks),       cmocka_unit_test(dense_steps),
        cmocka_unit_test(dropped_steps),    cmocka_unit_test(clipping),
        cmocka_unit_test(several_cores),    cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

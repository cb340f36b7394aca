/* Index lists: round trips of every coding, exact sizes; damage is detected or gives another valid
 * list, and never causes a read beyond the end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "guarded.h"
#include "vectors.h"
#include "wire/elias_fano.h"
#include "wire/rice.h"
#include <math.h>
#include <stdlib.h>

enum { MAX_K = 120000 };

static uint32_t list[MAX_K], back[MAX_K + 1];

/* k of n: at random, or the first or last k. */
static size_t choose(size_t n, size_t k, int how, uint64_t seed)
{
    uint64_t state = seed * 77 + 5;
    size_t count = 0;
    if (how != 0) {
        for (size_t i = 0; i < k; i++)
            list[i] = (uint32_t)(how == 1 ? i : n - k + i);
        return k;
    }
    for (size_t i = 0; i < n && count < k; i++)
        if ((uint64_t)test_random(&state) * (n - i) >> 32 < k - count)
            list[count++] = (uint32_t)i;
    return count;
}

static tg_status read_all(int coding, int param, size_t n, size_t k, const uint8_t *src, size_t len,
                          size_t cap)
{
    tg__index_reader r;
    TG_TRY(tg__index_read_begin(&r, coding, param, n, k, src, len));
    size_t done = 0, count;
    do {
        TG_TRY(tg__index_read(&r, back + done, cap, &count));
        assert_true(count <= cap);
        for (size_t i = done; i < done + count; i++)
            assert_true(back[i] < n && (i == 0 || back[i] > back[i - 1]));
        done += count;
    } while (count > 0);
    assert_int_equal(done, k);
    return TG_OK;
}

static void round_trip(int wish, size_t n, size_t k, bool damage)
{
    tg__guarded mem;
    tg__index_plan plan = tg__index_choose(wish, list, k, n);
    tg__guarded_open(&mem, plan.len + 1);
    uint8_t *code = tg__guarded_place(&mem, plan.len, 0, true);
    const int coding = plan.coding, param = plan.param;
    const size_t len = plan.len;
    tg__index_write(&plan, list, k, n, code);
    assert_true(tg__guarded_intact(&mem));
    assert_true(wish == TG__INDEX_AUTO || wish == coding);
    static const size_t caps[] = {1, 2, 3, 63, 64, MAX_K};
    for (size_t i = n > 5000 ? 3 : 0; i < TG_COUNT(caps); i++) {
        assert_int_equal(read_all(coding, param, n, k, code, len, caps[i]), TG_OK);
        assert_memory_equal(back, list, k * sizeof(list[0]));
    }
    assert_int_equal(tg__index_check(coding, param, n, k, code, len), TG_OK);
    if (k > 0 && list[k - 1] == n - 1) /* the last index becomes just too large */
        assert_int_equal(tg__index_check(coding, param, n - 1, TG__MIN(k, n - 1), code, len),
                         TG_E_CORRUPT);
    if (damage) {
        /* Other lengths, other counts, every bit flipped: an error or another valid list; never a
         * byte read beyond the end. */
        tg__guarded cut_mem;
        tg__guarded_open(&cut_mem, len + 1);
        for (size_t cut = 0; cut < len; cut++) {
            uint8_t *prefix = tg__guarded_place(&cut_mem, cut, 0, true);
            for (size_t at = 0; at < cut; at++)
                prefix[at] = code[at];
            assert_int_equal(tg__index_check(coding, param, n, k, prefix, cut), TG_E_CORRUPT);
        }
        tg__guarded_close(&cut_mem);
        if (k > 0)
            assert_int_equal(tg__index_check(coding, param, n, k - 1, code, len), TG_E_CORRUPT);
        assert_int_equal(tg__index_check(coding, param, n, k + 1, code, len), TG_E_CORRUPT);
        for (size_t bit = 0; bit < 8 * len; bit++) {
            code[bit / 8] ^= (uint8_t)(1u << bit % 8);
            (void)read_all(coding, param, n, k, code, len, 7);
            for (int other = 0; other <= TG__INDEX_CODINGS; other++)
                (void)read_all(other, param + (int)(bit % 3), n, k, code, len, 64);
            code[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
    tg__guarded_close(&mem);
}

static void every_coding_round_trips(void **state)
{
    (void)state;
    static const size_t ns[] = {0, 1, 2, 7, 8, 9, 31, 63, 64, 65, 200, 4097, 100003};
    static const int wishes[] = {TG__INDEX_RAW, TG__INDEX_BITMAP, TG__INDEX_RICE, TG__INDEX_EF,
                                 TG__INDEX_AUTO};
    for (size_t i = 0; i < TG_COUNT(ns); i++) {
        size_t n = ns[i], ks[] = {0, TG__MIN(n, (size_t)1), n / 100, n / 10, n / 2, n - n / 8, n};
        for (size_t j = 0; j < TG_COUNT(ks); j++)
            for (int how = 0; how < 3; how++) {
                size_t k = choose(n, ks[j], how, i * 10 + j);
                assert_int_equal(k, ks[j]);
                for (size_t w = 0; w < TG_COUNT(wishes); w++)
                    round_trip(wishes[w], n, k, n <= 200);
            }
    }
}

static void far_indices_round_trip(void **state)
{
    (void)state;
    size_t n = (size_t)1 << 29;
    static const uint32_t lists[][3] = {
        {(1u << 29) - 1, 0, 0}, {0, (1u << 29) - 1, 0}, {0, 1, 2}, {5, 1u << 28, (1u << 29) - 1}};
    static const size_t ks[] = {1, 2, 3, 3};
    for (size_t i = 0; i < TG_COUNT(ks); i++) {
        for (size_t j = 0; j < ks[i]; j++)
            list[j] = lists[i][j];
        round_trip(TG__INDEX_RICE, n, ks[i], false);
        round_trip(TG__INDEX_EF, n, ks[i], false);
        round_trip(TG__INDEX_AUTO, n, ks[i], false);
    }
}

static uint64_t rice_bits(size_t k, int b)
{
    uint64_t bits = 0, next = 0;
    for (size_t i = 0; i < k; i++) {
        bits += ((list[i] - next) >> b) + 1 + (unsigned)b;
        next = (uint64_t)list[i] + 1;
    }
    return bits;
}

/* Short and long codes in sequence, at every bit position of a byte. */
static void rice_codes_of_all_lengths(void **state)
{
    (void)state;
    static uint8_t code[400000];
    uint64_t random = 99;
    for (int b = 0; b < 32; b += b < 6 ? 1 : 5) {
        size_t k = 4000;
        uint32_t next = 0;
        for (size_t i = 0; i < k; i++) {
            uint32_t range = i % 5 ? 40 : 4000;
            list[i] = next + test_random(&random) % range;
            next = list[i] + 1;
        }
        size_t len = (size_t)((rice_bits(k, b) + 7) / 8);
        assert_true(len <= sizeof(code));
        tg__rice_write(list, k, b, code, len);
        assert_int_equal(read_all(TG__INDEX_RICE, b, next, k, code, len, 333), TG_OK);
        assert_memory_equal(back, list, k * sizeof(list[0]));
    }
}

/* Codes of every parameter can be read; the chosen one is the shortest, and among equals the
 * lowest. */
static void rice_parameter_is_the_best(void **state)
{
    (void)state;
    static uint8_t code[200000];
    static const size_t ks[] = {1, 2, 5, 30, 400, 3000};
    for (size_t i = 0; i < TG_COUNT(ks); i++) {
        for (int how = 0; how < 3; how++) {
            size_t n = 6000, k = choose(n, ks[i], how, i);
            uint64_t chosen_bits, best_bits = UINT64_MAX;
            int chosen = tg__rice_choose(list, k, &chosen_bits), best = 0;
            for (int b = 0; b <= TG__RICE_PARAM_MAX; b++) {
                uint64_t bits = rice_bits(k, b);
                if (bits < best_bits) {
                    best_bits = bits;
                    best = b;
                }
                size_t len = (size_t)((bits + 7) / 8);
                tg__rice_write(list, k, b, code, len);
                assert_int_equal(read_all(TG__INDEX_RICE, b, n, k, code, len, 100), TG_OK);
                assert_memory_equal(back, list, k * sizeof(list[0]));
            }
            assert_int_equal(chosen_bits, best_bits);
            assert_int_equal(chosen, best);
            if (k < 30)
                continue;
            /* An index that is too large among valid ones, far from the end: it is never
             * returned. */
            size_t len = (size_t)((chosen_bits + 7) / 8);
            tg__rice_write(list, k, chosen, code, len);
            for (size_t j = k - 24; j < k; j++)
                assert_int_equal(
                    read_all(TG__INDEX_RICE, chosen, list[j], TG__MIN(k, list[j]), code, len, 2),
                    TG_E_CORRUPT);
        }
    }
}

static void hand_made_rice_code(void **state)
{
    (void)state;
    /* Indices 2, 3, 12 of 20, b = 2: gaps 2, 0, 8 = (0, 2), (0, 0), (2, 0): bits 1 01 | 1 00 | 001
     * 00 in order of sending (remainders lowest bit first) = 1,0,1,1,0,0,0,0 1,0,0 -> bytes 0x0d,
     * 0x01. */
    static const uint8_t code[] = {0x0d, 0x01};
    static const uint8_t padded[] = {0x0d, 0x09}, longer[] = {0x0d, 0x01, 0};
    list[0] = 2, list[1] = 3, list[2] = 12;
    uint8_t out[2];
    tg__rice_write(list, 3, 2, out, 2);
    assert_memory_equal(out, code, 2);
    assert_int_equal(read_all(TG__INDEX_RICE, 2, 20, 3, code, 2, 8), TG_OK);
    assert_int_equal(read_all(TG__INDEX_RICE, 2, 12, 3, code, 2, 8), TG_E_CORRUPT); /* 12 < n */
    assert_int_equal(read_all(TG__INDEX_RICE, 2, 13, 3, code, 2, 8), TG_OK);
    assert_int_equal(read_all(TG__INDEX_RICE, 2, 20, 3, padded, 2, 8), TG_E_CORRUPT);
    assert_int_equal(read_all(TG__INDEX_RICE, 2, 20, 3, longer, 3, 8), TG_E_CORRUPT);
    assert_int_equal(read_all(TG__INDEX_RICE, 32, 20, 3, code, 2, 8), TG_E_CORRUPT);
    assert_int_equal(read_all(TG__INDEX_RICE, -1, 20, 3, code, 2, 8), TG_E_CORRUPT);
    assert_int_equal(read_all(TG__INDEX_RAW, 1, 20, 0, code, 0, 8), TG_E_CORRUPT);
    assert_int_equal(read_all(TG__INDEX_CODINGS, 0, 20, 0, code, 0, 8), TG_E_CORRUPT);
    /* A quotient without an end. */
    static const uint8_t zeros[40] = {0};
    assert_int_equal(read_all(TG__INDEX_RICE, 0, 300, 1, zeros, 38, 8), TG_E_CORRUPT);
    assert_int_equal(read_all(TG__INDEX_RICE, 4, 3000, 1, zeros, 20, 8), TG_E_CORRUPT);
}

/* Indices 2, 3, 12 of 20: l = 2. Low parts 2, 3, 0: bits 0 1, 1 1, 0 0. High parts 0, 0, 3, so bits
 * 0, 1, 5 of 3 + 5 + 1 = 9. In order 0,1,1,1,0,0,1,1 0,0,0,1,0,0,0 -> bytes 0xce, 0x08. */
static void hand_made_elias_fano_code(void **state)
{
    (void)state;
    static const uint8_t code[] = {0xce, 0x08}, padded[] = {0xce, 0x88}, more[] = {0xce, 0x48},
                         fewer[] = {0xce, 0x00}, falling[] = {0xc7, 0x08}, longer[] = {0xce, 8, 0};
    list[0] = 2, list[1] = 3, list[2] = 12;
    uint8_t out[2];
    assert_int_equal(tg__ef_len(20, 3), 2);
    tg__ef_write(list, 3, 20, out);
    assert_memory_equal(out, code, 2);
    assert_int_equal(read_all(TG__INDEX_EF, 0, 20, 3, code, 2, 8), TG_OK);
    assert_int_equal(read_all(TG__INDEX_EF, 0, 13, 3, code, 2, 8), TG_OK); /* l = 2 as well */
    assert_int_equal(read_all(TG__INDEX_EF, 0, 12, 3, code, 2, 8), TG_E_CORRUPT);
    assert_int_equal(read_all(TG__INDEX_EF, 1, 20, 3, code, 2, 8), TG_E_CORRUPT);
    assert_int_equal(read_all(TG__INDEX_EF, 0, 20, 3, padded, 2, 8), TG_E_CORRUPT);
    assert_int_equal(read_all(TG__INDEX_EF, 0, 20, 3, more, 2, 8), TG_E_CORRUPT);
    assert_int_equal(read_all(TG__INDEX_EF, 0, 20, 3, fewer, 2, 8), TG_E_CORRUPT);
    assert_int_equal(read_all(TG__INDEX_EF, 0, 20, 3, falling, 2, 8), TG_E_CORRUPT);
    assert_int_equal(read_all(TG__INDEX_EF, 0, 20, 3, longer, 3, 8), TG_E_CORRUPT);
}

static void raw_words_must_ascend_below_n(void **state)
{
    (void)state;
    static const uint8_t same[] = {1, 0, 0, 0, 1, 0, 0, 0}, falling[] = {2, 0, 0, 0, 1, 0, 0, 0},
                         good[] = {0, 0, 0, 0, 1, 0, 0, 0};
    assert_int_equal(tg__index_check(TG__INDEX_RAW, 0, 9, 2, same, 8), TG_E_CORRUPT);
    assert_int_equal(tg__index_check(TG__INDEX_RAW, 0, 9, 2, falling, 8), TG_E_CORRUPT);
    assert_int_equal(tg__index_check(TG__INDEX_RAW, 0, 2, 2, good, 8), TG_OK);
    static const uint8_t far[] = {0, 0, 0, 0, 2, 0, 0, 0};
    assert_int_equal(tg__index_check(TG__INDEX_RAW, 0, 2, 2, far, 8), TG_E_CORRUPT);
}

/* log2 of n choose k */
static double entropy_bits(double n, double k)
{
    return (lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)) / log(2);
}

static void rice_is_within_two_percent_of_entropy(void **state)
{
    (void)state;
    static const double densities[] = {0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1};
    for (size_t i = 0; i < TG_COUNT(densities); i++) {
        size_t n = 1000000, k = choose(n, (size_t)(densities[i] * 1e6), 0, i);
        tg__index_plan plan = tg__index_choose(TG__INDEX_RICE, list, k, n);
        double bits = 8.0 * (double)plan.len, least = entropy_bits(1e6, (double)k);
        assert_true(bits <= 1.02 * least);
        assert_true(bits >= 0.98 * least); /* the bound is valid */
        assert_int_equal(tg__index_choose(TG__INDEX_AUTO, list, k, n).coding, TG__INDEX_RICE);
        double ef = 8.0 * (double)tg__ef_len(n, k);
        assert_true(ef >= bits && ef <= 1.15 * least);
    }
}

/* The reason why AUTO does not consider it. */
static void elias_fano_is_never_shorter_than_rice(void **state)
{
    (void)state;
    static const size_t ks[] = {1, 2, 5, 100, 999, 1500, 3000};
    for (size_t i = 0; i < TG_COUNT(ks); i++)
        for (int how = 0; how < 3; how++) {
            size_t k = choose(3000, ks[i], how, i);
            assert_true(tg__index_choose(TG__INDEX_RICE, list, k, 3000).len <= tg__ef_len(3000, k));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_coding_round_trips),
        cmocka_unit_test(far_indices_round_trip),
        cmocka_unit_test(rice_codes_of_all_lengths),
        cmocka_unit_test(rice_parameter_is_the_best),
        cmocka_unit_test(hand_made_rice_code),
        cmocka_unit_test(raw_words_must_ascend_below_n),
        cmocka_unit_test(hand_made_elias_fano_code),
        cmocka_unit_test(rice_is_within_two_percent_of_entropy),
        cmocka_unit_test(elias_fano_is_never_shorter_than_rice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

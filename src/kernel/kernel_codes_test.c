/* Kernels of codecs and of frames: few bits, signs, columns, halves, checksums. Every level gives
 * the bits of plain loops, and touches nothing outside its arrays (kernel_world.h). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernel_world.h"

/* ---- one adaptor for each kernel: variant v of a call on the arrays of a world --------------- */

#define TAU 0.5f

CALL(twobit_encode, k->twobit_encode(w->f[0], w->n, TAU, w->bytes))
CALL(twobit_ahead_encode,
     k->twobit_ahead_encode(w->f[0], w->f[1], w->n, v ? 1.0f : 0.3f, TAU, w->bytes))
CALL(twobit_add_encode, k->twobit_add_encode(w->f[0], w->f[1], w->n,
                                             v == 0   ? 0
                                             : v == 1 ? 1.0f
                                                      : 0.3f,
                                             TAU, w->bytes))
CALL(twobit_decode_add, k->twobit_decode_add(w->f[0], w->bytes, w->n, TAU))
CALL(twobit_decode, k->twobit_decode(w->f[0], w->bytes, w->n, TAU))
CALL(f16_encode, k->f16_encode(w->h, w->f[0], w->n))
CALL(f16_decode, k->f16_decode(w->f[0], w->h, w->n))
CALL(f16_decode_add, k->f16_decode_add(w->f[0], w->h, w->n))
CALL(bf16_encode, k->bf16_encode(w->h, w->f[0], w->n))
CALL(bf16_decode, k->bf16_decode(w->f[0], w->h, w->n))
CALL(bf16_decode_add, k->bf16_decode_add(w->f[0], w->h, w->n))
CALL(crc32c, w->result[0] = k->crc32c(v, w->f[0], w->n * sizeof(float) - (w->n ? v : 0)))

CALL(count_bits, w->result[0] = k->count_bits((const uint8_t *)w->f[0] + (w->n ? v : 0),
                                              w->n * sizeof(float) - (w->n ? v : 0)))

static void run_quant_nearest(const tg__kernels *k, world *w, unsigned v)
{
    static const int levels[] = {127, 7, 1, 0};
    k->quant_nearest((int8_t *)w->bytes, w->f[0], TG__MIN(w->n, tg__twobit_bytes(w->n)),
                     v ? 3.0f : 1000.0f, levels[v]);
}

static void run_quant_random(const tg__kernels *k, world *w, unsigned v)
{
    static const int levels[] = {127, 7, 1, 0};
    static const uint64_t first[] = {0, 128 * 77, 13, 127};
    const tg__draws draws = {
        .key = {1234567, 0x89abcdef}, .rounds = v % 2 ? 7 : 10, .first = first[v / 4]};
    k->quant_random((int8_t *)w->bytes, w->f[0], TG__MIN(w->n, tg__twobit_bytes(w->n)),
                    v % 4 ? 3.0f : 1000.0f, levels[v % 4], &draws);
}

static void run_quant_decode(const tg__kernels *k, world *w, unsigned v)
{
    size_t n = TG__MIN(w->n, tg__twobit_bytes(w->n));
    (v ? k->quant_decode : k->quant_decode_add)(w->f[0], (const int8_t *)w->bytes, n, 0.37f);
}

/* From the bytes of f[1] to the bytes of f[0], which suffice from 4 elements on; width v + 1. */
static void run_pack(const tg__kernels *k, world *w, unsigned v)
{
    k->pack((uint8_t *)w->f[0], (const int8_t *)w->f[1], w->n < 4 ? 0 : w->n, v + 1);
}

static void run_unpack(const tg__kernels *k, world *w, unsigned v)
{
    k->unpack((int8_t *)w->f[0], (const uint8_t *)w->f[1], w->n < 4 ? 0 : w->n, v + 1);
}

/* Valid for every second variant, then with one wrong bit somewhere. */
static void run_twobit_valid(const tg__kernels *k, world *w, unsigned v)
{
    k->twobit_encode(w->f[0], w->n, TAU, w->bytes);
    size_t size = tg__twobit_bytes(w->n);
    if (v && size) {
        size_t at = (size_t)v * 7919 % size;
        w->bytes[at] ^= (uint8_t)(1 << v % 8);
    }
    w->result[0] = k->twobit_valid(w->bytes, w->n);
}

static const float splits[] = {0.0f, 0.25f, -1e-3f};

CALL(sign_pack, k->sign_pack(w->f[0], w->n, splits[v], w->bytes))
CALL(sign_settle, k->sign_settle(w->f[0], w->n, splits[v], 0.5f, -0.25f))
CALL(sign_of, k->sign_of(w->f[0], w->n))

/* Bits that begin in the middle of a byte. */
static size_t bits_from(const world *w, unsigned v)
{
    return TG__MIN(w->n, (size_t)v);
}

CALL(sign_decode,
     k->sign_decode(w->f[0], w->bytes, bits_from(w, v), w->n - bits_from(w, v), 0.5f, -0.25f))
CALL(sign_decode_add,
     k->sign_decode_add(w->f[0], w->bytes, bits_from(w, v), w->n - bits_from(w, v), 0.5f, -0.25f))

/* The two values of each column, in the bytes of other vectors, at any alignment. */
CALL(column_decode,
     k->column_decode(w->f[0], w->bytes, bits_from(w, v), w->n - bits_from(w, v), v % 3 ? 1 : 0.3f,
                      (const uint8_t *)w->f[1] + (w->n > 8 ? v : 0),
                      (const uint8_t *)w->f[2] + (w->n > 8 ? 2 * v : 0)))
CALL(column_decode_add,
     k->column_decode_add(w->f[0], w->bytes, bits_from(w, v), w->n - bits_from(w, v),
                          v % 3 ? 1 : 0.3f, (const uint8_t *)w->f[1], (const uint8_t *)w->f[2]))

static void run_sum_abs(const tg__kernels *k, world *w, unsigned v)
{
    w->result[0] = double_bits(k->sum_abs(w->f[0], v ? w->f[1] : NULL, w->n));
}

static void run_split_sums(const tg__kernels *k, world *w, unsigned v)
{
    tg__split s;
    k->split_sums(w->f[0], w->n, splits[v], &s);
    w->result[0] = double_bits(s.below);
    w->result[1] = double_bits(s.above);
    w->result[2] = s.nbelow;
}

/* A matrix in f[0], its last columns left out when there are spare ones; the means of columns are
 * compared through a hash. */
static void run_columns(const tg__kernels *k, world *w, unsigned v)
{
    static const size_t widths[] = {1, 5, 16, 27, 40, 130, 1024};
    enum { MAX_COLS = 1024 };
    size_t stride = widths[v % TG_COUNT(widths)], rows = w->n / stride;
    size_t cols = v % 4 == 3 ? (stride + 1) / 2 : stride, row_bytes = (stride + 7) / 8;
    double below[MAX_COLS] = {0}, above[MAX_COLS] = {0};
    double squares[MAX_COLS] = {0}, rest[MAX_COLS] = {0};
    uint32_t nbelow[MAX_COLS] = {0};
    float t[MAX_COLS] = {0}, plus[MAX_COLS] = {0}, minus[MAX_COLS] = {0};
    for (size_t c = 0; c < cols; c++) {
        t[c] = v % 3 ? 0 : (float)c * 0.01f - 0.3f;
        plus[c] = (float)c * 0.5f;
        minus[c] = -1 - plus[c];
    }
    k->column_sums(w->f[0], v % 2 ? w->f[1] : NULL, stride, rows, cols, t, below, above, nbelow);
    for (size_t r = 0; r < rows; r++) /* weights are finite */
        w->f[2][r] = isfinite(w->f[2][r]) ? fabsf(w->f[2][r]) : 1;
    k->column_weigh_signs(w->f[0], stride, rows, cols, w->f[2],
                          (double *const[4]){below, above, squares, rest});
    for (size_t c = 0; c < cols; c++) {
        uint64_t words[] = {double_bits(below[c]), double_bits(above[c]), double_bits(squares[c]),
                            double_bits(rest[c]), nbelow[c]};
        w->result[0] = tg_hash(w->result[0], words, sizeof(words));
    }
    if (rows * row_bytes <= tg__twobit_bytes(w->n))
        k->column_settle(w->f[0], stride, rows, cols, t, plus, minus, v % 7 < 3 ? w->f[2] : NULL,
                         w->bytes, row_bytes, v % 5);
}

/* The bytes are cut into as many voters as they give. */
static void run_vote(const tg__kernels *k, world *w, unsigned v)
{
    static const size_t counts[] = {0, 1, 2, 3, 4, 7, 64, 255};
    const uint8_t *bits[255];
    size_t all = tg__twobit_bytes(w->n), voters = counts[v], bytes = all / 32, n = 8 * bytes;
    for (size_t j = 0; j < voters; j++)
        bits[j] = w->bytes + (all - bytes) * j / TG__MAX(voters, 2);
    size_t at = bytes > 3 ? v % 3 : 0;
    k->vote(w->f[0], bits, voters, at, n > 3 ? n - 8 * at - v % 4 : n);
}

static const kernel_case cases[] = {
    {"twobit_encode", run_twobit_encode, 1},
    {"twobit_ahead_encode", run_twobit_ahead_encode, 2},
    {"twobit_add_encode", run_twobit_add_encode, 3},
    {"twobit_decode_add", run_twobit_decode_add, 1},
    {"twobit_decode", run_twobit_decode, 1},
    {"twobit_valid", run_twobit_valid, 9},
    {"count_bits", run_count_bits, 3},
    {"sign_pack", run_sign_pack, TG_COUNT(splits)},
    {"sign_settle", run_sign_settle, TG_COUNT(splits)},
    {"sign_of", run_sign_of, 1},
    {"sign_decode", run_sign_decode, 8},
    {"sign_decode_add", run_sign_decode_add, 8},
    {"column_decode", run_column_decode, 8},
    {"column_decode_add", run_column_decode_add, 8},
    {"sum_abs", run_sum_abs, 2},
    {"split_sums", run_split_sums, TG_COUNT(splits)},
    {"columns", run_columns, 24},
    {"vote", run_vote, 8},
    {"f16_encode", run_f16_encode, 1},
    {"f16_decode", run_f16_decode, 1},
    {"f16_decode_add", run_f16_decode_add, 1},
    {"bf16_encode", run_bf16_encode, 1},
    {"bf16_decode", run_bf16_decode, 1},
    {"bf16_decode_add", run_bf16_decode_add, 1},
    {"crc32c", run_crc32c, 4},
    {"quant_nearest", run_quant_nearest, 4},
    {"quant_random", run_quant_random, 16},
    {"quant_decode", run_quant_decode, 2},
    {"pack", run_pack, 8},
    {"unpack", run_unpack, 8},
};

static void test_codes(void **state)
{
    (void)state;
    compare_levels(cases, TG_COUNT(cases));
}

/* Narrowing vectors so long that the result is written past the caches. */
static void test_long_half(void **state)
{
    (void)state;
    enum { N = (8 << 20) + 77 };
    const tg__kernels *ref = tg__kernel_level("ref");
    tg__guarded mem;
    tg__guarded_open(&mem, (N + 64) * sizeof(uint16_t));
    float *src = malloc(N * sizeof(*src));
    uint16_t *want = malloc(N * sizeof(*want));
    assert_non_null(src);
    assert_non_null(want);
    for (size_t i = 0; i < N; i++)
        src[i] = number(i % 1024 ? NORMAL : BITS);
    for (unsigned c = 0; tg__kernel_levels[c / 2]; c++) {
        const tg__kernels *k = tg__kernel_level(tg__kernel_levels[c / 2]);
        if (!k)
            continue;
        uint16_t *dst = tg__guarded_place(&mem, N * sizeof(*dst), 2 * c, c % 2);
        (c % 2 ? ref->f16_encode : ref->bf16_encode)(want, src, N);
        (c % 2 ? k->f16_encode : k->bf16_encode)(dst, src, N);
        assert_memory_equal(dst, want, N * sizeof(*dst));
        assert_true(tg__guarded_intact(&mem));
    }
    tg__guarded_close(&mem);
    free(want);
    free(src);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes),
        cmocka_unit_test(test_long_half),
    };
    return cmocka_run_group_tests_name("kernel codes", tests, NULL, NULL);
}

/* Answers known from other sources, at every level; and the choice of the level. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernel/element.h"
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const tg__kernels *k; /* the level under test */

/* RFC 3720, appendix B.4, and the usual check value; and any split chains to the same value. */
static void test_crc32c(void **state)
{
    (void)state;
    uint8_t zeros[32] = {0}, ones[32], up[32], down[32];
    for (uint8_t i = 0; i < 32; i++) {
        ones[i] = 0xff;
        up[i] = i;
        down[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(k->crc32c(0, "123456789", 9), 0xe3069283);
    assert_int_equal(k->crc32c(0, zeros, 32), 0x8a9136aa);
    assert_int_equal(k->crc32c(0, ones, 32), 0x62a8ab43);
    assert_int_equal(k->crc32c(0, up, 32), 0x46dd794e);
    assert_int_equal(k->crc32c(0, down, 32), 0x113fdb5c);
    assert_int_equal(k->crc32c(0, "", 0), 0);

    static uint8_t bytes[30000];
    uint32_t bitwise = ~0u;
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)((uint32_t)i * UINT32_C(2654435761) >> 24);
        bitwise ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            bitwise = bitwise >> 1 ^ (0x82f63b78 & (0 - (bitwise & 1)));
    }
    for (size_t cut = 0; cut <= sizeof(bytes); cut += 997) {
        uint32_t crc = k->crc32c(0, bytes, cut);
        assert_int_equal(k->crc32c(crc, bytes + cut, sizeof(bytes) - cut), ~bitwise);
    }
}

/* The value of a 16-bit format with `fraction` bits of fraction, computed arithmetically, not from
 * bits. */
static double half_value(uint32_t h, int fraction, int bias)
{
    int exponent = (int)((h & 0x7fff) >> fraction), scale = exponent ? exponent : 1;
    uint32_t digits = (h & ((1u << fraction) - 1)) + (exponent ? 1u << fraction : 0);
    double magnitude = ldexp(digits, scale - bias - fraction);
    return h & 0x8000 ? -magnitude : magnitude;
}

/* Decoding gives every value. Encoding the midpoint of two neighbours gives the even one, and a
 * float next to the midpoint gives the nearer one. Together this is rounding to nearest even. */
static void check_format(void (*encode)(void *, const float *, size_t),
                         void (*decode)(float *, const void *, size_t), int fraction, int bias,
                         uint16_t infinity)
{
    for (uint32_t h = 0; h < infinity; h++) {
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
            uint16_t code = (uint16_t)(h | sign), back[4];
            float value;
            decode(&value, &code, 1);
            assert_true((double)value == half_value(code, fraction, bias));
            assert_true(!signbit(value) == !sign);
            double next = half_value(code + 1u, fraction, bias);
            if (h + 1u == infinity)
                next = 2 * (double)value - half_value(code - 1u, fraction, bias);
            float middle = (float)(((double)value + next) / 2), away = sign ? -INFINITY : INFINITY;
            float near[4] = {value, nextafterf(middle, 0), middle, nextafterf(middle, away)};
            encode(back, near, 4);
            uint16_t up = h + 1u == infinity ? code : (uint16_t)(code + 1); /* saturates */
            assert_int_equal(back[0], code);
            assert_int_equal(back[1], code);
            assert_int_equal(back[2], h % 2 ? up : code);
            assert_int_equal(back[3], up);
        }
    }
}

static void test_half(void **state)
{
    (void)state;
    check_format(k->f16_encode, k->f16_decode, 10, 15, 0x7c00);
    check_format(k->bf16_encode, k->bf16_decode, 7, 127, 0x7f80);
    static const struct {
        uint32_t f32;
        uint16_t f16, bf16;
    } table[] = {
        {0x00000000, 0x0000, 0x0000}, {0x80000000, 0x8000, 0x8000}, {0x3f800000, 0x3c00, 0x3f80},
        {0xc0000000, 0xc000, 0xc000}, {0x3eaaaaab, 0x3555, 0x3eab}, {0x477fe000, 0x7bff, 0x4780},
        {0x477fefff, 0x7bff, 0x4780}, {0x477ff000, 0x7bff, 0x4780}, {0x7149f2ca, 0x7bff, 0x714a},
        {0xff7fffff, 0xfbff, 0xff7f}, {0x7f800000, 0x7c00, 0x7f80}, {0xff800000, 0xfc00, 0xff80},
        {0x7fc00001, 0x7e00, 0x7fc0}, {0x7f800001, 0x7e00, 0x7fc0}, {0xffffffff, 0xfe00, 0xffc0},
        {0x33800000, 0x0001, 0x3380}, {0x33000000, 0x0000, 0x3300}, {0x33000001, 0x0001, 0x3300},
        {0x38800000, 0x0400, 0x3880}, {0x387fc000, 0x03ff, 0x3880}, {0x00000001, 0x0000, 0x0000}};
    for (size_t i = 0; i < TG_COUNT(table); i++) {
        float x = tg__f32_from(table[i].f32);
        uint16_t f16, bf16;
        k->f16_encode(&f16, &x, 1);
        k->bf16_encode(&bf16, &x, 1);
        assert_int_equal(f16, table[i].f16);
        assert_int_equal(bf16, table[i].bf16);
    }
    float sums[3] = {1, 2, 3};
    k->f16_decode_add(sums, (const uint16_t[]){0x3c00, 0xc000, 0x3800}, 3);
    assert_true(sums[0] == 2 && sums[1] == 0 && sums[2] == 3.5f);
    k->bf16_decode_add(sums, (const uint16_t[]){0x3f80, 0xc000, 0x3f00}, 3);
    assert_true(sums[0] == 3 && sums[1] == -2 && sums[2] == 4);
}

/* The vector of MXNet's own test, threshold 4. */
static void test_twobit(void **state)
{
    (void)state;
    const float p[10] = {-9, -1, 2, 6, 8, 7, 0, -5, -10, -100};
    const float decoded[10] = {-4, 0, 0, 4, 4, 4, 0, -4, -4, -4};
    const float left[10] = {-5, -1, 2, 2, 4, 3, 0, -1, -6, -96};
    const uint8_t planes[4] = {0x38, 0x00, 0x81, 0x03}; /* plus 3 4 5; minus 0 7 8 9 */
    float r[10], g[10], out[10];
    uint8_t bytes[4], again[4];
    assert_int_equal(tg__twobit_bytes(10), 4);
    for (size_t i = 0; i < 10; i++) {
        g[i] = (float)i;
        r[i] = p[i] - g[i];
    }
    k->twobit_add_encode(r, g, 10, 0, 4, bytes);
    k->twobit_encode(p, 10, 4, again);
    assert_memory_equal(bytes, planes, 4);
    assert_memory_equal(again, planes, 4);
    assert_memory_equal(r, left, sizeof(left));
    assert_true(k->twobit_valid(bytes, 10));
    k->twobit_decode(out, bytes, 10, 4);
    for (size_t i = 0; i < 10; i++)
        assert_true(out[i] == decoded[i]);
    k->twobit_decode_add(r, bytes, 10, 4);
    for (size_t i = 0; i < 10; i++)
        assert_true(r[i] == p[i]);

    bytes[1] = 0x04; /* element 10 of 10 */
    assert_false(k->twobit_valid(bytes, 10));
    bytes[1] = 0x01; /* element 8 is + and - */
    assert_false(k->twobit_valid(bytes, 10));
    k->twobit_decode(out, bytes, 10, 4);
    assert_true(out[8] == 0);

    /* One more gradient ahead: -9 2 2 9 12 12 0 2 -2 -91 are compared. What is sent leaves p. */
    const float last[10] = {0, 3, 0, 3, 4, 5, 0, 7, 8, 9};
    const float rest[10] = {-5, -1, 2, 2, 4, 3, 0, -5, -10, -96};
    const uint8_t ahead[4] = {0x38, 0x00, 0x01, 0x02}; /* plus 3 4 5; minus 0 9 */
    k->twobit_ahead_encode(p, last, 10, 1, 4, again);
    for (size_t i = 0; i < 10; i++)
        r[i] = p[i] - last[i];
    k->twobit_add_encode(r, last, 10, 1, 4, bytes);
    assert_true(memcmp(again, ahead, 4) == 0 && memcmp(bytes, ahead, 4) == 0);
    assert_memory_equal(r, rest, sizeof(rest));
}

static void test_select(void **state)
{
    (void)state;
    enum { N = 70, CAP = 5 };
    float x[N] = {0}, val[CAP + TG__SELECT_SLACK];
    uint32_t idx[CAP + TG__SELECT_SLACK];
    x[3] = 1;
    x[4] = -0.0f;
    x[20] = -0.5f;
    x[21] = 0.49999997f;
    x[22] = NAN;
    x[40] = -INFINITY;
    x[63] = 0x1p-149f;
    x[69] = 0.5f;
    assert_int_equal(k->select(x, N, 0.5f, idx, val, CAP), 4);
    assert_memory_equal(idx, ((const uint32_t[]){3, 20, 40, 69}), 16);
    assert_memory_equal(val, ((const float[]){1, -0.5f, -INFINITY, 0.5f}), 16);
    assert_int_equal(k->select(x, N, 0, idx, val, CAP),
                     6); /* neither zeros nor NaN; one too many */
    assert_memory_equal(idx, ((const uint32_t[]){3, 20, 21, 40, 63}), 20);
    assert_int_equal(k->select(x, N, INFINITY, idx, val, CAP), 1);

    float r[N] = {0}, g[N] = {0};
    r[9] = r[66] = 0.25f;
    g[9] = g[10] = 0.25f;
    assert_int_equal(k->add_select(r, g, N, 0, 0.5f, idx, val, CAP), 1);
    assert_int_equal(idx[0], 9);
    assert_true(val[0] == 0.5f && r[9] == 0.5f && r[10] == 0.25f && r[66] == 0.25f);
    /* Two gradients ahead: 0.5 + 2 * 0.25, 0.25 + 2 * 0.25; then the same by adding. */
    for (int adds = 0; adds < 2; adds++) {
        assert_int_equal(adds ? k->add_select(r, g, N, 1, 0.75f, idx, val, CAP)
                              : k->ahead_select(r, g, N, 2, 0.75f, idx, val, CAP),
                         2);
        assert_memory_equal(idx, ((const uint32_t[]){9, 10}), 8);
        assert_memory_equal(val, ((const float[]){1, 0.75f}), 8);
    }
    assert_true(r[9] == 0.75f && r[10] == 0.5f && r[66] == 0.25f);
}

/* u = v = 1, g = 2, m = 0.5, by hand. */
static void test_dgc(void **state)
{
    (void)state;
    uint32_t idx[1 + TG__SELECT_SLACK];
    float u = 1, v = 1, g = 2, val[1 + TG__SELECT_SLACK];
    assert_int_equal(k->dgc_select(&u, &v, &g, 1, 0.5f, false, 0, 3.5f, idx, val, 1), 1);
    assert_true(u == 2.5f && v == 3.5f && val[0] == 3.5f && idx[0] == 0);
    u = v = 1;
    assert_int_equal(k->dgc_select(&u, &v, &g, 1, 0.5f, true, 0, 4.75f, idx, val, 1), 0);
    assert_true(u == 1.5f && v == 4.5f);
    u = v = 1;
    assert_int_equal(k->dgc_select(&u, &v, &g, 1, 0.5f, false, 2, 8.5f, idx, val, 1), 1);
    assert_true(u == 2.5f && v == 3.5f && val[0] == 8.5f);
}

/* Sums of more elements than f32 can count in ones, across a chunk's end; NaN if not finite. */
static void test_dgc_norm(void **state)
{
    (void)state;
    static float u[65536 + 100], v[65536 + 100], g[65536 + 100];
    enum { N = TG_COUNT(u) };
    for (size_t i = 0; i < N; i++) {
        u[i] = 0.5f;
        v[i] = i % 2 ? -3 : 3;
        g[i] = -1;
    }
    assert_true(k->dgc_sum_abs(u, v, g, N, 0.5f, false) == N / 2 * (3.75 + 2.25));
    assert_true(u[N - 1] == -0.75f && v[N - 1] == -3.75f && v[N - 2] == 2.25f);
    assert_true(k->dgc_sum_abs(u, v, g, 2, 0.5f, true) == (2.25 - 1.875) + (3.75 + 1.875));
    assert_true(k->dgc_sum_abs(u, v, g, 0, 0.5f, false) == 0);
    g[N - 3] = INFINITY;
    assert_true(isnan(k->dgc_sum_abs(u, v, g, N, 0.5f, false)));
}

static void test_stats(void **state)
{
    (void)state;
    static float x[65536 + 100], y[65536 + 100];
    static uint32_t hist[2048];
    enum { N = TG_COUNT(x) };
    for (size_t i = 0; i < N; i++)
        x[i] = i % 2 ? 0.5f : -2;
    x[77] = -8;
    tg__stats stats;
    memset(hist, 0, sizeof(hist));
    k->copy_stats(y, x, N, &stats);
    assert_memory_equal(x, y, sizeof(x));
    assert_true(stats.finite);
    assert_true(stats.sum_abs == N / 2 * 2.5 + 7.5);
    assert_true(stats.sum_sq == N / 2 * 4.25 + 63.75);
    assert_true(k->abs_max(x, N) == 8);
    assert_true(k->abs_max(x, 0) == 0);
    assert_true(k->all_finite(x, N) && k->all_finite(x, 0));
    x[78] = -FLT_MAX;
    assert_true(k->all_finite(x, N));
    x[78] = -2;
    k->histogram(x, N, hist);
    assert_int_equal(hist[0x3f000000 >> 20], N / 2 - 1);
    assert_int_equal(hist[0x40000000 >> 20], N / 2);
    assert_int_equal(hist[0x41000000 >> 20], 1);
    for (int i = 0; i < 2; i++) {
        x[N - 1] = i ? NAN : -INFINITY;
        k->copy_stats(NULL, x, N, &stats);
        assert_false(stats.finite);
        assert_true(!k->all_finite(x, N) && k->all_finite(x, N - 1));
        assert_true(!k->all_finite(x + N - 33, 33) && k->all_finite(x + N - 33, 32));
        assert_true(k->abs_max(x, N) == (i ? 8 : INFINITY));
    }
    /* Lane 0 sums 1 and many values of half its last bit, all of which are lost; a plain running
     * sum differs. */
    memset(x, 0, sizeof(x));
    x[0] = 1;
    for (size_t i = 1; i <= 64; i++)
        x[16 * i] = 0x1p-53f;
    k->copy_stats(NULL, x, N, &stats);
    assert_true(stats.sum_abs == 1);
    memset(x, 0, sizeof(x));
    x[0] = 1;
    for (size_t i = 1; i <= 64; i++)
        x[16 * i + 1] = 0x1p-53f;
    k->copy_stats(NULL, x, N, &stats);
    assert_true(stats.sum_abs == 1 + 0x1p-47);
}

static void test_moments(void **state)
{
    (void)state;
    static float x[65536 + 100];
    enum { N = TG_COUNT(x) };
    tg__moments sums;
    for (size_t i = 0; i < N; i++)
        x[i] = i % 2 ? 0.5f : -2;
    k->moments(x, N, 0, &sums);
    assert_true(sums.sum == N / 2 * -1.5 && sums.sum_sq == N / 2 * 4.25);
    k->moments(x, N, 0.5f, &sums);
    assert_true(sums.sum == N / 2 * -2.5 && sums.sum_sq == N / 2 * 6.25);
    k->moments(x, 0, 1, &sums);
    assert_true(sums.sum == 0 && sums.sum_sq == 0);
    for (size_t i = 0; i < N; i++) /* if squared directly, they would hide the differences */
        x[i] = i % 2 ? 0x1p100f : 0x1.000002p100f;
    k->moments(x, N, x[1], &sums);
    assert_true(sums.sum == N / 2 * 0x1p77 && sums.sum_sq == N / 2 * 0x1p154);
    for (int i = 0; i < 2; i++) {
        x[N - 1] = i ? NAN : -INFINITY;
        k->moments(x, N, 0, &sums);
        assert_true(isnan(sums.sum) && isnan(sums.sum_sq));
    }
}

static void test_steps(void **state)
{
    (void)state;
    float w[2] = {2, -4}, u[2] = {1, 2}, dst[2];
    const float g[2] = {3, 1};
    k->sgd_to(dst, w, g, 2, 0.5f, 0.25f); /* d = 3.5, 0 */
    assert_true(dst[0] == 0.25f && dst[1] == -4);
    k->sgd_preview_to(dst, w, u, g, 2, 0.5f, 0.5f, 0.25f, false); /* 3.5 + 0.5, 0 + 1 */
    assert_true(dst[0] == 0 && dst[1] == -4.5f && u[0] == 1);
    k->sgd_momentum(w, u, g, 2, 0.5f, 0.5f, 0.25f, false); /* u = 4, 1 */
    assert_true(u[0] == 4 && u[1] == 1 && w[0] == 0 && w[1] == -4.5f);
    k->sgd_momentum(w, u, g, 2, 0.5f, 0.5f, 0, true); /* u = 5, 1.5; step 5.5, 1.75 */
    assert_true(u[0] == 5 && u[1] == 1.5f && w[0] == -2.75f && w[1] == -5.375f);
    k->sgd(w, g, 1, 1, 1);
    assert_true(w[0] == -3);
    k->axpy(w, 2, g, 2);
    k->scale(w, 2, 2);
    assert_true(w[0] == 6 && w[1] == -6.75f);
    k->scatter_add(w, (const uint32_t[]){1, 0}, (const float[]){0.75f, 1}, 2);
    k->add(w, g, 2);
    k->sub(w, u, 2);
    assert_true(w[0] == 5 && w[1] == -6.5f);
}

static void test_adaptive_steps(void **state)
{
    (void)state;
    float w[2] = {2, -4}, u[2] = {1, 2}, dst[2];
    const float g[2] = {3, 1};
    k->lars_preview_to(dst, w, u, g, 2, 0.5f, 0.5f, 0.25f); /* u = 0.5 + 1.75, 1 + 0 */
    assert_true(dst[0] == -0.25f && dst[1] == -5 && u[0] == 1 && w[0] == 2);
    k->lars(w, u, g, 2, 0.5f, 0.5f, 0.25f);
    assert_true(w[0] == -0.25f && w[1] == -5 && u[0] == 2.25f && u[1] == 1);
    /* d = 4, -1; m = 2, 0.5; v = 4 + 5, 1 - 0; root*sqrt(v) + eps = 3.5, 1.5 */
    const tg__adam a = {0.5f, 0.5f, 0.5f, 0.5f, 0.25f, 0.5f, 7, 1, 0.5f};
    float p[2] = {2, -4}, m[2] = {0, 2}, v[2] = {4, 2}, kept[2];
    k->adam_preview_to(dst, p, m, v, g, 2, &a);
    memcpy(kept, dst, sizeof kept);
    assert_true(p[0] == 2 && m[1] == 2 && v[0] == 4);
    k->adam(p, m, v, g, 2, &a);
    assert_true(m[0] == 2 && m[1] == 0.5f && v[0] == 9 && v[1] == 1);
    assert_true(p[0] == 1 - 4 && p[1] == -2 - 3.5f / 1.5f);
    assert_true(kept[0] == p[0] && kept[1] == p[1]);
}

static void test_steps_of_strategies(void **state)
{
    (void)state;
    float w[3] = {9, 9, 9}, p[3] = {3, -1, 0.5f}, u[3] = {1, -2, 0.5f};
    const float a[3] = {10, 20, -0.0f}, zero[3] = {0}, x[3] = {4, -0.0f, -2};
    k->settle(w, a, p, u, 3);
    assert_true(p[0] == 2 && p[1] == 1 && p[2] == 0 && w[0] == 8 && w[1] == 19 && w[2] == 0);
    assert_memory_equal(u, zero, sizeof u);
    k->go_on(p, u, a, w, 3); /* d = 2, 1, 0 */
    assert_true(p[0] == 4 && p[1] == 2 && u[0] == 2 && u[1] == 1 && u[2] == 0 && w[0] == 8);
    k->sub_to(w, a, p, 3);
    assert_true(w[0] == 6 && w[1] == 18 && w[2] == 0);
    k->sub_to(w, w, x, 3);
    assert_true(w[0] == 2 && w[1] == 18 && w[2] == 2);
    k->mix(w, x, 3, 0.5f, 0.25f);
    assert_true(w[0] == 2 && w[1] == 9 && w[2] == 0.5f);
    k->nesterov(w, u, x, 2, 0.5f, 0.5f); /* u = 1 + 4, 0.5; step 6.5, 0.25 */
    assert_true(u[0] == 5 && u[1] == 0.5f && w[0] == -1.25f && w[1] == 8.875f);
    k->sign_step(w, x, 3, 2, 0.25f);
    assert_true(w[0] == -2.75f && w[1] == 17.75f && w[2] == 1.25f);
    /* own = 2, -1; own + wd*global = 7, 9; compensation 0.5 * 4 * 6, 0.5 * 1 * 2 */
    const tg__dcasgd d = {.eta = 0.5f, .wd = 0.5f, .lambda = 0.5f, .share = 0.25f};
    float at[2] = {4, 18};
    k->dcasgd(at, a, (const float[]){8, -4}, 2, &d);
    assert_true(at[0] == 10 - 9.5f && at[1] == 20 - 5);
}

/* ---- the choice ------------------------------------------------------------------------------ */

static void *first_use(void *arg)
{
    (void)arg;
    return (void *)(uintptr_t)tg__kernel();
}

/* Write what a process with TG_CPU=wish chooses, as a line: level, status, message. It is a child
 * of this process, which has not chosen yet; several of its threads ask at the same time. */
static void show_choice(const char *wish, int out)
{
    setenv("TG_CPU", wish, 1);
    pthread_t thread[4];
    for (size_t i = 0; i < TG_COUNT(thread); i++)
        if (pthread_create(&thread[i], NULL, first_use, NULL) != 0)
            return;
    for (size_t i = 0; i < TG_COUNT(thread); i++) {
        void *table;
        if (pthread_join(thread[i], &table) != 0 || table != (const void *)tg__kernel())
            return;
    }
    const tg_status status = tg__kernel_check();
    dprintf(out, "%s %s %s", tg_cpu_level(), tg_status_name(status), status ? tg_error() : "-");
}

static char line[512];

static const char *choice_of(const char *wish)
{
    int end[2];
    assert_int_equal(pipe(end), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        show_choice(wish, end[1]);
        _exit(0);
    }
    close(end[1]);
    size_t len = 0;
    for (ssize_t more = 1; more > 0 && len < sizeof(line) - 1; len += (size_t)TG__MAX(more, 0))
        more = read(end[0], line + len, sizeof(line) - 1 - len);
    line[len] = '\0';
    close(end[0]);
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return line;
}

static void expect_choice(const char *wish, const char *level, const char *status, const char *text)
{
    const char *said = choice_of(wish);
    char start[128];
    snprintf(start, sizeof(start), "%s %s ", level, status);
    if (strncmp(said, start, strlen(start)) != 0 || !strstr(said, text))
        fail_msg("TG_CPU=%s: %s, not %s... %s", wish, said, start, text);
}

static bool has_level(const char *level)
{
    return strstr(choice_of(level), " TG_OK ") != NULL;
}

/* Must run first: no kernel may have been requested yet. */
static void test_choice(void **state)
{
    (void)state;
    const char *best = "none";
    for (size_t i = 0; tg__kernel_levels[i]; i++)
        if (has_level(tg__kernel_levels[i]))
            best = tg__kernel_levels[i];
    expect_choice("", best, "TG_OK", "-");
    for (size_t i = 0; tg__kernel_levels[i]; i++) {
        const char *level = tg__kernel_levels[i];
        if (has_level(level))
            expect_choice(level, level, "TG_OK", "-");
        else
            expect_choice(level, best, "TG_E_UNSUPPORTED", level);
    }
    expect_choice("sse9", best, "TG_E_UNSUPPORTED", "TG_CPU=sse9: this CPU and build have: ref");
    for (size_t i = 0; tg__kernel_levels[i]; i++) {
        const tg__kernels *table = tg__kernel_level(tg__kernel_levels[i]);
        if (table)
            assert_string_equal(table->level, tg__kernel_levels[i]);
    }
    assert_null(tg__kernel_level("sse9"));
}

int main(void)
{
    const struct CMUnitTest choice[] = {cmocka_unit_test(test_choice)};
    int failed = cmocka_run_group_tests_name("choice", choice, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crc32c),
        cmocka_unit_test(test_half),
        cmocka_unit_test(test_twobit),
        cmocka_unit_test(test_select),
        cmocka_unit_test(test_dgc),
        cmocka_unit_test(test_dgc_norm),
        cmocka_unit_test(test_stats),
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_adaptive_steps),
        cmocka_unit_test(test_steps_of_strategies),
    };
    for (size_t i = 0; tg__kernel_levels[i]; i++) {
        k = tg__kernel_level(tg__kernel_levels[i]);
        if (k)
            failed += cmocka_run_group_tests_name(tg__kernel_levels[i], tests, NULL, NULL);
    }
    return failed;
}

/* Every level gives the bits of the reference, and touches nothing outside its arrays: for each
 * kernel, lengths, misalignments, both ends of a guarded buffer, and four kinds of numbers. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernel/element.h"
#include "kernel/guarded.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_N = 65536 + 5, FLOATS = 3, RESULTS = 3 };

/* Everything a kernel may read or write. */
typedef struct world {
    tg__guarded f_mem[FLOATS], h_mem, bytes_mem, idx_mem, val_mem, hist_mem;
    float *f[FLOATS], *val;
    uint16_t *h;
    uint8_t *bytes;
    uint32_t *idx, *hist;
    size_t n, cap;
    uint64_t result[RESULTS];
} world;

enum { HIST = 2048 };

static void world_open(world *w)
{
    for (int j = 0; j < FLOATS; j++)
        tg__guarded_open(&w->f_mem[j], (MAX_N + 16) * sizeof(float));
    tg__guarded_open(&w->h_mem, (MAX_N + 16) * sizeof(uint16_t));
    tg__guarded_open(&w->bytes_mem, tg__twobit_bytes(MAX_N) + 16);
    tg__guarded_open(&w->idx_mem, (MAX_N + 16 + TG__SELECT_SLACK) * sizeof(uint32_t));
    tg__guarded_open(&w->val_mem, (MAX_N + 16 + TG__SELECT_SLACK) * sizeof(float));
    tg__guarded_open(&w->hist_mem, HIST * sizeof(uint32_t));
}

static void world_close(world *w)
{
    for (int j = 0; j < FLOATS; j++)
        tg__guarded_close(&w->f_mem[j]);
    tg__guarded_close(&w->h_mem);
    tg__guarded_close(&w->bytes_mem);
    tg__guarded_close(&w->idx_mem);
    tg__guarded_close(&w->val_mem);
    tg__guarded_close(&w->hist_mem);
}

/* Arrays misaligned by `shift` elements (plus their number, so that they differ), at one end. */
static void world_place(world *w, size_t n, size_t cap, size_t shift, bool at_end)
{
    w->n = n;
    w->cap = cap;
    for (size_t j = 0; j < FLOATS; j++) {
        size_t gap = shift ? (shift + 3 * j) % 16 : 0;
        w->f[j] = tg__guarded_place(&w->f_mem[j], n * sizeof(float), gap * sizeof(float), at_end);
    }
    size_t room = (cap + TG__SELECT_SLACK) * sizeof(uint32_t);
    w->h = tg__guarded_place(&w->h_mem, n * sizeof(uint16_t), shift * sizeof(uint16_t), at_end);
    w->bytes = tg__guarded_place(&w->bytes_mem, tg__twobit_bytes(n), shift, at_end);
    w->idx = tg__guarded_place(&w->idx_mem, room, shift * sizeof(uint32_t), at_end);
    w->val = tg__guarded_place(&w->val_mem, room, (shift + 1) % 16 * sizeof(float), at_end);
    w->hist = tg__guarded_place(&w->hist_mem, HIST * sizeof(uint32_t), 0, at_end);
}

static bool world_intact(const world *w)
{
    bool intact = true;
    for (int j = 0; j < FLOATS; j++)
        intact &= tg__guarded_intact(&w->f_mem[j]);
    return intact && tg__guarded_intact(&w->h_mem) && tg__guarded_intact(&w->bytes_mem) &&
           tg__guarded_intact(&w->idx_mem) && tg__guarded_intact(&w->val_mem) &&
           tg__guarded_intact(&w->hist_mem);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static uint32_t random_bits(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

static const float thresholds[] = {0.0f, 0.5f, INFINITY, 0x1p-149f, 1e-3f};
#define TAU 0.5f

enum { NORMAL, SPECIAL, BITS, SPARSE, KINDS };

static float number(int kind)
{
    static const uint32_t special[] = {
        0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x807fffff, 0x00800000,
        0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff, 0x7fc00000, 0xffc00000, 0x7f800001,
        0xffbfffff, 0x7fffffff, 0x3f000000, 0xbf000000, 0x3effffff, 0xbeffffff, 0x3f000001,
        0xbf000001, 0x3a83126f, 0x3a83126e, 0x477fe000, 0x477fefff, 0x477ff000, 0xc77ff000,
        0x47800000, 0x33000000, 0x33000001, 0x32ffffff, 0x387fc000, 0x387fe000, 0x387fffff,
        0x38800000, 0x7f7f0000, 0x7f7f7fff, 0x7f7f8000, 0xff7f8000, 0x3f808000, 0x3f818000,
        0x3f807fff, 0x3f808001, 0x3f801000, 0x3f803000, 0x477ff001, 0x33800000};
    uint32_t bits = random_bits();
    float unit = (float)(int32_t)bits * 0x1p-31f;
    switch (kind) {
    case NORMAL:
        return unit * ldexpf(1, (int)(random_bits() % 24) - 20);
    case SPECIAL:
        return tg__f32_from(special[bits % TG_COUNT(special)]);
    case BITS:
        return tg__f32_from(bits);
    default:
        return bits % 97 ? (bits & 0x100 ? 0.0f : -0.0f) : unit;
    }
}

static void world_fill(world *w, int kind)
{
    for (size_t i = 0; i < w->n; i++) {
        for (int j = 0; j < FLOATS; j++)
            w->f[j][i] = number(kind);
        w->h[i] = (uint16_t)random_bits();
    }
    for (size_t i = 0; i < tg__twobit_bytes(w->n); i++)
        w->bytes[i] = (uint8_t)random_bits();
    for (size_t i = 0; i < w->cap + TG__SELECT_SLACK; i++) {
        w->idx[i] = i < w->cap ? (uint32_t)(w->cap - 1 - i) : 0; /* distinct, below n */
        w->val[i] = number(NORMAL);
    }
    for (size_t i = 0; i < HIST; i++)
        w->hist[i] = (uint32_t)i;
    memset(w->result, 0, sizeof(w->result));
}

static void world_copy(world *dst, const world *src)
{
    for (int j = 0; j < FLOATS; j++)
        memcpy(dst->f[j], src->f[j], src->n * sizeof(float));
    memcpy(dst->h, src->h, src->n * sizeof(uint16_t));
    memcpy(dst->bytes, src->bytes, tg__twobit_bytes(src->n));
    memcpy(dst->idx, src->idx, (src->cap + TG__SELECT_SLACK) * sizeof(uint32_t));
    memcpy(dst->val, src->val, (src->cap + TG__SELECT_SLACK) * sizeof(float));
    memcpy(dst->hist, src->hist, HIST * sizeof(uint32_t));
    memcpy(dst->result, src->result, sizeof(src->result));
}

/* Equal bits; of a NaN only that it is one (which operand's payload survives is the compiler's
 * choice). */
static bool same_floats(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tg__f32_bits(a[i]) != tg__f32_bits(b[i]) && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static bool world_same(const world *a, const world *b)
{
    bool same = true;
    for (int j = 0; j < FLOATS; j++)
        same &= same_floats(a->f[j], b->f[j], a->n);
    return same && same_floats(a->val, b->val, a->cap) &&
           !memcmp(a->h, b->h, a->n * sizeof(uint16_t)) &&
           !memcmp(a->bytes, b->bytes, tg__twobit_bytes(a->n)) &&
           !memcmp(a->idx, b->idx, a->cap * sizeof(uint32_t)) &&
           !memcmp(a->hist, b->hist, HIST * sizeof(uint32_t)) &&
           !memcmp(a->result, b->result, sizeof(a->result));
}

/* ---- one adaptor for each kernel: variant v of a call on the arrays of a world --------------- */

#define CALL(name, ...)                                                \
    static void run_##name(const tg__kernels *k, world *w, unsigned v) \
    {                                                                  \
        (void)v;                                                       \
        __VA_ARGS__;                                                   \
    }

static const float factors[] = {0.9f, 0.0f, -3.5f};

CALL(add, k->add(w->f[0], w->f[1], w->n))
CALL(axpy, k->axpy(w->f[0], factors[v], w->f[1], w->n))
CALL(scale, k->scale(w->f[0], factors[v], w->n))
CALL(sub, k->sub(w->f[0], w->f[1], w->n))
CALL(abs_max, w->result[0] = tg__f32_bits(k->abs_max(w->f[0], w->n)))
CALL(all_finite, w->result[0] = k->all_finite(w->f[0], w->n))
CALL(histogram, k->histogram(w->f[0], w->n, w->hist))
CALL(scatter_add, k->scatter_add(w->f[0], w->idx, w->val, TG__MIN(w->cap, w->n)))
CALL(twobit_encode, k->twobit_encode(w->f[0], w->n, TAU, w->bytes))
CALL(twobit_add_encode, k->twobit_add_encode(w->f[0], w->f[1], w->n, TAU, w->bytes))
CALL(twobit_decode_add, k->twobit_decode_add(w->f[0], w->bytes, w->n, TAU))
CALL(twobit_decode, k->twobit_decode(w->f[0], w->bytes, w->n, TAU))
CALL(f16_encode, k->f16_encode(w->h, w->f[0], w->n))
CALL(f16_decode, k->f16_decode(w->f[0], w->h, w->n))
CALL(f16_decode_add, k->f16_decode_add(w->f[0], w->h, w->n))
CALL(bf16_encode, k->bf16_encode(w->h, w->f[0], w->n))
CALL(bf16_decode, k->bf16_decode(w->f[0], w->h, w->n))
CALL(bf16_decode_add, k->bf16_decode_add(w->f[0], w->h, w->n))
CALL(sgd, k->sgd(w->f[0], w->f[1], w->n, 0.1f, factors[v]))
CALL(sgd_to, k->sgd_to(w->f[0], v ? w->f[0] : w->f[1], w->f[2], w->n, 0.1f, 1e-4f))
CALL(sgd_momentum, k->sgd_momentum(w->f[0], w->f[1], w->f[2], w->n, 0.1f, 0.9f, 1e-4f, v))
CALL(lars, k->lars(w->f[0], w->f[1], w->f[2], w->n, 0.1f, 0.9f, factors[v]))
CALL(lars_preview_to,
     k->lars_preview_to(w->f[0], w->f[0], w->f[1], w->f[2], w->n, 0.1f, 0.9f, factors[v]))
CALL(sub_to, k->sub_to(w->f[v], w->f[0], w->f[1], w->n))
CALL(mix, k->mix(w->f[0], w->f[1], w->n, factors[v], 0.3f))
CALL(nesterov, k->nesterov(w->f[0], w->f[1], w->f[2], w->n, 0.7f, factors[v]))
CALL(sign_step, k->sign_step(w->f[0], w->f[1], w->n, factors[v], 0.1f))
CALL(clamp, k->clamp(w->f[0], v ? w->f[0] : w->f[1], w->n, 0.25f))
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

static void run_sgd_preview_to(const tg__kernels *k, world *w, unsigned v)
{
    float *dst = v ? w->f[0] : w->val; /* val has room for n when cap is n */
    if (w->cap >= w->n)
        k->sgd_preview_to(dst, w->f[0], w->f[1], w->f[2], w->n, 0.1f, 0.9f, 1e-4f, v);
}

/* Second moments are not negative: those of the four kinds of numbers are, here and there, which
 * gives NaN at every level. */
static const tg__adam adam_steps[] = {
    {1, 0, 0.9f, 0.1f, 0.999f, 0.001f, 0.01f, 31.6f, 1e-8f},
    {0.999f, 0.01f, 0.5f, 0.5f, 0.75f, 0.25f, 0.125f, 1, 1e-3f},
};

static void run_adam(const tg__kernels *k, world *w, unsigned v)
{
    if (w->cap >= w->n) /* val has room for n then */
        k->adam(w->val, w->f[0], w->f[1], w->f[2], w->n, &adam_steps[v]);
}

static void run_adam_preview_to(const tg__kernels *k, world *w, unsigned v)
{
    float *dst = v ? w->f[0] : w->val;
    if (w->cap >= w->n)
        k->adam_preview_to(dst, w->f[0], w->f[1], w->f[2], w->f[1], w->n, &adam_steps[v]);
}

static void run_settle(const tg__kernels *k, world *w, unsigned v)
{
    (void)v;
    if (w->cap >= w->n) /* val has room for n then */
        k->settle(w->val, w->f[0], w->f[1], w->f[2], w->n);
}

static void run_go_on(const tg__kernels *k, world *w, unsigned v)
{
    (void)v;
    if (w->cap >= w->n)
        k->go_on(w->f[0], w->f[1], w->f[2], w->val, w->n);
}

static void run_dcasgd(const tg__kernels *k, world *w, unsigned v)
{
    static const tg__dcasgd steps[] = {{0.1f, 0, 0.04f, 1}, {0.5f, 1e-4f, 2, 0.25f}};
    k->dcasgd(w->f[0], w->f[1], w->f[2], w->n, &steps[v]);
}

static void run_copy_stats(const tg__kernels *k, world *w, unsigned v)
{
    tg__stats stats;
    k->copy_stats(v ? w->f[1] : NULL, w->f[0], w->n, &stats);
    memcpy(&w->result[0], &stats.sum_sq, 8);
    memcpy(&w->result[1], &stats.sum_abs, 8);
    w->result[2] = stats.finite;
}

static void run_moments(const tg__kernels *k, world *w, unsigned v)
{
    tg__moments sums;
    k->moments(w->f[0], w->n, v ? 0.7f : 0, &sums);
    memcpy(&w->result[0], &sums.sum, 8);
    memcpy(&w->result[1], &sums.sum_sq, 8);
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
CALL(column_decode, k->column_decode(w->f[0], w->bytes, bits_from(w, v), w->n - bits_from(w, v),
                                     (const uint8_t *)w->f[1] + (w->n > 8 ? v : 0),
                                     (const uint8_t *)w->f[2] + (w->n > 8 ? 2 * v : 0)))
CALL(column_decode_add,
     k->column_decode_add(w->f[0], w->bytes, bits_from(w, v), w->n - bits_from(w, v),
                          (const uint8_t *)w->f[1], (const uint8_t *)w->f[2]))

/* NaN is any NaN. */
static uint64_t double_bits(double x)
{
    uint64_t bits = 1;
    if (!isnan(x))
        memcpy(&bits, &x, sizeof(bits));
    return bits;
}

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
    uint32_t nbelow[MAX_COLS] = {0};
    float t[MAX_COLS] = {0}, plus[MAX_COLS] = {0}, minus[MAX_COLS] = {0};
    for (size_t c = 0; c < cols; c++) {
        t[c] = v % 3 ? 0 : (float)c * 0.01f - 0.3f;
        plus[c] = (float)c * 0.5f;
        minus[c] = -1 - plus[c];
    }
    k->column_sums(w->f[0], v % 2 ? w->f[1] : NULL, stride, rows, cols, t, below, above, nbelow);
    for (size_t c = 0; c < cols; c++) {
        uint64_t words[] = {double_bits(below[c]), double_bits(above[c]), nbelow[c]};
        w->result[0] = tg_hash(w->result[0], words, sizeof(words));
    }
    if (rows * row_bytes <= tg__twobit_bytes(w->n))
        k->column_settle(w->f[0], stride, rows, cols, t, plus, minus, w->bytes, row_bytes, v % 5);
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

/* The slack after the selected ones is anything. */
static void forget_slack(world *w, size_t count)
{
    w->result[0] = count;
    for (size_t i = count; i < w->cap; i++) {
        w->idx[i] = 0;
        w->val[i] = 0;
    }
}

static void run_select(const tg__kernels *k, world *w, unsigned v)
{
    forget_slack(w, k->select(w->f[0], w->n, thresholds[v], w->idx, w->val, w->cap));
}

static void run_add_select(const tg__kernels *k, world *w, unsigned v)
{
    forget_slack(w, k->add_select(w->f[0], w->f[1], w->n, thresholds[v], w->idx, w->val, w->cap));
}

static void run_dgc_select(const tg__kernels *k, world *w, unsigned v)
{
    forget_slack(w, k->dgc_select(w->f[0], w->f[1], w->f[2], w->n, 0.9f, v % 2, thresholds[v / 2],
                                  w->idx, w->val, w->cap));
}

static void run_dgc_sum_abs(const tg__kernels *k, world *w, unsigned v)
{
    w->result[0] = double_bits(k->dgc_sum_abs(w->f[0], w->f[1], w->f[2], w->n, 0.9f, v));
}

static void run_adacomp_select(const tg__kernels *k, world *w, unsigned v)
{
    static const size_t bin[] = {50, 500, 1, 16, 37};
    tg__bins bins;
    size_t count = k->adacomp_select(w->f[0], v % 2 ? w->f[0] : w->f[1], w->n, bin[v], w->idx,
                                     w->val, w->cap, &bins);
    forget_slack(w, count);
    memcpy(&w->result[1], &bins.sum, 8);
    w->result[2] = bins.count;
}

static const struct kernel_case {
    const char *name;
    void (*run)(const tg__kernels *k, world *w, unsigned variant);
    unsigned variants;
} cases[] = {
    {"add", run_add, 1},
    {"axpy", run_axpy, 3},
    {"scale", run_scale, 3},
    {"sub", run_sub, 1},
    {"abs_max", run_abs_max, 1},
    {"all_finite", run_all_finite, 1},
    {"copy_stats", run_copy_stats, 2},
    {"moments", run_moments, 2},
    {"histogram", run_histogram, 1},
    {"scatter_add", run_scatter_add, 1},
    {"select", run_select, TG_COUNT(thresholds)},
    {"add_select", run_add_select, TG_COUNT(thresholds)},
    {"dgc_select", run_dgc_select, 2 * TG_COUNT(thresholds)},
    {"dgc_sum_abs", run_dgc_sum_abs, 2},
    {"adacomp_select", run_adacomp_select, 5},
    {"twobit_encode", run_twobit_encode, 1},
    {"twobit_add_encode", run_twobit_add_encode, 1},
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
    {"sgd", run_sgd, 3},
    {"sgd_to", run_sgd_to, 2},
    {"sgd_momentum", run_sgd_momentum, 2},
    {"sgd_preview_to", run_sgd_preview_to, 2},
    {"adam", run_adam, 2},
    {"adam_preview_to", run_adam_preview_to, 2},
    {"lars", run_lars, 3},
    {"lars_preview_to", run_lars_preview_to, 3},
    {"sub_to", run_sub_to, 3},
    {"settle", run_settle, 1},
    {"go_on", run_go_on, 1},
    {"mix", run_mix, 3},
    {"nesterov", run_nesterov, 3},
    {"dcasgd", run_dcasgd, 2},
    {"sign_step", run_sign_step, 3},
    {"crc32c", run_crc32c, 4},
    {"quant_nearest", run_quant_nearest, 4},
    {"quant_random", run_quant_random, 16},
    {"quant_decode", run_quant_decode, 2},
    {"pack", run_pack, 8},
    {"unpack", run_unpack, 8},
    {"clamp", run_clamp, 2},
};

/* ---- the loops ------------------------------------------------------------------------------- */

static world source, expected, got;

static void compare_all(const tg__kernels *level, int kind, unsigned pick)
{
    const tg__kernels *ref = tg__kernel_level("ref");
    bool small = source.n <= 128;
    for (size_t c = 0; c < TG_COUNT(cases); c++) {
        for (unsigned v = 0; v < cases[c].variants; v++) {
            if (!small && v != pick % cases[c].variants)
                continue;
            world_copy(&expected, &source);
            world_copy(&got, &source);
            cases[c].run(ref, &expected, v);
            cases[c].run(level, &got, v);
            if (!world_same(&expected, &got))
                fail_msg("%s %s: other bits than ref (n %zu, cap %zu, kind %d, variant %u)",
                         level->level, cases[c].name, source.n, source.cap, kind, v);
            if (!world_intact(&expected) || !world_intact(&got))
                fail_msg("%s %s: wrote outside (n %zu, cap %zu, variant %u)", level->level,
                         cases[c].name, source.n, source.cap, v);
        }
    }
}

static void same_bits(const tg__kernels *level)
{
    static const size_t lengths[] = {0, 1, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 4097, MAX_N};
    unsigned pick = 0;
    for (size_t l = 0; l < TG_COUNT(lengths); l++) {
        size_t n = lengths[l], caps[] = {n, n / 3, 0};
        for (size_t shift = 0; shift < 16; shift++) {
            if (n == MAX_N && shift % 5)
                continue;
            for (int kind = 0; kind < KINDS; kind++, pick++) {
                size_t cap = caps[pick % 3];
                bool at_end = (shift + (size_t)kind) % 2;
                if (shift == 0) /* both ends flush with a guard page */
                    at_end = kind % 2;
                world_place(&source, n, cap, shift, at_end);
                world_place(&expected, n, cap, shift, at_end);
                world_place(&got, n, cap, shift, at_end);
                world_fill(&source, kind);
                compare_all(level, kind, pick);
            }
        }
    }
}

/* The reference against itself, too: guard pages, and determinism. */
static void test_levels(void **state)
{
    (void)state;
    world_open(&source);
    world_open(&expected);
    world_open(&got);
    for (size_t i = 0; tg__kernel_levels[i]; i++)
        if (tg__kernel_level(tg__kernel_levels[i]))
            same_bits(tg__kernel_level(tg__kernel_levels[i]));
    world_close(&source);
    world_close(&expected);
    world_close(&got);
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
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_long_half),
    };
    return cmocka_run_group_tests_name("kernel", tests, NULL, NULL);
}

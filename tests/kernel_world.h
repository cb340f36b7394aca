/* For tests: compares every level with plain loops (kernel_plain.h; for kernels that it lacks, with
 * the reference), and looks whether anything was written outside arrays: for each kernel of a list,
 * lengths, misalignments, both ends of a guarded buffer, and four kinds of numbers. */
#ifndef TG_KERNEL_WORLD_H
#define TG_KERNEL_WORLD_H

#include "kernel/element.h"
#include "guarded.h"
#include "kernel_plain.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_N = 65536 + 5, FLOATS = 3, RESULTS = 3 };

/* Everything a kernel may read or write. */
typedef struct world {
    tg__guarded f_mem[FLOATS], h_mem, bytes_mem, idx_mem, val_mem, hist_mem;
    float *f[FLOATS], *val;
    uint8_t *h; /* (2 n) words */
    uint8_t *bytes;
    uint32_t *idx, *hist;
    size_t n, cap;
    uint64_t result[RESULTS];
} world;

enum { HIST = 2048 };

static inline void world_open(world *w)
{
    for (int j = 0; j < FLOATS; j++)
        tg__guarded_open(&w->f_mem[j], (MAX_N + 16) * sizeof(float));
    tg__guarded_open(&w->h_mem, (MAX_N + 16) * sizeof(uint16_t));
    tg__guarded_open(&w->bytes_mem, tg__twobit_bytes(MAX_N) + 16);
    tg__guarded_open(&w->idx_mem, (MAX_N + 16 + TG__SELECT_SLACK) * sizeof(uint32_t));
    tg__guarded_open(&w->val_mem, (MAX_N + 16 + TG__SELECT_SLACK) * sizeof(float));
    tg__guarded_open(&w->hist_mem, HIST * sizeof(uint32_t));
}

static inline void world_close(world *w)
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
static inline void world_place(world *w, size_t n, size_t cap, size_t shift, bool at_end)
{
    w->n = n;
    w->cap = cap;
    for (size_t j = 0; j < FLOATS; j++) {
        size_t gap = shift ? (shift + 3 * j) % 16 : 0;
        w->f[j] = tg__guarded_place(&w->f_mem[j], n * sizeof(float), gap * sizeof(float), at_end);
    }
    size_t room = (cap + TG__SELECT_SLACK) * sizeof(uint32_t);
    w->h = tg__guarded_place(&w->h_mem, n * sizeof(uint16_t), shift, at_end);
    w->bytes = tg__guarded_place(&w->bytes_mem, tg__twobit_bytes(n), shift, at_end);
    w->idx = tg__guarded_place(&w->idx_mem, room, shift * sizeof(uint32_t), at_end);
    w->val = tg__guarded_place(&w->val_mem, room, (shift + 1) % 16 * sizeof(float), at_end);
    w->hist = tg__guarded_place(&w->hist_mem, HIST * sizeof(uint32_t), 0, at_end);
}

static inline bool world_intact(const world *w)
{
    bool intact = true;
    for (int j = 0; j < FLOATS; j++)
        intact &= tg__guarded_intact(&w->f_mem[j]);
    return intact && tg__guarded_intact(&w->h_mem) && tg__guarded_intact(&w->bytes_mem) &&
           tg__guarded_intact(&w->idx_mem) && tg__guarded_intact(&w->val_mem) &&
           tg__guarded_intact(&w->hist_mem);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static inline uint32_t random_bits(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 16);
}

enum { NORMAL, SPECIAL, BITS, SPARSE, KINDS };

static inline float number(int kind)
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

static inline void world_fill(world *w, int kind)
{
    for (size_t i = 0; i < w->n; i++) {
        for (int j = 0; j < FLOATS; j++)
            w->f[j][i] = number(kind);
        tg__put16(w->h + 2 * i, (uint16_t)random_bits());
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

static inline void world_copy(world *dst, const world *src)
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
static inline bool same_floats(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (tg__f32_bits(a[i]) != tg__f32_bits(b[i]) && !(isnan(a[i]) && isnan(b[i])))
            return false;
    return true;
}

static inline bool world_same(const world *a, const world *b)
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

/* ---- adaptors: variant v of a call of a kernel on the arrays of a world ---------------------- */

#define CALL(name, ...)                                                \
    static void run_##name(const tg__kernels *k, world *w, unsigned v) \
    {                                                                  \
        (void)v;                                                       \
        __VA_ARGS__;                                                   \
    }

/* NaN is any NaN. */
static inline uint64_t double_bits(double x)
{
    uint64_t bits = 1;
    if (!isnan(x))
        memcpy(&bits, &x, sizeof(bits));
    return bits;
}

typedef struct kernel_case {
    const char *name;
    void (*run)(const tg__kernels *k, world *w, unsigned variant);
    unsigned variants;
} kernel_case;

/* ---- the loops ------------------------------------------------------------------------------- */

static world source, expected, got;

static inline void compare_all(const tg__kernels *level, const kernel_case *cases, size_t count,
                               int kind, unsigned pick)
{
    const tg__kernels plain = tg__plain_kernels();
    bool small = source.n <= 128;
    for (size_t c = 0; c < count; c++) {
        for (unsigned v = 0; v < cases[c].variants; v++) {
            if (!small && v != pick % cases[c].variants)
                continue;
            world_copy(&expected, &source);
            world_copy(&got, &source);
            cases[c].run(&plain, &expected, v);
            cases[c].run(level, &got, v);
            if (!world_same(&expected, &got))
                fail_msg("%s %s: other bits than plain loops (n %zu, cap %zu, kind %d, variant %u)",
                         level->level, cases[c].name, source.n, source.cap, kind, v);
            if (!world_intact(&expected) || !world_intact(&got))
                fail_msg("%s %s: wrote outside (n %zu, cap %zu, variant %u)", level->level,
                         cases[c].name, source.n, source.cap, v);
        }
    }
}

static inline void same_bits(const tg__kernels *level, const kernel_case *cases, size_t count)
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
                compare_all(level, cases, count, kind, pick);
            }
        }
    }
}

/* The reference, too: guard pages. */
static inline void compare_levels(const kernel_case *cases, size_t count)
{
    world_open(&source);
    world_open(&expected);
    world_open(&got);
    for (size_t i = 0; tg__kernel_levels[i]; i++)
        if (tg__kernel_level(tg__kernel_levels[i]))
            same_bits(tg__kernel_level(tg__kernel_levels[i]), cases, count);
    world_close(&source);
    world_close(&expected);
    world_close(&got);
}

#endif

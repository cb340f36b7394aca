/* The loop of the templates, and their virtual lanes; included at the end of simd_LEVEL.h. */
#ifndef TG_KERNEL_SIMD_EACH_H
#define TG_KERNEL_SIMD_EACH_H

/* TG__UNROLL: for short loops, so that small arrays become registers. TG__INLINED: for functions
 * with arguments that are constants at the calls. With the code that sanitizers add, both take long
 * to compile, so these builds do without. */
#if defined(TG_SANITIZED)
#define TG__UNROLL
#define TG__INLINED static inline
#elif defined(__clang__)
#define TG__UNROLL _Pragma("clang loop unroll(full)")
#define TG__INLINED static inline __attribute__((always_inline))
#else
#define TG__UNROLL _Pragma("GCC unroll 8")
#define TG__INLINED static inline __attribute__((always_inline))
#endif

/* Run the statements for i = 0, WIDTH, 2 WIDTH ... below n with `left` = WIDTH, then once more for
 * the remainder. `left` is a constant in the main loop, so tests of it disappear there. */
#define EACH_VEC(n, ...)                       \
    do {                                       \
        size_t i = 0;                          \
        for (; i + WIDTH <= (n); i += WIDTH) { \
            const size_t left = WIDTH;         \
            __VA_ARGS__                        \
        }                                      \
        if (i < (n)) {                         \
            const size_t left = (n)-i;         \
            __VA_ARGS__                        \
        }                                      \
    } while (0)

/* The elements of an array in a statement of EACH_VEC. */
#define GET(p) vec_get((p) + i, left)
#define PUT(p, x) vec_put((p) + i, left, x)

/* -1, 0 or 1; 0 for NaN */
static inline vec vec_sign(vec x)
{
    const vec zero = vec_splat(0), up = vec_pick(vec_less(zero, x), vec_splat(1), zero);
    return vec_pick(vec_less(x, zero), vec_splat(-1), up);
}

/* ---- f64 sums in virtual lanes --------------------------------------------------------------- */

enum { VECS = TG__LANES / WIDTH };

/* Run the statements for each chunk of n elements, chunk .. end - 1. */
#define EACH_CHUNK(n, ...)                                  \
    for (size_t chunk = 0, end; chunk < (n); chunk = end) { \
        end = TG__MIN(n, chunk + TG__CHUNK);                \
        __VA_ARGS__                                         \
    }

/* Run the statements for the vectors of a chunk: min(left, WIDTH) elements from i on, in the lanes
 * of vector j. */
#define EACH_LANES(...)                                        \
    do {                                                       \
        size_t first = chunk;                                  \
        for (; first + TG__LANES <= end; first += TG__LANES) { \
            TG__UNROLL                                         \
            for (size_t j = 0; j < VECS; j++) {                \
                const size_t i = first + WIDTH * j;            \
                const size_t left = WIDTH;                     \
                __VA_ARGS__                                    \
            }                                                  \
        }                                                      \
        for (size_t j = 0; first + WIDTH * j < end; j++) {     \
            const size_t i = first + WIDTH * j;                \
            const size_t left = end - i;                       \
            __VA_ARGS__                                        \
        }                                                      \
    } while (0)

static inline void lanes_clear(wide sum[VECS])
{
    for (size_t j = 0; j < VECS; j++)
        sum[j] = wide_zero();
}

static inline double lanes_sum(const wide sum[VECS])
{
    double lanes[TG__LANES];
    for (size_t j = 0; j < VECS; j++)
        wide_put(lanes + WIDTH * j, sum[j]);
    return tg__lanes_sum(lanes);
}

#endif

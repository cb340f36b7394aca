/* The loop of the templates. */
#ifndef TG_KERNEL_SIMD_EACH_H
#define TG_KERNEL_SIMD_EACH_H

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

#endif

/* Loops over many methods and settings whose threads meet alike. ThreadSanitizer makes them five to
 * ten times as slow, so it sees a third of the cases; their bits are checked without it. */
#ifndef TESTS_TSAN_SKIPS_H
#define TESTS_TSAN_SKIPS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __SANITIZE_THREAD__
enum { TSAN_STRIDE = 3 };
#else
enum { TSAN_STRIDE = 1 };
#endif

/* Whether case k is left out. Where loops are nested, k is the sum of their indices. */
static inline bool tsan_skips(size_t k)
{
    return k % TSAN_STRIDE != 0;
}

#endif

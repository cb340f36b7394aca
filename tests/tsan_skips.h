/* Loops over many methods, each in several variants, whose threads meet alike. ThreadSanitizer
 * makes them five to ten times as slow, so under it each method has one variant, the next in turn;
 * all bits are checked without it. */
#ifndef TESTS_TSAN_SKIPS_H
#define TESTS_TSAN_SKIPS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __SANITIZE_THREAD__
enum { UNDER_TSAN = true };
#else
enum { UNDER_TSAN = false };
#endif

/* Whether variant v (0 .. variants - 1) of method i is left out. */
static inline bool tsan_skips(size_t i, size_t v, size_t variants)
{
    return UNDER_TSAN && v != i % variants;
}

#endif

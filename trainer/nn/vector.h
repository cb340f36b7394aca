/* Vectors of LANES floats in the compiler's extension, for the templates of kernels. The compiler
 * splits them into registers of the including file's instruction set. Define LANES before
 * including. */
#ifndef TG_NN_VECTOR_H
#define TG_NN_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef int32_t bits __attribute__((vector_size(4 * LANES)));

#ifdef TG_SANITIZED /* inlined, the code that sanitizers add would take long to compile */
#define INLINE static inline
#else
#define INLINE static inline __attribute__((always_inline))
#endif

/* The end of a row; not inlined, so that the loops stay fast. */
static __attribute__((noinline)) void copy_few(float *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = src[i];
}

/* The floats at p, up to n of them; the other lanes are 0. */
INLINE void load(vec *v, const float *p, size_t n)
{
    if (n >= LANES) {
        memcpy(v, p, sizeof *v);
    } else {
        float few[LANES] = {0};
        copy_few(few, p, n);
        memcpy(v, few, sizeof *v);
    }
}

INLINE void store(float *p, const vec *v, size_t n)
{
    if (n >= LANES) {
        memcpy(p, v, sizeof *v);
    } else {
        float few[LANES];
        memcpy(few, v, sizeof *v);
        copy_few(p, few, n);
    }
}

#endif

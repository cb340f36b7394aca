/* Helpers for every room, in addition to telegrad/tools.h. */
#ifndef TG_BASE_MEM_H
#define TG_BASE_MEM_H

#include "telegrad/tools.h"
#include <float.h>

/* Frames, weights files and sums within frames are little-endian and used in place. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "telegrad supports little-endian machines only"
#endif

/* Ranks must get the same bits, however each of them was compiled. 16 concerns _Float16 only. */
#if defined __FAST_MATH__ || (FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16)
#error "telegrad needs floats as IEEE 754 has them: without -ffast-math, and not in x87 registers"
#endif

#define TG__MIN(a, b) ((a) < (b) ? (a) : (b))
#define TG__MAX(a, b) ((a) > (b) ? (a) : (b))

/* Make room for `need` elements of `size` bytes in an array, whose elements stay. It grows
 * to at least twice its size.
 * array_p  address of a pointer of any type, to memory of malloc or NULL
 * cap_p    elements that there is room for
 * what     the elements, for the message
 * Errors   TG_E_NOMEM: array and cap are unchanged */
TG_NODISCARD tg_status tg__grow(void *array_p, size_t *cap_p, size_t need, size_t size,
                                const char *what);

/* Before a local pointer, which must be initialised: what it points to is released with free() at
 * the end of its block. */
#define TG__FREED __attribute__((cleanup(tg__free_at)))
void tg__free_at(void *pointer_p);

/* x^n by multiplications only, so that every machine gets the same bits. Threads: any */
double tg__real_power(double x, uint64_t n);
/* Print text as a JSON string, which is UTF-8: other bytes become U+FFFD. */
void tg__print_json(FILE *file, const char *text);

/* Little-endian loads and stores at any alignment. */
static inline uint16_t tg__get16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t tg__get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t tg__get64(const uint8_t *p)
{
    return (uint64_t)tg__get32(p) | (uint64_t)tg__get32(p + 4) << 32;
}
static inline void tg__put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}
static inline void tg__put32(uint8_t *p, uint32_t v)
{
    tg__put16(p, (uint16_t)v);
    tg__put16(p + 2, (uint16_t)(v >> 16));
}
static inline void tg__put64(uint8_t *p, uint64_t v)
{
    tg__put32(p, (uint32_t)v);
    tg__put32(p + 4, (uint32_t)(v >> 32));
}

#endif

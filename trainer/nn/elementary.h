/* exp, the logistic function and tanh of LANES floats at a time, for row_template.h. They use the
 * compiler's vector extension without fused multiply-add, so that all instruction sets give the
 * same bits.
 *
 *     exp x = 2^n exp r,   n = round(x / ln 2),   |r| <= ln 2 / 2
 *     exp r = 1 + r + r^2 q(r),   q: a minimax polynomial of degree 5, error 5e-11
 *
 * Errors, measured over floats of all exponents (row_kernels_test.c): 1 unit in the last place for
 * exp, 3 for the logistic function and tanh. Results out of range become 0, 1, -1 or infinity as
 * appropriate, and NaN stays NaN. */
#ifndef TG_NN_ELEMENTARY_H
#define TG_NN_ELEMENTARY_H

#include "trainer/nn/vector.h"

/* where ? a : b */
INLINE void choose(vec *dst, const bits *where, const vec *a, const vec *b)
{
    *dst = (vec)((*where & (bits)*a) | (~*where & (bits)*b));
}

/* max(x, least); NaN stays NaN. */
INLINE void at_least(vec *x, float least)
{
    const vec bound = (vec){0} + least;
    const bits below = *x < least;
    choose(x, &below, &bound, x);
}

INLINE void at_most(vec *x, float most)
{
    const vec bound = (vec){0} + most;
    const bits above = *x > most;
    choose(x, &above, &bound, x);
}

/* n = round(x / ln 2), rest = exp(x - n ln 2) - 1; |x| < 2^20 */
INLINE void reduce(const vec *x, bits *n, vec *rest)
{
    const vec magic = (vec){0} + 0x1.8p23f; /* a number added to it is rounded to an integer */
    const vec shifted = *x * 0x1.715476p0f + magic, whole = shifted - magic;
    const vec r = (*x - whole * 0x1.62ep-1f) - whole * 0x1.0bfbe8p-15f;
    vec q = r * 0x1.9f08a4p-13f + 0x1.6d8cf8p-10f;
    q = q * r + 0x1.11127p-7f;
    q = q * r + 0x1.55548ep-5f;
    q = q * r + 0x1.555554p-3f;
    q = q * r + 0.5f;
    *rest = r * r * q + r;
    *n = (bits)shifted - (bits)magic;
}

/* 2^n, -126 <= n <= 127 */
INLINE void power(const bits *n, vec *p)
{
    *p = (vec)((*n + 127) << 23);
}

INLINE void vec_exp(vec *x)
{
    bits n;
    vec rest, half, other;
    at_least(x, -104);
    at_most(x, 89);
    reduce(x, &n, &rest);
    const bits first = n >> 1, second = n - first; /* each of them is in range */
    power(&first, &half);
    power(&second, &other);
    *x = (rest + 1.0f) * half * other;
}

#define SIGN ((bits){0} + INT32_MIN)

/* 1 / (1 + exp -x); for negative x: exp x / (1 + exp x) */
INLINE void vec_logistic(vec *x)
{
    const bits negative = *x < 0;
    const vec one = (vec){0} + 1.0f;
    vec e = (vec)((bits)*x | SIGN), top;
    vec_exp(&e);
    choose(&top, &negative, &e, &one);
    *x = top / (e + 1.0f);
}

/* -(exp(-2|x|) - 1) / (exp(-2|x|) + 1), with the sign of x */
INLINE void vec_tanh(vec *x)
{
    const bits sign = (bits)*x & SIGN;
    bits n;
    vec rest, p, y = (vec)((bits)*x | SIGN) * 2.0f;
    at_least(&y, -40);
    reduce(&y, &n, &rest);
    power(&n, &p);
    y = p * rest + (p - 1.0f); /* exp - 1, without cancellation: 0 >= y > -1 */
    y = -y / (y + 2.0f);
    *x = (vec)(((bits)y & ~SIGN) | sign);
}

#endif

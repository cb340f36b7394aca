#include "base/same_math.h"
#include <math.h>
#include <stddef.h>

#define LN2_HI 0x1.62e42fee00000p-1 /* its product with an exponent is exact */
#define LN2_LO 0x1.a39ef35793c76p-33

/* c[0] + z c[1] + z^2 c[2] + ... */
static double polynomial(const double *c, size_t n, double z)
{
    double sum = 0;
    while (n-- > 0)
        sum = sum * z + c[n];
    return sum;
}
#define POLYNOMIAL(c, z) polynomial(c, sizeof(c) / sizeof *(c), z)

/* x = m 2^e with m near 1, and log m = 2 artanh s, s = (m - 1) / (m + 1), |s| < 0.172. */
double tg__log(double x)
{
    static const double c[] = {2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,  2.0 / 11, 2.0 / 13,
                               2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21, 2.0 / 23};
    int e;
    double m = frexp(x, &e);
    if (m < 0.70710678) {
        m *= 2;
        e--;
    }
    const double s = (m - 1) / (m + 1), z = s * s;
    return e * LN2_HI + (2 * s + (s * z * POLYNOMIAL(c, z) + e * LN2_LO));
}

/* x = n log 2 + r, |r| < 0.347. */
double tg__exp(double x)
{
    static const double c[] = {1.0 / 2,       1.0 / 6,        1.0 / 24,        1.0 / 120,
                               1.0 / 720,     1.0 / 5040,     1.0 / 40320,     1.0 / 362880,
                               1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800};
    const double n = floor(x * 1.4426950408889634 + 0.5);
    const double r = x - n * LN2_HI - n * LN2_LO;
    return ldexp(1 + (r + r * r * POLYNOMIAL(c, r)), (int)n);
}

/* x = q / 4 + t, |t| <= 1/8, both exact. */
double tg__cos_turns(double x)
{
    static const double cosine[] = {
        -1.0 / 2,       1.0 / 24,        -1.0 / 720,         1.0 / 40320,
        -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000};
    static const double sine[] = {
        -1.0 / 6,        1.0 / 120,        -1.0 / 5040,         1.0 / 362880,
        -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000};
    const double q = floor(4 * x + 0.5), y = 6.283185307179586477 * (x - q / 4), z = y * y;
    const int quarter = (int)q & 3;
    const double value =
        quarter % 2 == 0 ? 1 + z * POLYNOMIAL(cosine, z) : -(y + y * z * POLYNOMIAL(sine, z));
    return quarter < 2 ? value : -value;
}

/* log x = e log 2 + 2 atanh((m - 1) / (m + 1)), x = m 2^e with m in [sqrt(1/2), sqrt(2))
 * exp x = 2^k exp(r), r = x - k log 2 in [-log(2) / 2, log(2) / 2], by its series */
#include "trainer/data/gamma.h"
#include <math.h>

/* log 2 in two parts: k times the first is exact for |k| < 2^20 (the last 21 bits are zero). */
#define LN2_HIGH 0x1.62e42feep-1
#define LN2_LOW 0x1.a39ef35793c76p-33

double exact_log(double x)
{
    int e;
    double m = frexp(x, &e);
    if (m < 0x1.6a09e667f3bcdp-1) {
        m *= 2;
        e--;
    }
    const double t = (m - 1) / (m + 1), t2 = t * t;
    double sum = 0;
    for (int k = 23; k >= 1; k -= 2) /* t^2 < 0.03: the omitted terms are below 1e-18 */
        sum = sum * t2 + 1.0 / k;
    return e * LN2_HIGH + (e * LN2_LOW + 2 * t * sum);
}

double exact_exp(double x)
{
    if (x < -700)
        return 0;
    const double k = floor(x / 0x1.62e42fefa39efp-1 + 0.5);
    const double r = (x - k * LN2_HIGH) - k * LN2_LOW;
    double sum = 1;
    for (int i = 17; i >= 1; i--)
        sum = 1 + sum * r / i;
    return ldexp(sum, (int)k);
}

/* Uniform in (0, 1). */
static double uniform(const tg_rng_key *key, uint64_t *counter)
{
    double u;
    do {
        u = tg_rng_uniform(key, (*counter)++);
    } while (u <= 0);
    return u;
}

/* Standard normal, by Marsaglia's polar method. */
static double normal(const tg_rng_key *key, uint64_t *counter)
{
    for (;;) {
        const double a = 2 * uniform(key, counter) - 1, b = 2 * uniform(key, counter) - 1;
        const double s = a * a + b * b;
        if (s > 0 && s < 1)
            return a * sqrt(-2 * exact_log(s) / s);
    }
}

/* Candidates d (1 + c x)^3 with d = alpha - 1/3, c = 1 / sqrt(9 d), accepted if
 * log u < x^2 / 2 + d - d v + d log v */
static double draw(const tg_rng_key *key, double alpha, uint64_t *counter)
{
    const double d = alpha - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = normal(key, counter), w = 1 + c * x, v = w * w * w;
        if (w > 0 && exact_log(uniform(key, counter)) < x * x / 2 + d - d * v + d * exact_log(v))
            return exact_log(d) + exact_log(v);
    }
}

double gamma_log(const tg_rng_key *key, double alpha)
{
    uint64_t counter = 0;
    if (alpha >= 1)
        return draw(key, alpha, &counter);
    const double more = draw(key, alpha + 1, &counter);
    return more + exact_log(uniform(key, &counter)) / alpha;
}

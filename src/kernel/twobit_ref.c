/* 2-bit codes, the specification: code = +1 where p >= tau, -1 where p <= -tau, else 0, as two bit
 * planes; the remainder is p - tau * code. An element with code 0 keeps its bits. */
#include "kernel/element.h"
#include "kernel/variants.h"

static void twobit_encode(const float *p, size_t n, float tau, uint8_t *bytes)
{
    for (size_t begin = 0; begin < n; begin += 64, bytes += 16) {
        size_t m = TG__MIN(n - begin, (size_t)64);
        uint64_t plus = 0, minus = 0;
        for (size_t i = 0; i < m; i++) {
            plus |= (uint64_t)(p[begin + i] >= tau) << i;
            minus |= (uint64_t)(p[begin + i] <= -tau) << i;
        }
        tg__twobit_put(bytes, m, plus, minus);
    }
}

static void twobit_add_encode(float *r, const float *g, size_t n, float tau, uint8_t *bytes)
{
    for (size_t begin = 0; begin < n; begin += 64, bytes += 16) {
        size_t m = TG__MIN(n - begin, (size_t)64);
        uint64_t plus = 0, minus = 0;
        for (size_t i = 0; i < m; i++) {
            float p = r[begin + i] + g[begin + i];
            plus |= (uint64_t)(p >= tau) << i;
            minus |= (uint64_t)(p <= -tau) << i;
            r[begin + i] = p >= tau ? p - tau : p <= -tau ? p + tau : p;
        }
        tg__twobit_put(bytes, m, plus, minus);
    }
}

static void twobit_decode_add(float *dst, const uint8_t *bytes, size_t n, float tau)
{
    for (size_t begin = 0; begin < n; begin += 64, bytes += 16) {
        size_t m = TG__MIN(n - begin, (size_t)64);
        uint64_t plus, minus;
        tg__twobit_codes(bytes, m, &plus, &minus);
        for (size_t i = 0; i < m; i++) {
            if (plus >> i & 1)
                dst[begin + i] += tau;
            else if (minus >> i & 1)
                dst[begin + i] -= tau;
        }
    }
}

static void twobit_decode(float *dst, const uint8_t *bytes, size_t n, float tau)
{
    for (size_t begin = 0; begin < n; begin += 64, bytes += 16) {
        size_t m = TG__MIN(n - begin, (size_t)64);
        uint64_t plus, minus;
        tg__twobit_codes(bytes, m, &plus, &minus);
        for (size_t i = 0; i < m; i++)
            dst[begin + i] = plus >> i & 1 ? tau : minus >> i & 1 ? -tau : 0;
    }
}

static bool twobit_valid(const uint8_t *bytes, size_t n)
{
    uint64_t wrong = 0;
    for (size_t begin = 0; begin < n; begin += 64, bytes += 16) {
        size_t m = TG__MIN(n - begin, (size_t)64);
        uint64_t plus, minus;
        tg__twobit_get(bytes, m, &plus, &minus);
        wrong |= plus & minus;
        if (m < 64)
            wrong |= (plus | minus) >> m;
    }
    return wrong == 0;
}

void tg__twobit_ref(tg__kernels *table)
{
    table->twobit_encode = twobit_encode;
    table->twobit_add_encode = twobit_add_encode;
    table->twobit_decode_add = twobit_decode_add;
    table->twobit_decode = twobit_decode;
    table->twobit_valid = twobit_valid;
}

/* Signs as bits, the specification: packing, decoding to two values, the majority of many voters.
 */
#include "kernel/signs.h"
#include "kernel/variants.h"

static void sign_pack(const float *x, size_t n, float t, uint8_t *bits)
{
    for (size_t begin = 0; begin < n; begin += 64, bits += 8) {
        size_t m = TG__MIN(n - begin, (size_t)64);
        uint64_t word = 0;
        for (size_t i = 0; i < m; i++)
            word |= (uint64_t)(x[begin + i] < t) << i;
        tg__bits_put(bits, m, word);
    }
}

static void sign_decode(float *dst, const uint8_t *bits, size_t first, size_t n, float plus,
                        float minus)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = tg__bit(bits, first + i) ? minus : plus;
}

static void sign_decode_add(float *dst, const uint8_t *bits, size_t first, size_t n, float plus,
                            float minus)
{
    for (size_t i = 0; i < n; i++)
        dst[i] += tg__bit(bits, first + i) ? minus : plus;
}

static void sign_settle(float *x, size_t n, float t, float plus, float minus)
{
    for (size_t i = 0; i < n; i++)
        x[i] -= x[i] < t ? minus : plus;
}

static void vote(float *dst, const uint8_t *const *bits, size_t voters, size_t at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t against = 0;
        for (size_t v = 0; v < voters; v++)
            against += tg__bit(bits[v] + at, i);
        dst[i] = tg__verdict(voters, against);
    }
}

static void sign_of(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)((x[i] > 0) - (x[i] < 0));
}

void tg__sign_ref(tg__kernels *table)
{
    table->sign_pack = sign_pack;
    table->sign_decode = sign_decode;
    table->sign_decode_add = sign_decode_add;
    table->sign_settle = sign_settle;
    table->vote = vote;
    table->sign_of = sign_of;
}

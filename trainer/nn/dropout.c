#include "trainer/nn/dropout.h"

/* How many of the 65536 values of an element's 16 bits drop it. */
static uint32_t threshold(double p)
{
    const uint32_t t = (uint32_t)(p * 65536 + 0.5);
    return t < 65535 ? t : 65535;
}

void nn_dropout_draw(const tg_rng_key *key, double p, size_t n, uint8_t *keep)
{
    const uint32_t drop = threshold(p);
    for (size_t i = 0; i < n; i += 8) {
        uint32_t word[4];
        tg_rng_block(key, i / 8, word);
        for (size_t k = 0; k < 8 && i + k < n; k++)
            keep[i + k] = (word[k / 2] >> (16 * (k % 2)) & 0xffff) >= drop;
    }
}

void nn_dropout_apply(double p, size_t n, const uint8_t *keep, const float *x, float *y)
{
    const float scale = (float)(65536.0 / (65536.0 - threshold(p)));
    for (size_t i = 0; i < n; i++)
        y[i] = keep[i] ? x[i] * scale : 0;
}

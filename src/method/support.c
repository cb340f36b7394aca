/* Floyd's algorithm: for j = n - k .. n - 1, take a random t <= j, or j itself if t is already
 * taken. If k is more than half of n, draw the elements that are left out instead. */
#include "method/support.h"
#include "base/mem.h"
#include "base/philox.h"
#include <string.h>

/* floor(r * bound / 2^64); bound <= 2^32 */
static uint64_t below(uint32_t lo, uint32_t hi, uint64_t bound)
{
    return (hi * bound + (lo * bound >> 32)) >> 32;
}

static bool taken(const uint64_t *bits, uint64_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}

static void draw(const tg_rng_key *key, size_t n, size_t k, uint64_t *bits)
{
    uint32_t philox_key[2], w[4] = {0};
    tg__rng_derive(key, philox_key);
    for (size_t i = 0; i < k; i++) {
        if (i % 2 == 0) {
            const uint32_t counter[4] = {(uint32_t)(i / 2), 0, 0, 0};
            tg__philox(counter, philox_key, w);
        }
        const uint32_t *r = w + 2 * (i % 2);
        uint64_t j = n - k + i, t = below(r[0], r[1], j + 1);
        if (taken(bits, t))
            t = j;
        bits[t / 64] |= UINT64_C(1) << t % 64;
    }
}

void tg__support_draw(const tg_rng_key *key, size_t n, size_t k, uint64_t *bits, uint32_t *idx)
{
    const size_t words = TG__SUPPORT_WORDS(n);
    const bool out = k > n - k;
    memset(bits, 0, words * sizeof *bits);
    draw(key, n, out ? n - k : k, bits);
    for (size_t w = 0, at = 0; w < words; w++) {
        uint64_t word = out ? ~bits[w] : bits[w];
        if (w + 1 == words && n % 64 != 0)
            word &= (UINT64_C(1) << n % 64) - 1;
        for (; word != 0; word &= word - 1)
            idx[at++] = (uint32_t)(64 * w + (size_t)__builtin_ctzll(word));
    }
}

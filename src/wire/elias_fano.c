/* Elias-Fano: index = high << l | low, l = floor(log2(n / k)). The low parts are stored in
 * sequence, then one bit per index at position high + (its number). */
#include "wire/elias_fano.h"
#include "base/mem.h"
#include "wire/bits.h"
#include <string.h>

/* Largest l with k << l <= n; 1 <= k <= n. */
static unsigned low_bits(size_t n, size_t k)
{
    return 63u - (unsigned)__builtin_clzll((uint64_t)n / k);
}

static uint64_t code_bits(size_t n, size_t k)
{
    unsigned l = low_bits(n, k);
    return (uint64_t)k * (l + 1) + ((uint64_t)n >> l) + 1;
}

size_t tg__ef_len(size_t n, size_t k)
{
    return k > 0 ? (size_t)((code_bits(n, k) + 7) / 8) : 0;
}

void tg__ef_write(const uint32_t *idx, size_t k, size_t n, uint8_t *dst)
{
    if (k == 0)
        return;
    unsigned l = low_bits(n, k), count = 0;
    uint32_t mask = ((uint32_t)1 << l) - 1;
    uint64_t waiting = 0, upper = (uint64_t)k * l;
    size_t at = 0;
    memset(dst, 0, tg__ef_len(n, k));
    for (size_t i = 0; i < k; i++) {
        waiting |= (uint64_t)(idx[i] & mask) << count;
        count += l;
        for (; count >= 8; count -= 8, waiting >>= 8)
            dst[at++] = (uint8_t)waiting;
    }
    if (count > 0)
        dst[at] = (uint8_t)waiting;
    for (size_t i = 0; i < k; i++) {
        uint64_t bit = upper + (idx[i] >> l) + i;
        dst[bit / 8] |= (uint8_t)(1u << bit % 8);
    }
}

/* pos: the next bit of the upper part to read. */
tg_status tg__ef_begin(tg__index_reader *r)
{
    size_t want = tg__ef_len(r->n, r->k);
    if (r->len != want)
        return tg_fail(TG_E_CORRUPT,
                       "indices: Elias-Fano code of %zu of %zu: length=%zu: must be %zu", r->k,
                       r->n, r->len, want);
    if (r->param != 0)
        return tg_fail(TG_E_CORRUPT, "indices: Elias-Fano: parameter=%d: must be 0", r->param);
    r->pos = r->k > 0 ? (uint64_t)r->k * low_bits(r->n, r->k) : 0;
    return TG_OK;
}

/* Read the upper part word by word: 64 bits of it that begin at byte `at`. */
tg_status tg__ef_read(tg__index_reader *r, uint32_t *idx, size_t count)
{
    unsigned l = low_bits(r->n, r->k);
    uint64_t upper = (uint64_t)r->k * l, mask = ((uint64_t)1 << l) - 1;
    size_t at = (size_t)(r->pos / 8);
    uint64_t word = tg__bits_from(r->src, r->len, at) & UINT64_MAX << r->pos % 8;
    for (size_t i = 0; i < count; i++) {
        uint64_t number = r->done + i;
        for (; word == 0; word = tg__bits_from(r->src, r->len, at)) {
            at += 8;
            if (at >= r->len)
                return tg_fail(TG_E_CORRUPT, "indices: Elias-Fano: only %llu of %zu bits are set",
                               (unsigned long long)number, r->k);
        }
        uint64_t bit = (uint64_t)at * 8 + (unsigned)__builtin_ctzll(word);
        uint64_t low = tg__bits_from(r->src, r->len, (size_t)(number * l / 8)) >> number * l % 8;
        uint64_t high = bit - upper - number; /* each set bit is at least one further */
        uint64_t value = high << l | (low & mask);
        if (value < r->last || value >= r->n)
            return tg_fail(TG_E_CORRUPT, "indices: Elias-Fano: %llu after %lld of n=%zu",
                           (unsigned long long)value, (long long)r->last - 1, r->n);
        idx[i] = (uint32_t)value;
        r->last = value + 1;
        r->pos = bit + 1;
        word &= word - 1;
    }
    return TG_OK;
}

tg_status tg__ef_end(const tg__index_reader *r)
{
    size_t at = (size_t)(r->pos / 8);
    uint64_t word = tg__bits_from(r->src, r->len, at) & UINT64_MAX << r->pos % 8;
    for (; at < r->len; at += 8, word = tg__bits_from(r->src, r->len, at))
        if (word != 0)
            return tg_fail(TG_E_CORRUPT, "indices: Elias-Fano: more than %zu bits are set", r->k);
    return TG_OK;
}

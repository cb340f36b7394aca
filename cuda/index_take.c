/* Indices of frames, read on the host: a Rice code can only be read from its beginning. Decoding is
 * simple because the library has checked the frame; results stay below n all the same. */
#include "index.h"
#include "base/mem.h"

/* 64 bits from bit `at` on; zeros beyond the end. At least 57 of them are valid. */
static inline uint64_t bits_from(const uint8_t *src, size_t len, uint64_t at)
{
    const size_t byte = (size_t)(at / 8);
    uint64_t word = 0;
    if (byte + 8 <= len)
        word = tg__get64(src + byte);
    else
        for (size_t j = byte; j < len; j++)
            word |= (uint64_t)src[j] << 8 * (j - byte);
    return word >> at % 8;
}

/* The position of the first 1 from bit `at` on; `end` if there is none. */
static inline uint64_t next_one(const uint8_t *src, size_t len, uint64_t at)
{
    const uint64_t end = (uint64_t)len * 8;
    while (at < end) {
        const uint64_t word = bits_from(src, len, at);
        if (word != 0)
            return at + (unsigned)__builtin_ctzll(word);
        at += 57;
    }
    return end;
}

/* Where reading is: the next bit, and the least value of the next index. */
typedef struct place {
    uint64_t at, next;
} place;

/* Read codes in pairs while whole words can be loaded and both codes are short; returns their
 * number. */
static size_t take_pairs(unsigned b, size_t n, size_t k, const uint8_t *src, size_t len,
                         uint32_t *idx, place *p)
{
    if (len < 8 || p->at / 8 > len - 8)
        return 0;
    const uint8_t *from = src + p->at / 8, *safe = src + len - 8;
    const uint64_t mask = ((uint64_t)1 << b) - 1, most = n - 1, stop = (uint64_t)1 << 63;
    uint64_t bits = tg__get64(from) >> p->at % 8, next = p->next;
    unsigned have = 56 - (unsigned)(p->at % 8); /* valid bits of `bits` */
    size_t i = 0;
    from += 7;
    for (; i + 2 <= k && from <= safe; i += 2) {
        bits |= tg__get64(from) << have; /* bits above `have` come again, and are the same */
        from += (63 - have) / 8;
        have |= 56;
        const unsigned zeros0 = (unsigned)__builtin_ctzll(bits | stop);
        uint64_t rest = bits >> zeros0 >> 1;
        const uint64_t first = next + ((uint64_t)zeros0 << b | (rest & mask));
        rest >>= b;
        const unsigned zeros1 = (unsigned)__builtin_ctzll(rest | stop);
        const unsigned used = zeros0 + zeros1 + 2 * (1 + b);
        if (zeros0 > 24 || used > 56)
            break;
        rest = rest >> zeros1 >> 1;
        const uint64_t second = first + 1 + ((uint64_t)zeros1 << b | (rest & mask));
        idx[i] = (uint32_t)(first < most ? first : most);
        idx[i + 1] = (uint32_t)(second < most ? second : most);
        next = (uint64_t)idx[i + 1] + 1;
        bits = rest >> b;
        have -= used;
    }
    p->at = (uint64_t)(from - src) * 8 - have;
    p->next = next;
    return i;
}

/* Read a code of any length. */
static uint32_t take_one(unsigned b, size_t n, const uint8_t *src, size_t len, place *p)
{
    const uint64_t mask = ((uint64_t)1 << b) - 1, one = next_one(src, len, p->at);
    const uint64_t value = p->next + ((one - p->at) << b | (bits_from(src, len, one + 1) & mask));
    const uint32_t index = (uint32_t)(value < n ? value : n - 1);
    p->at = one + 1 + b;
    p->next = (uint64_t)index + 1;
    return index;
}

static void take_rice(unsigned b, size_t n, size_t k, const uint8_t *src, size_t len, uint32_t *idx)
{
    place p = {0, 0};
    for (size_t i = 0; i < k; i++) {
        i += take_pairs(b, n, k - i, src, len, idx + i, &p);
        if (i < k)
            idx[i] = take_one(b, n, src, len, &p);
    }
}

static void take_ef(size_t n, size_t k, const uint8_t *src, size_t len, uint32_t *idx)
{
    const unsigned l = 63 - (unsigned)__builtin_clzll((uint64_t)n / k);
    const uint64_t upper = (uint64_t)k * l, mask = ((uint64_t)1 << l) - 1;
    uint64_t at = upper;
    for (size_t i = 0; i < k; i++) {
        const uint64_t one = next_one(src, len, at), high = one - upper - i;
        const uint64_t value = high << l | (bits_from(src, len, (uint64_t)i * l) & mask);
        idx[i] = (uint32_t)(value < n ? value : n - 1);
        at = one + 1;
    }
}

void tg__index_take(int coding, unsigned param, size_t n, size_t k, const uint8_t *src, size_t len,
                    uint32_t *idx)
{
    uint64_t at = 0;
    switch (coding) {
    case TG__SPARSE_RAW:
        for (size_t i = 0; i < k; i++) {
            const uint32_t value = 4 * i + 4 <= len ? tg__get32(src + 4 * i) : 0;
            idx[i] = value < n ? value : (uint32_t)(n - 1);
        }
        break;
    case TG__SPARSE_BITMAP:
        for (size_t i = 0; i < k; i++, at++) {
            at = next_one(src, len, at);
            idx[i] = (uint32_t)(at < n ? at : n - 1);
        }
        break;
    case TG__SPARSE_EF:
        take_ef(n, k, src, len, idx);
        break;
    default:
        take_rice(param & 31, n, k, src, len, idx);
    }
}

size_t tg__index_most(int index, size_t n, size_t k)
{
    const unsigned b = 63 - (unsigned)__builtin_clzll((uint64_t)n / k);
    if (index == TG__SPARSE_RAW)
        return 4 * k;
    if (index == TG__SPARSE_BITMAP)
        return (n + 7) / 8;
    /* b + 1 bits for each, and a unary part of less than 2; fewer indices than k take no more than
     * one bit more. */
    return k * (b + 4) / 8 + 16;
}

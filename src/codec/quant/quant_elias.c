#include "codec/quant/quant_elias.h"
#include "base/mem.h"

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct bits {
    uint64_t word;
    unsigned count;
} bits;

static void append(bits *b, bits more)
{
    b->word |= more.word << b->count;
    b->count += more.count;
}

static bits gamma_of(uint32_t v)
{
    unsigned low = 31 - (unsigned)__builtin_clz(v);
    uint64_t rest = v - (UINT32_C(1) << low);
    return (bits){(uint64_t)1 << low | rest << (low + 1), 2 * low + 1};
}

/* Short and frequent codes, from a table. */
enum { NEAR = 64 };
typedef struct symbols {
    bits gap[NEAR];
    bits code[256]; /* with the sign, at the code's byte */
} symbols;

static void fill(symbols *s)
{
    for (uint32_t gap = 1; gap < NEAR; gap++)
        s->gap[gap] = gamma_of(gap);
    for (int code = -128; code < 128; code++) {
        bits b = {code < 0, 1};
        append(&b, gamma_of((uint32_t)(code < 0 ? -code : code == 0 ? 1 : code)));
        s->code[(uint8_t)code] = b;
    }
}

/* Write whole bytes to dst, where 8 bytes may be written. */
static size_t flush(bits *b, uint8_t *dst)
{
    size_t whole = b->count / 8;
    tg__put64(dst, b->word);
    b->word >>= 8 * whole;
    b->count %= 8;
    return whole;
}

/* A mask with the top bit of each of the 8 bytes (m, if fewer) that is not 0. */
static uint64_t nonzero(const int8_t *codes, size_t m)
{
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
    uint64_t x = 0;
    if (m >= 8)
        x = tg__get64((const uint8_t *)codes);
    else
        for (size_t i = 0; i < m; i++)
            x |= (uint64_t)(uint8_t)codes[i] << 8 * i;
    return (((x & low) + low) | x) & ~low;
}

/* Places are taken from a mask: branching on whether an element is 0 would often be
 * mispredicted. */
size_t tg__elias_put(uint8_t *dst, size_t cap, const int8_t *codes, size_t m)
{
    symbols s;
    bits b = {0};
    size_t len = 0, following = 0;
    fill(&s);
    for (size_t begin = 0; begin < m; begin += 8) {
        for (uint64_t left = nonzero(codes + begin, m - begin); left; left &= left - 1) {
            size_t i = begin + (size_t)__builtin_ctzll(left) / 8;
            uint32_t gap = (uint32_t)(i - following + 1);
            bits more = gap < NEAR ? s.gap[gap] : gamma_of(gap);
            append(&more, s.code[(uint8_t)codes[i]]); /* at most 33 bits, and 14 */
            append(&b, more);
            following = i + 1;
            len += flush(&b, dst + len);
            if (len > cap)
                return 0;
        }
    }
    append(&b, gamma_of((uint32_t)(m - following + 1)));
    len += flush(&b, dst + len);
    if (len + (b.count > 0) > cap)
        return 0;
    if (b.count > 0)
        dst[len++] = (uint8_t)b.word;
    return len;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* At least the next 57 bits; 0 beyond the end. */
static uint64_t peek(const tg__elias *e)
{
    size_t byte = e->at / 8, left = e->len - byte;
    if (left >= 8)
        return tg__get64(e->src + byte) >> e->at % 8;
    uint64_t word = 0;
    for (size_t i = 0; i < left; i++)
        word |= (uint64_t)e->src[byte + i] << 8 * i;
    return word >> e->at % 8;
}

/* Read a number from *word_p and remove its bits; 0 if it has more than `most` low bits. */
static uint32_t take_gamma(tg__elias *e, uint64_t *word_p, unsigned most)
{
    unsigned low = *word_p ? (unsigned)__builtin_ctzll(*word_p) : 64;
    if (low > most)
        return 0;
    uint32_t mask = (UINT32_C(1) << low) - 1;
    uint32_t v = (mask + 1) | ((uint32_t)(*word_p >> (low + 1)) & mask);
    *word_p >>= 2 * low + 1;
    e->at += 2 * low + 1;
    return v;
}

bool tg__elias_next(tg__elias *e)
{
    uint64_t word = peek(e);
    uint32_t gap = take_gamma(e, &word, 16);
    if (gap == 0 || gap - 1 > e->m - e->following || e->at > 8 * e->len)
        return false;
    e->place = e->following + gap - 1;
    if (e->place == e->m) /* the end: the remaining bits are padding */
        return (e->at + 7) / 8 == e->len && peek(e) == 0;
    e->following = e->place + 1;
    bool negative = word & 1;
    word >>= 1;
    e->at++;
    uint32_t magnitude = take_gamma(e, &word, 6);
    if (magnitude == 0 || e->at > 8 * e->len)
        return false;
    e->code = negative ? -(int)magnitude : (int)magnitude;
    return true;
}

bool tg__elias_begin(tg__elias *e, const uint8_t *src, size_t len, size_t m)
{
    *e = (tg__elias){.src = src, .len = len, .m = m};
    return tg__elias_next(e);
}

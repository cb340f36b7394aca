/* Golomb-Rice code of index gaps: gap = idx[i] - idx[i-1] - 1 as (gap >> b) zeros, a one, b low
 * bits.
 *
 * Length: S(b) = k (1 + b) + sum(gap >> b) bits. S(b+1) - S(b) = k - sum(ceil((gap >> b) / 2))
 * grows with b, so S is convex and its first local minimum is the best b. */
#include "wire/rice.h"
#include "base/mem.h"

enum {
    LONG_RUN = 24, /* zeros written at once: 7 pending bits + 24 + 1 + 31 fit 64 */
    FAST_BITS = 28 /* codes up to this length are written in pairs: 7 pending bits + 56 fit 64 */
};

/* ---- length ---------------------------------------------------------------------------------- */

/* Bits of the code for b, b + 1, b + 2. 32-bit sums suffice: the sum of all gaps is below 2^32. */
static void sizes(const uint32_t *idx, size_t k, int b, uint64_t bits[3])
{
    uint32_t gap = idx[0] >> b, s0 = gap, s1 = gap >> 1, s2 = gap >> 2;
    for (size_t i = 1; i < k; i++) {
        gap = (idx[i] - idx[i - 1] - 1) >> b;
        s0 += gap;
        s1 += gap >> 1;
        s2 += gap >> 2;
    }
    uint64_t fixed = (uint64_t)k * (uint64_t)(1 + b);
    bits[0] = fixed + s0;
    bits[1] = fixed + k + s1;
    bits[2] = fixed + 2 * (uint64_t)k + s2;
}

int tg__rice_choose(const uint32_t *idx, size_t k, uint64_t *bits_p)
{
    /* For geometric gaps the best b is near log2(mean * ln 2). Look there, then walk downhill. */
    uint64_t gaps = (uint64_t)idx[k - 1] + 1 - k, mean = gaps * 177 / 256 / k;
    int b = mean > 1 ? 62 - __builtin_clzll(mean) : 0;
    b = TG__MIN(b, TG__RICE_PARAM_MAX - 2);
    for (;;) {
        uint64_t bits[3];
        sizes(idx, k, b, bits);
        int best = bits[0] <= bits[1] ? 0 : bits[1] <= bits[2] ? 1 : 2;
        bool edge = (best == 0 && b == 0) || (best == 2 && b + 2 == TG__RICE_PARAM_MAX);
        if (best == 1 || edge) {
            *bits_p = bits[best];
            return b + best;
        }
        b += best - 1;
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct writer {
    uint8_t *dst;
    size_t at, len;
    uint64_t bits; /* pending, lowest first */
    unsigned count;
} writer;

/* Write the whole bytes of the pending bits; at most 7 bits remain. */
static inline void flush(writer *w)
{
    unsigned bytes = w->count / 8;
    if (w->at + 8 <= w->len)
        tg__put64(w->dst + w->at, w->bits);
    else
        for (unsigned j = 0; j < bytes; j++)
            w->dst[w->at + j] = (uint8_t)(w->bits >> 8 * j);
    w->at += bytes;
    w->bits >>= 8 * bytes;
    w->count %= 8;
}

static inline void put_long(writer *w, uint32_t gap, unsigned b)
{
    uint32_t zeros = gap >> b;
    for (; zeros > LONG_RUN; zeros -= LONG_RUN) {
        w->count += LONG_RUN;
        flush(w);
    }
    uint64_t low = gap & (((uint32_t)1 << b) - 1);
    w->bits |= (low << 1 | 1) << zeros << w->count;
    w->count += zeros + 1 + b;
    flush(w);
}

void tg__rice_write(const uint32_t *idx, size_t k, int param, uint8_t *dst, size_t len)
{
    writer w = {dst, 0, len, 0, 0};
    unsigned b = (unsigned)param;
    uint32_t next = 0, mask = ((uint32_t)1 << b) - 1;
    size_t i = 0;
    for (; i + 2 <= k; i += 2) {
        uint32_t gap0 = idx[i] - next, gap1 = idx[i + 1] - idx[i] - 1;
        unsigned used0 = (gap0 >> b) + 1 + b, used1 = (gap1 >> b) + 1 + b;
        next = idx[i + 1] + 1;
        if (used0 > FAST_BITS || used1 > FAST_BITS) {
            put_long(&w, gap0, b);
            put_long(&w, gap1, b);
            continue;
        }
        /* Two short codes are written together. */
        uint64_t code0 = ((uint64_t)(gap0 & mask) << 1 | 1) << (gap0 >> b);
        uint64_t code1 = ((uint64_t)(gap1 & mask) << 1 | 1) << (gap1 >> b);
        w.bits |= (code0 | code1 << used0) << w.count;
        w.count += used0 + used1;
        flush(&w);
    }
    if (i < k)
        put_long(&w, idx[i] - next, b);
    if (w.count > 0)
        dst[w.at] = (uint8_t)w.bits;
}

/* ---- reading --------------------------------------------------------------------------------- */

tg_status tg__rice_begin(const tg__index_reader *r)
{
    if (r->param < 0 || r->param > TG__RICE_PARAM_MAX)
        return tg_fail(TG_E_CORRUPT, "indices: Rice parameter=%d: allowed: 0..%d", r->param,
                       TG__RICE_PARAM_MAX);
    uint64_t fixed = (uint64_t)r->k * (uint64_t)(1 + r->param);
    uint64_t most = fixed + ((uint64_t)(r->n - r->k) >> r->param);
    if (r->len < (fixed + 7) / 8 || r->len > (most + 7) / 8)
        return tg_fail(TG_E_CORRUPT,
                       "indices: Rice code of %zu of %zu: length=%zu: must be %llu..%llu", r->k,
                       r->n, r->len, (unsigned long long)((fixed + 7) / 8),
                       (unsigned long long)((most + 7) / 8));
    return TG_OK;
}

static tg_status truncated(const tg__index_reader *r, size_t done)
{
    return tg_fail(TG_E_CORRUPT, "indices: Rice code ends within index %zu of %zu", done, r->k);
}

static tg_status too_large(const tg__index_reader *r, size_t done)
{
    return tg_fail(TG_E_CORRUPT, "indices: index %zu of %zu is not below n=%zu", done, r->k, r->n);
}

/* Bits [pos, pos + 8) as far as they exist; zeros beyond. */
static inline uint64_t byte_at(const uint8_t *src, size_t len, uint64_t pos)
{
    size_t at = (size_t)(pos / 8);
    uint64_t two = at < len ? src[at] : 0;
    if (at + 1 < len)
        two |= (uint64_t)src[at + 1] << 8;
    return two >> pos % 8 & 0xff;
}

/* Read one index with a code of any length, up to the last bit. */
static tg_status read_one(tg__index_reader *r, uint32_t *idx_p, size_t done)
{
    uint64_t end = (uint64_t)r->len * 8, pos = r->pos, zeros = 0;
    uint64_t room = r->last < r->n ? (uint64_t)(r->n - 1) - r->last : 0; /* largest gap */
    unsigned b = (unsigned)r->param;
    for (;;) {
        if (pos >= end)
            return truncated(r, done);
        uint64_t bits = byte_at(r->src, r->len, pos);
        if (bits != 0) {
            unsigned run = (unsigned)__builtin_ctzll(bits);
            zeros += run;
            pos += run + 1;
            break;
        }
        zeros += 8;
        pos += 8;
        if (zeros > room >> b)
            return too_large(r, done);
    }
    if (b > end || pos > end - b)
        return truncated(r, done);
    uint64_t low = 0;
    for (unsigned j = 0; j < b; j += 8)
        low |= byte_at(r->src, r->len, pos + j) << j;
    low &= ((uint64_t)1 << b) - 1;
    if (r->last + (zeros << b | low) >= r->n) /* no overflow: zeros < (room >> b) + 8 */
        return too_large(r, done);
    r->pos = pos + b;
    *idx_p = (uint32_t)(r->last + (zeros << b | low));
    r->last = (uint64_t)*idx_p + 1;
    return TG_OK;
}

/* Read indices while whole words can be loaded and codes are short; returns the number read. The
 * buffer `bits` holds the code from bit `pos`; its lowest `avail` bits are counted. */
static size_t read_fast(tg__index_reader *r, uint32_t *idx, size_t count)
{
    if (r->len < 8)
        return 0;
    const uint8_t *src = r->src, *safe = src + r->len - 8, *at = src + r->pos / 8;
    if (at > safe)
        return 0;
    unsigned b = (unsigned)r->param, skip = (unsigned)(r->pos % 8);
    uint64_t bits = tg__get64(at) >> skip, last = r->last, n = r->n, mask = ((uint64_t)1 << b) - 1;
    unsigned avail = 56 - skip;
    at += 7;
    size_t i = 0;
    while (i + 2 <= count) {
        if (at > safe)
            break;
        bits |= tg__get64(at) << avail; /* bits above avail are present twice, with equal values */
        at += (63 - avail) >> 3;
        avail |= 56;
        /* Two codes in at least 56 bits. Nothing is stored before both are known to be valid. */
        unsigned zeros0 = (unsigned)__builtin_ctzll(bits | UINT64_C(1) << 63);
        uint64_t rest = bits >> zeros0 >> 1;
        uint64_t first = last + ((uint64_t)zeros0 << b | (rest & mask));
        rest >>= b;
        unsigned zeros1 = (unsigned)__builtin_ctzll(rest | UINT64_C(1) << 63);
        unsigned used0 = zeros0 + 1 + b, used1 = zeros1 + 1 + b;
        if (used0 > FAST_BITS || used1 > FAST_BITS)
            break;
        rest = rest >> zeros1 >> 1;
        uint64_t second = first + 1 + ((uint64_t)zeros1 << b | (rest & mask));
        if (second >= n)
            break;
        idx[i] = (uint32_t)first;
        idx[i + 1] = (uint32_t)second;
        i += 2;
        last = second + 1;
        bits = rest >> b;
        avail -= used0 + used1;
    }
    r->pos = (uint64_t)(at - src) * 8 - avail;
    r->last = last;
    return i;
}

tg_status tg__rice_read(tg__index_reader *r, uint32_t *idx, size_t count)
{
    for (size_t i = 0; i < count;) {
        i += read_fast(r, idx + i, count - i);
        /* The fast loop stopped: the end, a long code, or an invalid one. */
        for (size_t slow = TG__MIN(count - i, (size_t)2); slow > 0; slow--, i++)
            TG_TRY(read_one(r, &idx[i], r->done + i));
    }
    return TG_OK;
}

tg_status tg__rice_end(const tg__index_reader *r)
{
    size_t at = (size_t)(r->pos / 8);
    if (r->len != (r->pos + 7) / 8)
        return tg_fail(TG_E_CORRUPT, "indices: %zu bytes follow the Rice code",
                       r->len - (size_t)((r->pos + 7) / 8));
    if (r->pos % 8 != 0 && r->src[at] >> r->pos % 8 != 0)
        return tg_fail(TG_E_CORRUPT, "indices: Rice code: padding bits are not zero");
    return TG_OK;
}

/* Template of sign_avx2.c and sign_avx512.c: sign_ref.c in vectors. */

static inline uint64_t pack_block(const float *x, size_t m, vec t)
{
    uint64_t bits = 0;
    for (size_t j = 0; j < m; j += WIDTH)
        bits |= (uint64_t)mask_bits(vec_less(vec_get(x + j, m - j), t)) << j;
    return bits;
}

static void sign_pack(const float *x, size_t n, float t, uint8_t *bits)
{
    const vec vt = vec_splat(t);
    size_t i = 0;
    for (; i + 64 <= n; i += 64, bits += 8)
        tg__put64(bits, pack_block(x + i, 64, vt));
    if (i < n) { /* missing lanes are 0, which is below a threshold that is above 0 */
        uint64_t used = (UINT64_C(1) << (n - i)) - 1;
        tg__bits_put(bits, n - i, pack_block(x + i, n - i, vt) & used);
    }
}

/* The next bits, at most WIDTH, from bytes that begin with them. */
static inline vmask next_mask(const uint8_t *bits, size_t left)
{
    uint32_t m = bits[0];
    if (WIDTH == 16 && left > 8)
        m |= (uint32_t)bits[1] << 8;
    return mask_from(m);
}

/* The number of elements before the first whole byte. */
static inline size_t head_of(size_t first, size_t n)
{
    return first % 8 ? TG__MIN(n, 8 - first % 8) : 0;
}

static inline void decode(float *dst, const uint8_t *bits, size_t first, size_t n, float plus,
                          float minus, bool add)
{
    size_t head = head_of(first, n);
    for (size_t i = 0; i < head; i++) {
        float x = tg__bit(bits, first + i) ? minus : plus;
        dst[i] = add ? dst[i] + x : x;
    }
    bits += (first + head) / 8;
    dst += head;
    const vec up = vec_splat(plus), down = vec_splat(minus);
    EACH_VEC(n - head, {
        vec x = vec_pick(next_mask(bits + i / 8, left), down, up);
        vec_put(dst + i, left, add ? vec_add(vec_get(dst + i, left), x) : x);
    });
}

static void sign_decode(float *dst, const uint8_t *bits, size_t first, size_t n, float plus,
                        float minus)
{
    decode(dst, bits, first, n, plus, minus, false);
}

static void sign_decode_add(float *dst, const uint8_t *bits, size_t first, size_t n, float plus,
                            float minus)
{
    decode(dst, bits, first, n, plus, minus, true);
}

static void sign_settle(float *x, size_t n, float t, float plus, float minus)
{
    const vec vt = vec_splat(t), up = vec_splat(plus), down = vec_splat(minus);
    EACH_VEC(n, {
        vec p = vec_get(x + i, left);
        vec_put(x + i, left, vec_sub(p, vec_pick(vec_less(p, vt), down, up)));
    });
}

static void sign_of(float *x, size_t n)
{
    const vec zero = vec_splat(0), one = vec_splat(1), minus = vec_splat(-1);
    EACH_VEC(n, {
        vec p = vec_get(x + i, left);
        vec up = vec_pick(vec_less(zero, p), one, zero);
        vec_put(x + i, left, vec_pick(vec_less(p, zero), minus, up));
    });
}

/* ---- majority -------------------------------------------------------------------------------- */

/* The number of words of a voter that are read in a row: with many voters there are more streams
 * than the hardware prefetcher follows. The same place is prefetched AHEAD voters in advance. */
enum { PLANES = 32, TILE = 32, AHEAD = 4 };

/* The bits of one voter for the elements of a word; `size` bytes are available. */
static inline word ballots(const uint8_t *bits, size_t size)
{
    if (size >= WORD_BYTES)
        return word_get(bits);
    uint8_t padded[WORD_BYTES] = {0};
    memcpy(padded, bits, size);
    return word_get(padded);
}

/* Bit-sliced counters: plane[w] holds bit w of every element's count. Votes are added two voters at
 * a time: a full adder into plane 0, whose carry propagates as far as the count can reach. Returns
 * the number of planes. */
static inline size_t count_votes(word plane[PLANES][TILE], const uint8_t *const *bits,
                                 size_t voters, size_t at, size_t size)
{
    size_t planes = 1, v = voters % 2;
    for (size_t i = 0; i * WORD_BYTES < size; i++)
        plane[0][i] =
            v ? ballots(bits[0] + at + i * WORD_BYTES, size - i * WORD_BYTES) : word_zero();
    for (; v < voters; v += 2) {
        const uint8_t *a = bits[v] + at, *b = bits[v + 1] + at;
        const uint8_t *later[2] = {bits[TG__MIN(v + AHEAD, voters - 1)] + at,
                                   bits[TG__MIN(v + 1 + AHEAD, voters - 1)] + at};
        bool grows = (v + 2) >> planes > 0;
        for (size_t i = 0, begin = 0; begin < size; i++, begin += WORD_BYTES) {
            _mm_prefetch((const char *)later[0] + begin, _MM_HINT_T0);
            _mm_prefetch((const char *)later[1] + begin, _MM_HINT_T0);
            word x = ballots(a + begin, size - begin), y = ballots(b + begin, size - begin);
            word either = word_xor(x, y), low = plane[0][i];
            word carry = word_or(word_and(x, y), word_and(either, low));
            plane[0][i] = word_xor(either, low);
            for (size_t w = 1; w < planes; w++) {
                word up = word_and(plane[w][i], carry);
                plane[w][i] = word_xor(plane[w][i], carry);
                carry = up;
            }
            if (grows)
                plane[planes][i] = carry;
        }
        planes += grows;
    }
    return planes;
}

/* Decide the n <= 8 * WORD_BYTES elements of word `at`: compare the counts with half of the voters,
 * from the top plane down. */
static inline void decide(float *dst, size_t n, word plane[PLANES][TILE], size_t at, size_t planes,
                          size_t voters)
{
    uint8_t minus[WORD_BYTES], tie[WORD_BYTES];
    memset(tie, 0xff, sizeof(tie));
    word more = word_zero(), open = word_get(tie); /* open: equal so far */
    for (size_t w = planes; w-- > 0;) {
        if (voters / 2 >> w & 1) {
            open = word_and(open, plane[w][at]);
        } else {
            more = word_or(more, word_and(open, plane[w][at]));
            open = word_without(open, plane[w][at]);
        }
    }
    word_put(minus, more);
    word_put(tie, voters % 2 ? word_zero() : open);
    const vec zero = vec_splat(0), one = vec_splat(1), less = vec_splat(-1);
    EACH_VEC(n, {
        vec x = vec_pick(next_mask(minus + i / 8, left), less, one);
        vec_put(dst + i, left, vec_pick(next_mask(tie + i / 8, left), zero, x));
    });
}

static void vote(float *dst, const uint8_t *const *bits, size_t voters, size_t at, size_t n)
{
    enum { WORD_BITS = 8 * WORD_BYTES };
    word plane[PLANES][TILE];
    for (size_t begin = 0; begin < n; begin += TILE * WORD_BITS) {
        size_t m = TG__MIN(n - begin, (size_t)TILE * WORD_BITS);
        size_t planes = count_votes(plane, bits, voters, at + begin / 8, (m + 7) / 8);
        for (size_t i = 0; i * WORD_BITS < m; i++)
            decide(dst + begin + i * WORD_BITS, TG__MIN(m - i * WORD_BITS, (size_t)WORD_BITS),
                   plane, i, planes, voters);
    }
}

static void fill(tg__kernels *table)
{
    table->sign_pack = sign_pack;
    table->sign_decode = sign_decode;
    table->sign_decode_add = sign_decode_add;
    table->sign_settle = sign_settle;
    table->vote = vote;
    table->sign_of = sign_of;
}

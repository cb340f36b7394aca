/* Template: signs as bits: packing, decoding to two values, the majority of many voters. */

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
    if (i == n)
        return;
    /* missing lanes are 0, which is below a threshold that is above 0 */
    const uint64_t rest = pack_block(x + i, n - i, vt) & ((UINT64_C(1) << (n - i)) - 1);
    for (size_t j = 0; 8 * j < n - i; j++)
        bits[j] = (uint8_t)(rest >> 8 * j);
}

/* The values for the elements from i on: one for each column, or one for all. */
static inline vec values(const uint8_t *p, size_t i, size_t left, bool columns)
{
    if (columns)
        return vec_get((const float *)(const void *)(p + 4 * i), left);
    return vec_splat(tg__f32_from(tg__get32(p)));
}

/* dst = (add: +=) weight * (bit ? minus : plus) */
TG__INLINED void decode(float *dst, const uint8_t *bits, size_t first, size_t n, float weight,
                        const uint8_t *plus, const uint8_t *minus, bool columns, bool add)
{
    const size_t head = first % 8 ? TG__MIN(n, 8 - first % 8) : 0; /* before the first whole byte */
    for (size_t i = 0; i < head; i++) {
        const uint8_t *value = tg__bit(bits, first + i) ? minus : plus;
        const float x = tg__f32_from(tg__get32(value + (columns ? 4 * i : 0))) * weight;
        dst[i] = add ? dst[i] + x : x;
    }
    bits += (first + head) / 8;
    dst += head;
    EACH_VEC(n - head, {
        const vec up = values(plus, head + i, left, columns);
        vec x = vec_pick(mask_get(bits, i, left), values(minus, head + i, left, columns), up);
        x = x * vec_splat(weight);
        if (add)
            x = GET(dst) + x;
        PUT(dst, x);
    });
}

static void sign_decode(float *dst, const uint8_t *bits, size_t first, size_t n, float plus,
                        float minus)
{
    decode(dst, bits, first, n, 1, (const uint8_t *)&plus, (const uint8_t *)&minus, false, false);
}

static void sign_decode_add(float *dst, const uint8_t *bits, size_t first, size_t n, float plus,
                            float minus)
{
    decode(dst, bits, first, n, 1, (const uint8_t *)&plus, (const uint8_t *)&minus, false, true);
}

static void column_decode(float *dst, const uint8_t *bits, size_t first, size_t n, float weight,
                          const uint8_t *plus, const uint8_t *minus)
{
    decode(dst, bits, first, n, weight, plus, minus, true, false);
}

static void column_decode_add(float *dst, const uint8_t *bits, size_t first, size_t n, float weight,
                              const uint8_t *plus, const uint8_t *minus)
{
    decode(dst, bits, first, n, weight, plus, minus, true, true);
}

static void sign_settle(float *x, size_t n, float t, float plus, float minus)
{
    const vec vt = vec_splat(t), up = vec_splat(plus), down = vec_splat(minus);
    EACH_VEC(n, {
        const vec p = GET(x);
        PUT(x, p - vec_pick(vec_less(p, vt), down, up));
    });
}

static void sign_of(float *x, size_t n)
{
    EACH_VEC(n, PUT(x, vec_sign(GET(x))););
}

/* ---- majority -------------------------------------------------------------------------------- */

/* The number of words of a voter that are read in a row: with many voters there are more streams
 * than the hardware prefetcher follows. The same place is prefetched AHEAD voters in advance. */
enum { PLANES = 32, TILE = 32, AHEAD = 4 };
enum { WORD_BYTES = sizeof(vint) };

/* The bits of one voter for the elements of a word; `size` bytes are available. */
static inline vint ballots(const uint8_t *bits, size_t size)
{
    if (size >= WORD_BYTES)
        return int_get(bits);
    uint8_t padded[WORD_BYTES] = {0};
    memcpy(padded, bits, size);
    return int_get(padded);
}

/* Bit-sliced counters: plane[w] holds bit w of every element's count. Votes are added two voters at
 * a time: a full adder into plane 0, whose carry propagates as far as the count can reach. Returns
 * the number of planes. */
static inline size_t count_votes(vint plane[PLANES][TILE], const uint8_t *const *bits,
                                 size_t voters, size_t at, size_t size)
{
    size_t planes = 1, v = voters % 2;
    for (size_t i = 0; i * WORD_BYTES < size; i++)
        plane[0][i] =
            v ? ballots(bits[0] + at + i * WORD_BYTES, size - i * WORD_BYTES) : int_zero();
    for (; v < voters; v += 2) {
        const uint8_t *a = bits[v] + at, *b = bits[v + 1] + at;
        const uint8_t *later[2] = {bits[TG__MIN(v + AHEAD, voters - 1)] + at,
                                   bits[TG__MIN(v + 1 + AHEAD, voters - 1)] + at};
        bool grows = (v + 2) >> planes > 0;
        for (size_t i = 0, begin = 0; begin < size; i++, begin += WORD_BYTES) {
            __builtin_prefetch(later[0] + begin);
            __builtin_prefetch(later[1] + begin);
            vint x = ballots(a + begin, size - begin), y = ballots(b + begin, size - begin);
            vint either = x ^ y, low = plane[0][i];
            vint carry = (x & y) | (either & low);
            plane[0][i] = either ^ low;
            for (size_t w = 1; w < planes; w++) {
                vint up = plane[w][i] & carry;
                plane[w][i] ^= carry;
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
static inline void decide(float *dst, size_t n, vint plane[PLANES][TILE], size_t at, size_t planes,
                          size_t voters)
{
    uint8_t minus[WORD_BYTES], tie[WORD_BYTES];
    memset(tie, 0xff, sizeof(tie));
    vint more = int_zero(), open = int_get(tie); /* open: equal so far */
    for (size_t w = planes; w-- > 0;) {
        if (voters / 2 >> w & 1) {
            open &= plane[w][at];
        } else {
            more |= open & plane[w][at];
            open &= ~plane[w][at];
        }
    }
    int_put(minus, more);
    int_put(tie, voters % 2 ? int_zero() : open);
    const vec zero = vec_splat(0), one = vec_splat(1), less = vec_splat(-1);
    EACH_VEC(n, {
        const vec x = vec_pick(mask_get(minus, i, left), less, one);
        PUT(dst, vec_pick(mask_get(tie, i, left), zero, x));
    });
}

static void vote(float *dst, const uint8_t *const *bits, size_t voters, size_t at, size_t n)
{
    enum { WORD_BITS = 8 * WORD_BYTES };
    vint plane[PLANES][TILE];
    for (size_t begin = 0; begin < n; begin += TILE * WORD_BITS) {
        size_t m = TG__MIN(n - begin, (size_t)TILE * WORD_BITS);
        size_t planes = count_votes(plane, bits, voters, at + begin / 8, (m + 7) / 8);
        for (size_t i = 0; i * WORD_BITS < m; i++)
            decide(dst + begin + i * WORD_BITS, TG__MIN(m - i * WORD_BITS, (size_t)WORD_BITS),
                   plane, i, planes, voters);
    }
}

static void fill_sign(tg__kernels *table)
{
    table->sign_pack = sign_pack;
    table->sign_decode = sign_decode;
    table->sign_decode_add = sign_decode_add;
    table->column_decode = column_decode;
    table->column_decode_add = column_decode_add;
    table->sign_settle = sign_settle;
    table->vote = vote;
    table->sign_of = sign_of;
}

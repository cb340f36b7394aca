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

/* The next WIDTH or fewer bits of bytes that begin with them. */
static inline vmask next_mask(const uint8_t *bits, size_t left)
{
    uint32_t m = bits[0];
    if (WIDTH == 16 && left > 8)
        m |= (uint32_t)bits[1] << 8;
    return mask_from(m);
}

/* The elements before the first whole byte. */
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

/* The bits of one voter for the elements of a block; `size` bytes are there. */
static inline word ballots(const uint8_t *bits, size_t size)
{
    if (size >= WORD_BYTES)
        return word_get(bits);
    uint8_t padded[WORD_BYTES] = {0};
    memcpy(padded, bits, size);
    return word_get(padded);
}

enum { PLANES = 32 };

/* Bit-sliced counters: plane[w] holds bit w of every element's count. Two voters at a time: a full
 * adder into plane 0, its carry rippling up as far as the count can reach. Returns the planes. */
static inline size_t count_votes(word plane[PLANES], const uint8_t *const *bits, size_t voters,
                                 size_t at, size_t size)
{
    size_t planes = 1, v = voters % 2;
    plane[0] = v ? ballots(bits[0] + at, size) : word_zero();
    for (; v < voters; v += 2) {
        word a = ballots(bits[v] + at, size), b = ballots(bits[v + 1] + at, size);
        word either = word_xor(a, b), low = plane[0];
        word carry = word_or(word_and(a, b), word_and(either, low));
        plane[0] = word_xor(either, low);
        for (size_t w = 1; w < planes; w++) {
            word up = word_and(plane[w], carry);
            plane[w] = word_xor(plane[w], carry);
            carry = up;
        }
        if ((v + 2) >> planes > 0)
            plane[planes++] = carry;
    }
    return planes;
}

/* 512 or 256 elements: compare the counts with half of the voters, from the top plane down. */
static inline void vote_block(float *dst, const uint8_t *const *bits, size_t voters, size_t at,
                              size_t n)
{
    word plane[PLANES], more = word_zero(), open; /* open: equal so far */
    size_t planes = count_votes(plane, bits, voters, at, (n + 7) / 8), half = voters / 2;
    uint8_t minus[WORD_BYTES], tie[WORD_BYTES];
    memset(tie, 0xff, sizeof(tie));
    open = word_get(tie);
    for (size_t w = planes; w-- > 0;) {
        if (half >> w & 1) {
            open = word_and(open, plane[w]);
        } else {
            more = word_or(more, word_and(open, plane[w]));
            open = word_without(open, plane[w]);
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
    size_t i = 0;
    for (; i + 8 * WORD_BYTES <= n; i += 8 * WORD_BYTES)
        vote_block(dst + i, bits, voters, at + i / 8, 8 * WORD_BYTES);
    if (i < n)
        vote_block(dst + i, bits, voters, at + i / 8, n - i);
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

/* What quant_avx2.c and quant_avx512.c have in common: random_group with WIDTH Philox blocks at
 * once. They define bytes_narrow and bytes_put_four for four vectors of codes, int_xor3,
 * i64_counters and i64_merge; the latter treat a vint as WIDTH / 2 lanes of 64 bits.
 *
 * Blocks with even and odd numbers are computed separately, each in 64-bit lanes of which the low
 * word counts: the low word of a product is then where it is needed, and its high word is one shift
 * away. */

#define vec_round MM(cvtps_epi32)
#define i64_mul MM(mul_epu32)
#define i64_high(a) MM(srli_epi64)(a, 32)

typedef struct half {
    vint c0, c1, c2, c3;
} half;

/* Two rounds of (c0, 0, 0, 0). The first makes c0 equal in all lanes, and c1 0, so the second
 * multiplies only once. */
static inline half two_rounds(vint c0, const tg__philox_keys *keys)
{
    const vint m0 = int_splat((int32_t)TG__PHILOX_M0), m1 = int_splat((int32_t)TG__PHILOX_M1);
    const uint64_t same = (uint64_t)TG__PHILOX_M0 * keys->k0[0];
    const uint32_t high = (uint32_t)(same >> 32) ^ keys->k1[1];
    vint p0 = i64_mul(c0, m0);
    vint p1 = i64_mul(i64_high(p0) ^ int_splat((int32_t)keys->k1[0]), m1);
    return (half){.c0 = i64_high(p1) ^ int_splat((int32_t)keys->k0[1]),
                  .c1 = p1,
                  .c2 = p0 ^ int_splat((int32_t)high),
                  .c3 = int_splat((int32_t)(uint32_t)same)};
}

static inline half one_round(half s, vint k0, vint k1)
{
    vint p0 = i64_mul(s.c0, int_splat((int32_t)TG__PHILOX_M0));
    vint p1 = i64_mul(s.c2, int_splat((int32_t)TG__PHILOX_M1));
    return (half){.c0 = int_xor3(i64_high(p1), s.c1, k0),
                  .c1 = p1,
                  .c2 = int_xor3(i64_high(p0), s.c3, k1),
                  .c3 = p0};
}

/* Blocks first .. first + WIDTH - 1: word k of block i in lane i of word[k]. */
static inline void philox(uint32_t first, const tg__philox_keys *keys, vint word[4])
{
    const vint begin = int_splat((int32_t)first);
    half even = two_rounds(int_add(begin, i64_counters(0)), keys);
    half odd = two_rounds(int_add(begin, i64_counters(1)), keys);
    for (unsigned i = 2; i < keys->rounds; i++) {
        const vint k0 = int_splat((int32_t)keys->k0[i]), k1 = int_splat((int32_t)keys->k1[i]);
        even = one_round(even, k0, k1);
        odd = one_round(odd, k0, k1);
    }
    word[0] = i64_merge(even.c0, odd.c0);
    word[1] = i64_merge(even.c1, odd.c1);
    word[2] = i64_merge(even.c2, odd.c2);
    word[3] = i64_merge(even.c3, odd.c3);
}

/* One vector of a group; draws are 0 .. 65535. The shift rounds towards minus infinity. */
static inline vint round_random(const float *x, vec scale, vint draws)
{
    const vint rounded = vec_round(vec_get(x, WIDTH) * scale);
    return MM(srai_epi32)(int_add(rounded, draws), 16);
}

static inline vint bytes_clamp(vint x, vint limit)
{
    return MM(max_epi8)(MM(min_epi8)(x, limit), MM(sub_epi8)(int_zero(), limit));
}

static inline void random_group(int8_t *codes, const float *x, float factor, int levels,
                                const tg__philox_keys *keys, uint32_t block)
{
    const vec scale = vec_splat(factor);
    const vint low_half = int_splat(0xffff), limit = MM(set1_epi8)((char)levels);
    for (uint32_t begin = 0; begin < 16; begin += WIDTH) {
        vint word[4];
        philox(block + begin, keys, word);
        for (size_t k = 0; k < 4; k += 2) {
            size_t at = 32 * k + begin;
            vint a = word[k], b = word[k + 1];
            vint q[4] = {round_random(x + at, scale, a & low_half),
                         round_random(x + at + 16, scale, MM(srli_epi32)(a, 16)),
                         round_random(x + at + 32, scale, b & low_half),
                         round_random(x + at + 48, scale, MM(srli_epi32)(b, 16))};
            bytes_put_four(codes + at, bytes_clamp(bytes_narrow(q), limit));
        }
    }
}

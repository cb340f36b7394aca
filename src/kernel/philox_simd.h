/* Template of quant_avx2.c and quant_avx512.c: WIDTH Philox blocks at once. The including file has
 * vint, a vector of WIDTH 32-bit words, and the i64_* functions below that see it as WIDTH / 2
 * lanes of 64 bits.
 *
 * Blocks of even and of odd number are computed apart, each in 64-bit lanes of which the low word
 * counts: a product then stands where its low word is needed, and its high word is one shift away.
 */

/* The four words of the blocks whose numbers stand in the low words of c0. */
static inline void philox_half(vint c0, const tg__philox_keys *keys, vint word[4])
{
    const vint m0 = int_splat((int32_t)TG__PHILOX_M0), m1 = int_splat((int32_t)TG__PHILOX_M1);
    /* The first round of (c0, 0, 0, 0) makes c0 the same in all lanes, and c1 0, so the second one
     * multiplies once. */
    const uint64_t same = (uint64_t)TG__PHILOX_M0 * keys->k0[0];
    vint p0 = i64_mul(c0, m0);
    vint c2 = int_xor(i64_high(p0), int_splat((int32_t)keys->k1[0]));
    vint c1 = i64_mul(c2, m1), c3 = int_splat((int32_t)(uint32_t)same);
    c0 = int_xor(i64_high(c1), int_splat((int32_t)keys->k0[1]));
    c2 = int_xor(p0, int_splat((int32_t)((uint32_t)(same >> 32) ^ keys->k1[1])));
    for (unsigned i = 2; i < keys->rounds; i++) {
        p0 = i64_mul(c0, m0);
        vint p1 = i64_mul(c2, m1);
        c0 = int_xor3(i64_high(p1), c1, int_splat((int32_t)keys->k0[i]));
        c2 = int_xor3(i64_high(p0), c3, int_splat((int32_t)keys->k1[i]));
        c1 = p1;
        c3 = p0;
    }
    word[0] = c0;
    word[1] = c1;
    word[2] = c2;
    word[3] = c3;
}

/* Blocks first .. first + WIDTH - 1: word k of block i in lane i of word[k]. */
static inline void philox(uint32_t first, const tg__philox_keys *keys, vint word[4])
{
    vint even[4], odd[4], begin = int_splat((int32_t)first);
    philox_half(int_add(begin, i64_counters(0)), keys, even);
    philox_half(int_add(begin, i64_counters(1)), keys, odd);
    for (unsigned k = 0; k < 4; k++)
        word[k] = i64_merge(even[k], odd[k]);
}

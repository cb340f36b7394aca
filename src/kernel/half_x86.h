/* What half_avx2.c and half_avx512.c have in common; they define int_floats and get16 before. */

/* Finite magnitudes are limited to `largest`, NaNs become a single one; signs are kept. */
static inline vec narrow_clamp(vec x, uint32_t largest)
{
    const vec inf = vec_splat(INFINITY), nan = int_floats(int_splat((int)TG__F32_NAN));
    const vint magnitude = vec_magnitude(x), sign = MM_INT(castps)(x) ^ magnitude;
    vec y = int_floats(MM(min_epu32)(magnitude, int_splat((int)largest)));
    y = vec_pick(vec_compare(vec_abs(x), inf, _CMP_EQ_OQ), inf, y);
    y = vec_pick(vec_compare(x, x, _CMP_UNORD_Q), nan, y);
    return int_floats(MM_INT(castps)(y) | sign);
}

/* True if no magnitude exceeds `largest`; this excludes NaN and infinity. */
static inline bool all_within(const vec x[4], uint32_t largest)
{
    vint max = int_zero();
    for (size_t j = 0; j < 4; j++)
        max = int_max(max, vec_magnitude(x[j]));
    return !int_any_above(max, (int32_t)largest);
}

static inline void stream_end(void)
{
    _mm_sfence();
}

static inline vec f16_get(const tg__word *p, size_t left)
{
    return MM(cvtph_ps)(get16(p, left));
}

/* Each rounded to nearest even, in the low half of its lane. */
static inline vint bf16_words(vec x)
{
    const vint bits = MM_INT(castps)(x), odd = MM(srli_epi32)(bits, 16) & int_splat(1);
    return MM(srli_epi32)(int_add(int_add(bits, int_splat(0x7fff)), odd), 16);
}

/* Template of quant_*.c. The including file defines random_group, bytes_get and bytes_put for WIDTH
 * codes, and vec_round. */

/* NaN becomes high. */
static inline vec clamp_vec(vec x, vec high, vec low)
{
    return vec_max(vec_min(x, high), low);
}

static void quant_nearest(int8_t *codes, const float *x, size_t n, float inverse, int levels)
{
    const vec high = vec_splat((float)levels), low = -high;
    EACH_VEC(n, bytes_put(codes + i, left, vec_round(clamp_vec(GET(x) * inverse, high, low))););
}

static void quant_random(int8_t *codes, const float *x, size_t n, float inverse, int levels,
                         const tg__draws *draws)
{
    tg__quant_groups(codes, x, n, inverse, levels, draws, random_group);
}

static void quant_decode(float *dst, const int8_t *codes, size_t n, float unit)
{
    EACH_VEC(n, PUT(dst, bytes_get(codes + i, left) * unit););
}

static void quant_decode_add(float *dst, const int8_t *codes, size_t n, float unit)
{
    EACH_VEC(n, PUT(dst, GET(dst) + bytes_get(codes + i, left) * unit););
}

static void clamp(float *dst, const float *src, size_t n, float limit)
{
    EACH_VEC(n, PUT(dst, clamp_vec(GET(src), vec_splat(limit), vec_splat(-limit))););
}

static void fill(tg__kernels *table)
{
    table->quant_nearest = quant_nearest;
    table->quant_random = quant_random;
    table->quant_decode = quant_decode;
    table->quant_decode_add = quant_decode_add;
    table->clamp = clamp;
}

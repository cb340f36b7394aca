/* Values of sparse frames: their length, and writing. Reading is in sparse_values_read.c. */
#include "codec/sparse/sparse_values.h"
#include "codec/codec_impl.h"
#include "codec/sparse/sparse_shape.h"
#include <float.h>
#include <math.h>

/* ---- integers times a scale ------------------------------------------------------------------ */

/* max|v| / top, or slightly less if top times it would overflow. */
static float scale_for(const float *val, size_t m, float top)
{
    float scale = tg__kernel()->abs_max(val, m) / top;
    return scale * top > FLT_MAX ? nextafterf(scale, 0) : scale;
}

/* Compute the codes, and set val to what will be decoded. */
static void quantise(float *val, size_t m, float scale, float top, int8_t *code)
{
    const float magic = 0x1.8p23f; /* adding it rounds to integers, ties to even */
    float divisor = scale > 0 ? scale : 1;
    for (size_t i = 0; i < m; i++) {
        float q = val[i] / divisor;
        q = q > top ? top : q < -top ? -top : q;
        q = (q + magic) - magic;
        code[i] = (int8_t)(int)q;
        val[i] = (float)code[i] * scale; /* an integer has no -0 */
    }
}

static void write_int8(float *val, size_t m, uint8_t *dst)
{
    int8_t code[TG__VALUES_BLOCK];
    float scale = scale_for(val, m, 127);
    quantise(val, m, scale, 127, code);
    tg__floats_put(dst, &scale, 1);
    memcpy(dst + 4, code, m);
}

static void write_4bit(float *val, size_t m, uint8_t *dst)
{
    int8_t code[TG__VALUES_BLOCK + 1];
    float scale = scale_for(val, m, 7);
    quantise(val, m, scale, 7, code);
    code[m] = 0;
    tg__floats_put(dst, &scale, 1);
    for (size_t i = 0; i < m; i += 2)
        dst[4 + i / 2] = (uint8_t)((code[i] & 15) | (code[i + 1] & 15) << 4);
}

/* ---- signs and levels ------------------------------------------------------------------------ */

static uint32_t sign_of(float x)
{
    return tg__f32_bits(x) >> 31;
}

/* |v| of a block, padded with zeros to whole rows of 16 lanes. */
typedef struct magnitudes {
    double of[TG__VALUES_BLOCK];
    size_t rows;
} magnitudes;

static void take_magnitudes(magnitudes *a, const float *val, size_t m)
{
    a->rows = (m + TG__LANES - 1) / TG__LANES;
    for (size_t i = 0; i < m; i++)
        a->of[i] = fabs((double)val[i]);
    for (size_t i = m; i < a->rows * TG__LANES; i++)
        a->of[i] = 0;
}

/* Sums of the values below the limit (sum[0]) and of the others, each over 16 lanes in order;
 * *upper_p: the number of others. */
static void class_sums(const magnitudes *a, double limit, double sum[2], size_t *upper_p)
{
    double lane[2][TG__LANES] = {{0}};
    int upper[TG__LANES] = {0};
    for (size_t i = 0; i < a->rows; i++)
        for (size_t l = 0; l < TG__LANES; l++) {
            double x = a->of[i * TG__LANES + l];
            int above = x >= limit; /* without a branch, which would be unpredictable */
            double other = (double)above * x;
            lane[0][l] += x - other;
            lane[1][l] += other;
            upper[l] += above;
        }
    *upper_p = 0;
    sum[0] = sum[1] = 0;
    for (size_t l = 0; l < TG__LANES; l++) {
        sum[0] += lane[0][l];
        sum[1] += lane[1][l];
        *upper_p += (size_t)upper[l];
    }
}

static void write_signs(const float *val, size_t m, uint8_t *dst)
{
    memset(dst, 0, (m + 7) / 8);
    for (size_t i = 0; i < m; i++)
        dst[i / 8] |= (uint8_t)(sign_of(val[i]) << i % 8);
}

static void write_1bit(float *val, size_t m, uint8_t *dst)
{
    magnitudes a;
    double sum[2];
    size_t all;
    take_magnitudes(&a, val, m);
    class_sums(&a, 0, sum, &all);
    float level = (float)(sum[1] / (double)m);
    tg__floats_put(dst, &level, 1);
    write_signs(val, m, dst + 4);
    for (size_t i = 0; i < m; i++)
        val[i] = tg__with_sign(level, sign_of(val[i]));
}

static void write_2bit(float *val, size_t m, uint8_t *dst)
{
    magnitudes a;
    double sum[2], mean;
    size_t upper;
    take_magnitudes(&a, val, m);
    class_sums(&a, 0, sum, &upper);
    mean =
        sum[1] / (double)m; /* above 0, the padding zeros are not counted; at 0, all levels are 0 */
    class_sums(&a, mean, sum, &upper);
    float level[2] = {upper < m ? (float)(sum[0] / (double)(m - upper)) : 0,
                      (float)(sum[1] / (double)upper)};
    tg__floats_put(dst, level, 2);
    memset(dst + 8, 0, (m + 3) / 4);
    for (size_t i = 0; i < m; i++) {
        uint32_t above = a.of[i] >= mean, sign = sign_of(val[i]);
        dst[8 + i / 4] |= (uint8_t)((above << 1 | sign) << 2 * (i % 4));
        val[i] = tg__with_sign(level[above], sign);
    }
}

/* The end of the run that begins at i. */
static size_t run_end(const float *val, size_t k, size_t i)
{
    uint32_t m = tg__f32_magnitude(val[i]);
    while (i < k && tg__f32_magnitude(val[i]) == m)
        i++;
    return i;
}

static void write_level(const float *val, size_t k, uint8_t *dst)
{
    uint32_t runs = 0;
    for (size_t i = 0; i < k; runs++) {
        uint8_t *run = dst + 4 + TG__RUN_BYTES * (size_t)runs;
        tg__put32(run + 4, tg__f32_magnitude(val[i]));
        i = run_end(val, k, i);
        tg__put32(run, (uint32_t)i);
    }
    tg__put32(dst, runs);
    write_signs(val, k, dst + 4 + TG__RUN_BYTES * (size_t)runs);
}

/* ---- writing --------------------------------------------------------------------------------- */

size_t tg__values_len(int coding, const float *val, size_t k)
{
    if (coding != TG__VALUES_LEVEL)
        return tg__blocks_len(coding, k);
    size_t runs = 0;
    for (size_t i = 0; i < k; runs++)
        i = run_end(val, k, i);
    return tg__level_len(runs, k);
}

static void write_block(int coding, float *val, size_t m, uint8_t *dst)
{
    switch (coding) {
    case TG__VALUES_F32:
        tg__floats_put(dst, val, m);
        break;
    case TG__VALUES_FP16:
        tg__kernel()->f16_encode(dst, val, m);
        tg__kernel()->f16_decode(val, dst, m);
        break;
    case TG__VALUES_INT8:
        write_int8(val, m, dst);
        break;
    case TG__VALUES_4BIT:
        write_4bit(val, m, dst);
        break;
    case TG__VALUES_2BIT:
        write_2bit(val, m, dst);
        break;
    default:
        write_1bit(val, m, dst);
    }
}

void tg__values_write(int coding, float *val, size_t k, uint8_t *dst)
{
    if (coding == TG__VALUES_LEVEL) {
        if (dst)
            write_level(val, k, dst);
        return;
    }
    uint8_t unused[4 * TG__VALUES_BLOCK];
    for (size_t i = 0; i < k; i += TG__VALUES_BLOCK) {
        size_t m = TG__MIN(k - i, (size_t)TG__VALUES_BLOCK);
        write_block(coding, val + i, m, dst ? dst : unused);
        if (dst)
            dst += tg__values_block_len(coding, m);
    }
}

/* Values of sparse frames: how many bytes, writing, reading. */
#include "codec/sparse_values.h"
#include "base/mem.h"
#include "codec/codec_impl.h"
#include "kernel/kernel.h"
#include <float.h>
#include <math.h>
#include <string.h>

enum { BLOCK = TG__VALUES_BLOCK, RUN_BYTES = 8 };

/* What a block of each coding looks like: its scales, then `bits` for each value. */
static const struct {
    uint8_t scales, bits;
} shapes[TG__VALUES_LEVEL] = {{0, 32}, {0, 16}, {1, 8}, {1, 4}, {2, 2}, {1, 1}};

static size_t block_len(int coding, size_t m)
{
    return 4 * (size_t)shapes[coding].scales + (m * shapes[coding].bits + 7) / 8;
}

static uint32_t to_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float get_float(const uint8_t *src)
{
    float x;
    tg__floats_get(&x, src, 1);
    return x;
}

/* ---- integers times a scale ------------------------------------------------------------------ */

/* max|v| / top, or a little less where top * that would overflow. */
static float scale_for(const float *val, size_t m, float top)
{
    float scale = tg__kernel()->abs_max(val, m) / top;
    return scale * top > FLT_MAX ? nextafterf(scale, 0) : scale;
}

/* The codes, and val as it will be decoded. */
static void quantise(float *val, size_t m, float scale, float top, int8_t *code)
{
    const float magic = 0x1.8p23f; /* adding it rounds to integers, to even between two */
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
    int8_t code[BLOCK];
    float scale = scale_for(val, m, 127);
    quantise(val, m, scale, 127, code);
    tg__floats_put(dst, &scale, 1);
    memcpy(dst + 4, code, m);
}

static void write_4bit(float *val, size_t m, uint8_t *dst)
{
    int8_t code[BLOCK + 1];
    float scale = scale_for(val, m, 7);
    quantise(val, m, scale, 7, code);
    code[m] = 0;
    tg__floats_put(dst, &scale, 1);
    for (size_t i = 0; i < m; i += 2)
        dst[4 + i / 2] = (uint8_t)((code[i] & 15) | (code[i + 1] & 15) << 4);
}

/* ---- signs and levels ------------------------------------------------------------------------ */

/* Sum of those |v| that lie in [from, to), in f64 over 16 lanes; *count_p of them. */
static double sum_of(const float *val, size_t m, double from, double to, size_t *count_p)
{
    double lane[TG__LANES] = {0}, sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < m; i++) {
        double a = fabs((double)val[i]);
        bool in = a >= from && a < to;
        lane[i % TG__LANES] += in ? a : 0;
        count += in;
    }
    for (size_t l = 0; l < TG__LANES; l++)
        sum += lane[l];
    *count_p = count;
    return sum;
}

static float mean_of(const float *val, size_t m, double from, double to)
{
    size_t count;
    double sum = sum_of(val, m, from, to, &count);
    return count > 0 ? (float)(sum / (double)count) : 0;
}

static void write_signs(const float *val, size_t m, uint8_t *dst)
{
    memset(dst, 0, (m + 7) / 8);
    for (size_t i = 0; i < m; i++)
        dst[i / 8] |= (uint8_t)(signbit(val[i]) ? 1u << i % 8 : 0);
}

static void write_1bit(float *val, size_t m, uint8_t *dst)
{
    float level = mean_of(val, m, 0, INFINITY);
    tg__floats_put(dst, &level, 1);
    write_signs(val, m, dst + 4);
    for (size_t i = 0; i < m; i++)
        val[i] = copysignf(level, val[i]);
}

static void write_2bit(float *val, size_t m, uint8_t *dst)
{
    size_t count;
    double mean = sum_of(val, m, 0, INFINITY, &count) / (double)m;
    float level[2] = {mean_of(val, m, 0, mean), mean_of(val, m, mean, INFINITY)};
    tg__floats_put(dst, level, 2);
    memset(dst + 8, 0, (m + 3) / 4);
    for (size_t i = 0; i < m; i++) {
        unsigned upper = fabs((double)val[i]) >= mean, sign = signbit(val[i]) != 0;
        dst[8 + i / 4] |= (uint8_t)((upper << 1 | sign) << 2 * (i % 4));
        val[i] = copysignf(level[upper], val[i]);
    }
}

static uint32_t magnitude(float x)
{
    return to_bits(x) & UINT32_C(0x7fffffff);
}

/* Where the run that begins at i ends. */
static size_t run_end(const float *val, size_t k, size_t i)
{
    uint32_t m = magnitude(val[i]);
    while (i < k && magnitude(val[i]) == m)
        i++;
    return i;
}

static void write_level(const float *val, size_t k, uint8_t *dst)
{
    uint32_t runs = 0;
    for (size_t i = 0; i < k; runs++) {
        uint8_t *run = dst + 4 + RUN_BYTES * (size_t)runs;
        tg__put32(run + 4, magnitude(val[i]));
        i = run_end(val, k, i);
        tg__put32(run, (uint32_t)i);
    }
    tg__put32(dst, runs);
    write_signs(val, k, dst + 4 + RUN_BYTES * (size_t)runs);
}

/* ---- writing --------------------------------------------------------------------------------- */

static size_t level_len(size_t runs, size_t k)
{
    return 4 + RUN_BYTES * runs + (k + 7) / 8;
}

static size_t blocks_len(int coding, size_t k)
{
    size_t rest = k % BLOCK;
    return k / BLOCK * block_len(coding, BLOCK) + (rest > 0 ? block_len(coding, rest) : 0);
}

size_t tg__values_len(int coding, const float *val, size_t k)
{
    if (coding != TG__VALUES_LEVEL)
        return blocks_len(coding, k);
    size_t runs = 0;
    for (size_t i = 0; i < k; runs++)
        i = run_end(val, k, i);
    return level_len(runs, k);
}

static void write_half(float *val, size_t m, uint8_t *dst)
{
    uint16_t half[BLOCK];
    tg__kernel()->f16_encode(half, val, m);
    tg__kernel()->f16_decode(val, half, m);
    memcpy(dst, half, 2 * m); /* words are little-endian already */
}

static void write_block(int coding, float *val, size_t m, uint8_t *dst)
{
    switch (coding) {
    case TG__VALUES_F32:
        tg__floats_put(dst, val, m);
        break;
    case TG__VALUES_FP16:
        write_half(val, m, dst);
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
    uint8_t unused[4 * BLOCK];
    for (size_t i = 0; i < k; i += BLOCK) {
        size_t m = TG__MIN(k - i, (size_t)BLOCK);
        write_block(coding, val + i, m, dst ? dst : unused);
        if (dst)
            dst += block_len(coding, m);
    }
}

/* ---- checking -------------------------------------------------------------------------------- */

static tg_status bad(const char *what, size_t at)
{
    return tg_fail(TG_E_CORRUPT, "sparse frame: values from %zu on: %s", at, what);
}

/* Finite, and neither negative nor -0. */
static bool scale_ok(const uint8_t *src)
{
    return tg__get32(src) < UINT32_C(0x7f800000);
}

/* Bits from m * bits on are 0. */
static bool padding_ok(const uint8_t *codes, size_t m, unsigned bits)
{
    size_t used = m * bits % 8;
    return used == 0 || codes[m * bits / 8] >> used == 0;
}

static tg_status check_block(int coding, const uint8_t *src, size_t m, size_t at)
{
    const uint8_t *codes = src + 4 * (size_t)shapes[coding].scales;
    size_t len = (m * shapes[coding].bits + 7) / 8;
    for (size_t i = 0; i < shapes[coding].scales; i++)
        if (!scale_ok(src + 4 * i))
            return bad("a scale is negative or not finite", at);
    if (!padding_ok(codes, m, shapes[coding].bits))
        return bad("padding bits are not zero", at);
    unsigned worst = 0; /* whether a code is beyond its range */
    if (coding == TG__VALUES_INT8)
        for (size_t i = 0; i < len; i++)
            worst |= codes[i] == 0x80;
    if (coding == TG__VALUES_4BIT)
        for (size_t i = 0; i < len; i++)
            worst |= (codes[i] & 15) == 8 || codes[i] >> 4 == 8;
    if (worst)
        return bad("a code is beyond its range", at);
    if ((coding == TG__VALUES_INT8 || coding == TG__VALUES_4BIT) && tg__get32(src) == 0 &&
        !tg__all_zero(codes, len))
        return bad("codes without a scale", at);
    if (coding == TG__VALUES_2BIT) {
        size_t upper = 0;
        for (size_t i = 0; i < m; i++)
            upper += codes[i / 4] >> (2 * (i % 4) + 1) & 1;
        if (tg__get32(src) > tg__get32(src + 4) || upper == 0 ||
            (upper == m && tg__get32(src) != 0))
            return bad("levels that no values have", at);
    }
    return TG_OK;
}

static tg_status check_level(size_t k, const uint8_t *src, size_t runs)
{
    uint32_t end = 0, before = 0;
    for (size_t j = 0; j < runs; j++) {
        uint32_t to = tg__get32(src + 4 + RUN_BYTES * j), m = tg__get32(src + 8 + RUN_BYTES * j);
        if (to <= end || to > k)
            return bad("ends of runs do not ascend to k", end);
        if (m == 0 || m >= UINT32_C(0x7f800000))
            return bad("a magnitude is not positive and finite", end);
        if (m == before)
            return bad("two runs of the same magnitude follow each other", end);
        end = to;
        before = m;
    }
    if (end != k)
        return bad("runs end before k", end);
    return padding_ok(src + level_len(runs, 0), k, 1) ? TG_OK
                                                      : bad("padding bits are not zero", end);
}

/* Bytes that k values take, or SIZE_MAX if they do not fit into len. */
static size_t stated_len(int coding, size_t k, const uint8_t *src, size_t len)
{
    size_t used = SIZE_MAX;
    if (coding != TG__VALUES_LEVEL)
        used = blocks_len(coding, k);
    else if (len >= 4 && tg__get32(src) <= k)
        used = level_len(tg__get32(src), k);
    return used <= len ? used : SIZE_MAX;
}

tg_status tg__values_check(int coding, size_t k, const uint8_t *src, size_t len, size_t *used_p)
{
    if (coding < 0 || coding >= TG__VALUES_CODINGS)
        return tg_fail(TG_E_CORRUPT, "sparse frame: value coding=%d: known: 0..%d", coding,
                       TG__VALUES_CODINGS - 1);
    size_t used = stated_len(coding, k, src, len);
    if (used == SIZE_MAX)
        return tg_fail(TG_E_CORRUPT, "sparse frame: payload length=%zu: %zu values do not fit",
                       len + 4, k);
    if (coding == TG__VALUES_LEVEL) {
        TG_TRY(check_level(k, src, tg__get32(src)));
    } else if (shapes[coding].scales > 0) {
        for (size_t i = 0; i < k; i += BLOCK) {
            size_t m = TG__MIN(k - i, (size_t)BLOCK);
            TG_TRY(check_block(coding, src + i / BLOCK * block_len(coding, BLOCK), m, i));
        }
    }
    *used_p = used;
    return TG_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

void tg__values_begin(tg__values_reader *r, int coding, size_t k, const uint8_t *src, size_t len,
                      size_t *used_p)
{
    *r = (tg__values_reader){.src = src, .coding = coding, .k = k};
    *used_p = stated_len(coding, k, src, len);
    if (coding == TG__VALUES_LEVEL && *used_p != SIZE_MAX) {
        r->runs = tg__get32(src);
        r->signs = src + level_len(r->runs, 0);
    }
}

static void read_signs(const uint8_t *signs, size_t first, size_t m, float level, float *val)
{
    for (size_t i = 0; i < m; i++)
        val[i] = signs[(first + i) / 8] >> (first + i) % 8 & 1 ? -level : level;
}

static void read_level(tg__values_reader *r, float *val, size_t count)
{
    size_t at = r->done, stop = r->done + count;
    for (; at < stop && r->run < r->runs; r->run++) {
        const uint8_t *run = r->src + 4 + RUN_BYTES * r->run;
        size_t end = TG__MIN((size_t)tg__get32(run), stop);
        if (end > at) { /* always, unless the bytes changed after the check */
            read_signs(r->signs, at, end - at, get_float(run + 4), val + (at - r->done));
            at = end;
        }
        if (at == stop && tg__get32(run) > stop)
            break;
    }
    for (; at < stop; at++)
        val[at - r->done] = 0;
}

void tg__values_read(tg__values_reader *r, float *val, size_t count)
{
    if (r->coding == TG__VALUES_LEVEL) {
        read_level(r, val, count);
        r->done += count;
        return;
    }
    const uint8_t *src = r->src + r->done / BLOCK * block_len(r->coding, BLOCK);
    const uint8_t *codes = src + 4 * (size_t)shapes[r->coding].scales;
    float scale = shapes[r->coding].scales > 0 ? get_float(src) : 0;
    r->done += count;
    switch (r->coding) {
    case TG__VALUES_F32:
        tg__floats_get(val, src, count);
        break;
    case TG__VALUES_FP16: {
        uint16_t half[BLOCK];
        memcpy(half, src, 2 * count);
        tg__kernel()->f16_decode(val, half, count);
        break;
    }
    case TG__VALUES_INT8:
        for (size_t i = 0; i < count; i++)
            val[i] = (float)(int8_t)codes[i] * scale;
        break;
    case TG__VALUES_4BIT:
        for (size_t i = 0; i < count; i++)
            val[i] = (float)(((codes[i / 2] >> 4 * (i % 2) & 15) ^ 8) - 8) * scale;
        break;
    case TG__VALUES_2BIT: {
        float upper = get_float(src + 4), value[4] = {scale, -scale, upper, -upper};
        for (size_t i = 0; i < count; i++)
            val[i] = value[codes[i / 4] >> 2 * (i % 4) & 3];
        break;
    }
    default:
        read_signs(codes, 0, count, scale, val);
    }
}

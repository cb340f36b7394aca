/* Values of sparse frames: checking, reading. */
#include "codec/codec_impl.h"
#include "codec/sparse/sparse_shape.h"

/* ---- checking -------------------------------------------------------------------------------- */

static tg_status bad(const char *what, size_t at)
{
    return tg_fail(TG_E_CORRUPT, "sparse frame: values from %zu on: %s", at, what);
}

/* Finite, and neither negative nor -0. */
static bool scale_ok(const uint8_t *src)
{
    return tg__get32(src) < TG__F32_INF;
}

/* True if the bits from m * bits on are 0. */
static bool padding_ok(const uint8_t *codes, size_t m, unsigned bits)
{
    size_t used = m * bits % 8;
    return used == 0 || codes[m * bits / 8] >> used == 0;
}

static tg_status check_block(int coding, const uint8_t *src, size_t m, size_t at)
{
    const uint8_t *codes = src + 4 * (size_t)tg__shapes[coding].scales;
    size_t len = (m * tg__shapes[coding].bits + 7) / 8;
    for (size_t i = 0; i < tg__shapes[coding].scales; i++)
        if (!scale_ok(src + 4 * i))
            return bad("a scale is negative or not finite", at);
    if (!padding_ok(codes, m, tg__shapes[coding].bits))
        return bad("padding bits are not zero", at);
    unsigned worst = 0; /* not 0 if a code is out of range */
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
        uint32_t to = tg__get32(src + 4 + TG__RUN_BYTES * j),
                 m = tg__get32(src + 8 + TG__RUN_BYTES * j);
        if (to <= end || to > k)
            return bad("ends of runs do not ascend to k", end);
        if (m == 0 || m >= TG__F32_INF)
            return bad("a magnitude is not positive and finite", end);
        if (m == before)
            return bad("two runs of the same magnitude follow each other", end);
        end = to;
        before = m;
    }
    if (end != k)
        return bad("runs end before k", end);
    return padding_ok(src + tg__level_len(runs, 0), k, 1) ? TG_OK
                                                          : bad("padding bits are not zero", end);
}

/* Bytes that k values take; SIZE_MAX if they do not fit into len. */
static size_t stated_len(int coding, size_t k, const uint8_t *src, size_t len)
{
    size_t used = SIZE_MAX;
    if (coding != TG__VALUES_LEVEL)
        used = tg__blocks_len(coding, k);
    else if (len >= 4 && tg__get32(src) <= k)
        used = tg__level_len(tg__get32(src), k);
    return used <= len ? used : SIZE_MAX;
}

tg_status tg__values_check(int coding, size_t k, const uint8_t *src, size_t len, size_t *used_p)
{
    if (coding < 0 || coding >= TG__VALUES_CODINGS)
        return tg_fail(TG_E_CORRUPT, "sparse frame: value coding=%d: allowed: 0..%d", coding,
                       TG__VALUES_CODINGS - 1);
    size_t used = stated_len(coding, k, src, len);
    if (used == SIZE_MAX)
        return tg_fail(TG_E_CORRUPT, "sparse frame: payload length=%zu: too short for %zu values",
                       len + 4, k);
    if (coding == TG__VALUES_LEVEL) {
        TG_TRY(check_level(k, src, tg__get32(src)));
    } else if (tg__shapes[coding].scales > 0) {
        for (size_t i = 0; i < k; i += TG__VALUES_BLOCK) {
            size_t m = TG__MIN(k - i, (size_t)TG__VALUES_BLOCK);
            TG_TRY(check_block(
                coding, src + i / TG__VALUES_BLOCK * tg__values_block_len(coding, TG__VALUES_BLOCK),
                m, i));
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
        r->signs = src + tg__level_len(r->runs, 0);
    }
}

static float get_float(const uint8_t *src)
{
    float x;
    tg__floats_get(&x, src, 1);
    return x;
}

static void read_signs(const uint8_t *signs, size_t first, size_t m, float level, float *val)
{
    for (size_t i = 0; i < m; i++)
        val[i] = tg__with_sign(level, (uint32_t)signs[(first + i) / 8] >> (first + i) % 8 & 1);
}

static void read_level(tg__values_reader *r, float *val, size_t count)
{
    size_t at = r->done, stop = r->done + count;
    for (; at < stop && r->run < r->runs; r->run++) {
        const uint8_t *run = r->src + 4 + TG__RUN_BYTES * r->run;
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
    const uint8_t *src =
        r->src + r->done / TG__VALUES_BLOCK * tg__values_block_len(r->coding, TG__VALUES_BLOCK);
    const uint8_t *codes = src + 4 * (size_t)tg__shapes[r->coding].scales;
    float scale = tg__shapes[r->coding].scales > 0 ? get_float(src) : 0;
    r->done += count;
    switch (r->coding) {
    case TG__VALUES_F32:
        tg__floats_get(val, src, count);
        break;
    case TG__VALUES_FP16:
        tg__kernel()->f16_decode(val, src, count);
        break;
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

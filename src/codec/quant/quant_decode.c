/* The decoder, and the check before it. */
#include "base/mem.h"
#include "codec/quant/quant.h"
#include "codec/quant/quant_elias.h"
#include <string.h>

enum { BLOCK = TG__PACK_BLOCK };

static size_t units_bytes(const tg__frame *f, const tg__quant_layout *layout)
{
    return (f->n + layout->bucket - 1) / layout->bucket * TG__UNIT_BYTES;
}

static float unit_at(const tg__frame *f, const tg__quant_layout *layout, size_t at)
{
    return tg__quant_unit_get(f->payload + at / layout->bucket * TG__UNIT_BYTES);
}

static size_t chunks_of(size_t n)
{
    return (n + TG__CHUNK - 1) / TG__CHUNK;
}

/* ---- check ----------------------------------------------------------------------------------- */

static tg_status check_fixed(const char *name, const tg__frame *f, const tg__quant_layout *layout)
{
    const uint8_t *packed = f->payload + units_bytes(f, layout);
    size_t want = units_bytes(f, layout) + tg__packed_bytes(f->n, layout->width);
    if (f->payload_len != want)
        return tg_fail(TG_E_CORRUPT, "%s frame: payload length=%zu: must be %zu for n=%u", name,
                       f->payload_len, want, f->n);
    if (!tg__pack_clean(packed, f->n, layout->width))
        return tg_fail(TG_E_CORRUPT, "%s frame: the padding is not 0", name);
    for (size_t at = 0; at < f->n; at += layout->bucket) {
        size_t end = TG__MIN((size_t)f->n, at + layout->bucket);
        size_t lo = tg__packed_bytes(at, layout->width), hi = tg__packed_bytes(end, layout->width);
        float unit = unit_at(f, layout, at);
        if (!tg__quant_unit_valid(unit))
            return tg_fail(TG_E_CORRUPT,
                           "%s frame: unit=%g of bucket %zu: must be 0, or at least %g", name,
                           (double)unit, at / layout->bucket, (double)TG__UNIT_MIN);
        if (unit == 0 && !tg__all_zero(packed + lo, hi - lo))
            return tg_fail(TG_E_CORRUPT, "%s frame: unit=0 of bucket %zu: a code is not 0", name,
                           at / layout->bucket);
    }
    return TG_OK;
}

static bool elias_valid(const tg__frame *f, const tg__quant_layout *layout, size_t chunk,
                        const uint8_t *code, size_t len)
{
    size_t begin = chunk * TG__CHUNK;
    const int most = (1 << (layout->width - 1)) - 1;
    tg__elias e;
    bool valid = tg__elias_begin(&e, code, len, TG__MIN(f->n - begin, (size_t)TG__CHUNK));
    while (valid && e.place < e.m) {
        if (e.code > most || e.code < -most || unit_at(f, layout, begin + e.place) == 0)
            return false;
        valid = tg__elias_next(&e);
    }
    return valid;
}

static tg_status check_elias(const char *name, const tg__frame *f, const tg__quant_layout *layout)
{
    size_t units = units_bytes(f, layout), chunks = chunks_of(f->n), at = units + 4 * chunks;
    if (f->payload_len < at)
        return tg_fail(TG_E_CORRUPT, "%s frame: payload length=%zu: must be at least %zu for n=%u",
                       name, f->payload_len, at, f->n);
    for (size_t i = 0; i < f->n; i += layout->bucket)
        if (!tg__quant_unit_valid(unit_at(f, layout, i)))
            return tg_fail(TG_E_CORRUPT,
                           "%s frame: unit=%g of bucket %zu: must be 0, or at least %g", name,
                           (double)unit_at(f, layout, i), i / layout->bucket, (double)TG__UNIT_MIN);
    for (size_t i = 0; i < chunks; i++) {
        size_t len = tg__get32(f->payload + units + 4 * i);
        if (len > f->payload_len - at)
            return tg_fail(TG_E_CORRUPT, "%s frame: code length=%zu: only %zu bytes are left", name,
                           len, f->payload_len - at);
        if (!elias_valid(f, layout, i, f->payload + at, len))
            return tg_fail(TG_E_CORRUPT, "%s frame: code %zu is not a valid Elias code", name, i);
        at += len;
    }
    if (at != f->payload_len)
        return tg_fail(TG_E_CORRUPT, "%s frame: %zu bytes follow the codes", name,
                       f->payload_len - at);
    return TG_OK;
}

tg_status tg__quant_check(const tg__frame *f)
{
    const tg__quant_layout layout = tg__quant_layout_of(f);
    const bool int8 = f->codec == TG__ID_int8;
    if (int8 && f->aux != 0)
        return tg_fail(TG_E_CORRUPT, "int8 frame: aux=%#x: must be 0", f->aux);
    if (f->aux >> 8 != 0 || layout.width < 2 || layout.width > 8)
        return tg_fail(
            TG_E_CORRUPT,
            "qsgd frame: aux=%#x: the width is %u: must be 2 to 8, with an upper byte of 0", f->aux,
            layout.width);
    return (layout.elias ? check_elias : check_fixed)(int8 ? "int8" : "qsgd", f, &layout);
}

/* ---- decode ---------------------------------------------------------------------------------- */

typedef void decode_fn(float *dst, const int8_t *codes, size_t n, float unit);

static void decode_elias(const tg__frame *f, const tg__quant_layout *layout, size_t lo, size_t hi,
                         float *dst, decode_fn *put)
{
    const uint8_t *lengths = f->payload + units_bytes(f, layout);
    const uint8_t *code = lengths + 4 * chunks_of(f->n);
    for (size_t i = 0; i < lo / TG__CHUNK; i++)
        code += tg__get32(lengths + 4 * i);
    for (size_t begin = lo; begin < hi; begin += TG__CHUNK) {
        size_t len = tg__get32(lengths + begin / TG__CHUNK * 4);
        tg__elias e;
        bool valid = tg__elias_begin(&e, code, len, TG__MIN(hi - begin, (size_t)TG__CHUNK));
        for (size_t at = 0; at < e.m; at += BLOCK) {
            size_t m = TG__MIN(e.m - at, (size_t)BLOCK);
            int8_t codes[BLOCK] = {0};
            for (; valid && e.place < at + m; valid = tg__elias_next(&e))
                codes[e.place - at] = (int8_t)e.code;
            put(dst + begin + at, codes, m, unit_at(f, layout, begin + at));
        }
        code += len;
    }
}

void tg__quant_decode(const tg__frame *f, size_t lo, size_t hi, float *dst, bool add)
{
    const tg__quant_layout layout = tg__quant_layout_of(f);
    const tg__kernels *k = tg__kernel();
    decode_fn *put = add ? k->quant_decode_add : k->quant_decode;
    if (layout.elias) {
        decode_elias(f, &layout, lo, hi, dst, put);
        return;
    }
    const uint8_t *packed = f->payload + units_bytes(f, &layout);
    for (size_t at = lo; at < hi; at += BLOCK) {
        size_t m = TG__MIN(hi - at, (size_t)BLOCK);
        int8_t block[BLOCK];
        const int8_t *codes = (const int8_t *)packed + at;
        if (layout.width != 8) {
            k->unpack(block, packed + tg__packed_bytes(at, layout.width), m, layout.width);
            codes = block;
        }
        put(dst + at, codes, m, unit_at(f, &layout, at));
    }
}

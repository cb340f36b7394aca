/* Packed codes, the specification: see pack.h. */
#include "kernel/pack.h"
#include "kernel/element.h"
#include "kernel/variants.h"

static void pack(uint8_t *bytes, const int8_t *codes, size_t n, unsigned width)
{
    if (width == 8) {
        if (n > 0)
            memcpy(bytes, codes, n);
        return;
    }
    for (size_t begin = 0; begin < n; begin += TG__PACK_BLOCK) {
        size_t m = TG__MIN(n - begin, (size_t)TG__PACK_BLOCK);
        for (unsigned at = 0, w; at < width; at += w) {
            w = tg__plane_width(width, at);
            size_t group = TG__PACK_BLOCK / w;
            for (size_t e = 0; e < m; e += group)
                tg__group_put(bytes + e / group * 64, codes + begin + e, TG__MIN(m - e, group), w,
                              at);
            bytes += tg__plane_bytes(m, w);
        }
    }
}

static void unpack(int8_t *codes, const uint8_t *bytes, size_t n, unsigned width)
{
    if (n > 0 && width == 8)
        memcpy(codes, bytes, n);
    if (n == 0 || width == 8)
        return;
    memset(codes, 0, n);
    for (size_t begin = 0; begin < n; begin += TG__PACK_BLOCK) {
        size_t m = TG__MIN(n - begin, (size_t)TG__PACK_BLOCK);
        for (unsigned at = 0, w; at < width; at += w) {
            w = tg__plane_width(width, at);
            size_t group = TG__PACK_BLOCK / w;
            for (size_t e = 0; e < m; e += group)
                tg__group_get(codes + begin + e, bytes + e / group * 64, TG__MIN(m - e, group), w,
                              at);
            bytes += tg__plane_bytes(m, w);
        }
    }
    for (size_t i = 0; i < n; i++)
        codes[i] = tg__sign_extend(codes[i], width);
}

bool tg__pack_clean(const uint8_t *bytes, size_t n, unsigned width)
{
    size_t m = n % TG__PACK_BLOCK;
    if (width == 8 || m == 0)
        return true;
    bytes += tg__pack_bytes(n - m, width);
    for (unsigned at = 0, w; at < width; at += w) {
        w = tg__plane_width(width, at);
        size_t group = TG__PACK_BLOCK / w, last = m % group, words = tg__plane_words(last, w);
        const uint8_t *from = bytes + m / group * 64;
        for (size_t e = last; e < words * (32 / w); e++)
            if (tg__get32(from + 4 * (e % words)) >> w * (e / words) & ((1u << w) - 1))
                return false;
        bytes += tg__plane_bytes(m, w);
    }
    return true;
}

void tg__pack_ref(tg__kernels *table)
{
    table->pack = pack;
    table->unpack = unpack;
}

/* Packed codes, the specification: see pack.h. */
#include "kernel/pack.h"
#include "kernel/element.h"
#include "kernel/variants.h"

#define put_group(bytes, codes, w, at) tg__group_put(bytes, codes, group, w, at)
#define get_group(codes, bytes, w, at, last) tg__group_get(codes, bytes, group, w, at, last)

#include "kernel/pack_simd.h"

bool tg__pack_clean(const uint8_t *bytes, size_t n, unsigned width)
{
    size_t m = n % TG__PACK_BLOCK;
    if (width == 8 || m == 0)
        return true;
    bytes += tg__packed_bytes(n - m, width);
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
    fill(table);
}

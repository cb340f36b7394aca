/* 2-bit codes, the specification: code = +1 where the score s >= tau, -1 where s <= -tau, else 0,
 * as two bit planes; the remainder is p - tau * code. An element with code 0 keeps its bits. */
#include "kernel/simd_ref.h"
#include "kernel/twobit_planes.h"
#include "kernel/variants.h"

static inline vec code(vec s, vec p, vec tau, size_t j, planes *to)
{
    to->plus |= (uint64_t)(s >= tau) << j;
    to->minus |= (uint64_t)(s <= -tau) << j;
    return s >= tau ? p - tau : s <= -tau ? p + tau : p;
}

static inline vec decode_add_vec(vec x, vec tau, size_t j, uint64_t plus, uint64_t minus)
{
    return plus >> j & 1 ? x + tau : minus >> j & 1 ? x - tau : x;
}

static inline vec decode_vec(vec tau, size_t j, uint64_t plus, uint64_t minus)
{
    return plus >> j & 1 ? tau : minus >> j & 1 ? -tau : 0;
}

#include "kernel/twobit_simd.h"

static bool twobit_valid(const uint8_t *bytes, size_t n)
{
    bool wrong = false;
    for (size_t i = 0; i < n; i += 64, bytes += 16)
        wrong |= tg__twobit_wrong(bytes, TG__MIN(n - i, (size_t)64));
    return !wrong;
}

void tg__twobit_ref(tg__kernels *table)
{
    fill(table);
    table->twobit_valid = twobit_valid;
}

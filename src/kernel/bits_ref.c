/* Counts set bits, the specification. */
#include "base/mem.h"
#include "kernel/variants.h"

static size_t count_bits(const uint8_t *bytes, size_t len)
{
    size_t count = 0, i = 0;
    for (; i + 8 <= len; i += 8)
        count += (size_t)__builtin_popcountll(tg__get64(bytes + i));
    for (; i < len; i++)
        count += (size_t)__builtin_popcount(bytes[i]);
    return count;
}

void tg__bits_ref(tg__kernels *table)
{
    table->count_bits = count_bits;
}

/* Bits of a byte string with the CPU's own instruction (this file's flags have it): four counts at
 * once, as one after the other would wait for each other. */
#include "base/mem.h"
#include "kernel/variants.h"

static size_t count_bits(const uint8_t *bytes, size_t len)
{
    size_t count[4] = {0, 0, 0, 0}, i = 0;
    for (; i + 32 <= len; i += 32)
        for (size_t j = 0; j < 4; j++)
            count[j] += (size_t)__builtin_popcountll(tg__get64(bytes + i + 8 * j));
    for (; i < len; i++)
        count[0] += (size_t)__builtin_popcount(bytes[i]);
    return count[0] + count[1] + count[2] + count[3];
}

void tg__bits_avx2(tg__kernels *table)
{
    table->count_bits = count_bits;
}

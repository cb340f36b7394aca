/* Template: counts set bits, four counts at once, because each would otherwise wait for the
 * previous one (with the CPU's own instruction, enabled by the including file's flags). */

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

static void fill_bits(tg__kernels *table)
{
    table->count_bits = count_bits;
}

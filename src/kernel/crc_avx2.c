/* CRC-32C with the processor's instruction (SSE4.2). Each instruction waits for the previous one,
 * so three stretches of STRETCH bytes are computed in parallel and joined. The CRC register is
 * linear, hence crc(a b) = shift(crc(a)) xor crc(b), where shift is the effect of STRETCH zero
 * bytes, from a table. */
#include "kernel/variants.h"
#include <nmmintrin.h>
#include <string.h>

#define STRETCH ((size_t)2048)

static uint32_t shift_table[4][256];

static inline uint32_t step8(uint32_t crc, const uint8_t *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof(word));
    return (uint32_t)_mm_crc32_u64(crc, word);
}

static inline uint32_t shift(uint32_t crc)
{
    return shift_table[0][crc & 255] ^ shift_table[1][crc >> 8 & 255] ^
           shift_table[2][crc >> 16 & 255] ^ shift_table[3][crc >> 24];
}

static uint32_t crc32c(uint32_t crc, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    crc = ~crc;
    for (; len >= 3 * STRETCH; len -= 3 * STRETCH, p += 3 * STRETCH) {
        uint32_t second = 0, third = 0;
        for (size_t line = 0; line < STRETCH; line += 64) {
            if (len >= 6 * STRETCH) /* the access pattern defeats the hardware prefetcher */
                for (size_t j = 3; j < 6; j++)
                    _mm_prefetch((const char *)p + j * STRETCH + line, _MM_HINT_T0);
            for (size_t i = line; i < line + 64; i += 8) {
                crc = step8(crc, p + i);
                second = step8(second, p + STRETCH + i);
                third = step8(third, p + 2 * STRETCH + i);
            }
        }
        crc = shift(shift(crc) ^ second) ^ third;
    }
    for (; len >= 8; len -= 8, p += 8)
        crc = step8(crc, p);
    for (; len > 0; len--, p++)
        crc = _mm_crc32_u8(crc, *p);
    return ~crc;
}

void tg__crc_avx2(tg__kernels *table)
{
    for (uint32_t bit = 0; bit < 32; bit++) {
        uint32_t crc = UINT32_C(1) << bit;
        for (size_t i = 0; i < STRETCH; i += 8)
            crc = (uint32_t)_mm_crc32_u64(crc, 0);
        uint32_t own = UINT32_C(1) << bit % 8;
        for (uint32_t b = 0; b < 256; b++)
            if (b & own)
                shift_table[bit / 8][b] ^= crc;
    }
    table->crc32c = crc32c;
}

/* CRC-32C: remainder modulo the Castagnoli polynomial 0x1edc6f41, bits reflected, eight bytes at a
 * time ("slicing-by-8": Kounavis and Berry, "A systematic approach to building high performance
 * software-based CRC generators", ISCC 2005). slice[k][b] is the CRC of byte b followed by k
 * zeros. */
#include "base/mem.h"
#include "kernel/variants.h"

#define POLYNOMIAL UINT32_C(0x82f63b78) /* reflected */

static uint32_t slice[8][256];

static uint32_t crc32c(uint32_t crc, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    crc = ~crc;
    for (; len >= 8; len -= 8, p += 8) {
        uint32_t low = tg__get32(p) ^ crc, high = tg__get32(p + 4);
        crc = slice[7][low & 255] ^ slice[6][low >> 8 & 255] ^ slice[5][low >> 16 & 255] ^
              slice[4][low >> 24] ^ slice[3][high & 255] ^ slice[2][high >> 8 & 255] ^
              slice[1][high >> 16 & 255] ^ slice[0][high >> 24];
    }
    for (; len > 0; len--, p++)
        crc = slice[0][(crc ^ *p) & 255] ^ crc >> 8;
    return ~crc;
}

void tg__crc_ref(tg__kernels *table)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (POLYNOMIAL & (0 - (crc & 1)));
        slice[0][b] = crc;
    }
    for (int k = 1; k < 8; k++)
        for (uint32_t b = 0; b < 256; b++)
            slice[k][b] = slice[0][slice[k - 1][b] & 255] ^ slice[k - 1][b] >> 8;
    table->crc32c = crc32c;
}

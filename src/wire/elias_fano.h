/* The Elias-Fano code of ascending indices: see wire/index.h for the layout.
 *
 * Its length depends on n and k alone, so it is known before the indices are, and index i can be
 * found without those before it. Rice with as many low bits is never longer: AUTO has no use for
 * it.
 *
 * Source: Elias 1974, "Efficient storage and retrieval by content and address of static files";
 * Fano 1971 */
#ifndef TG_WIRE_ELIAS_FANO_H
#define TG_WIRE_ELIAS_FANO_H

#include "wire/index.h"

/* Bytes of the code of k of n. */
size_t tg__ef_len(size_t n, size_t k);

/* Write it: tg__ef_len bytes, nothing beyond is touched. */
void tg__ef_write(const uint32_t *idx, size_t k, size_t n, uint8_t *dst);

/* tg__index_read_begin's and tg__index_read's part for Elias-Fano. */
TG_NODISCARD tg_status tg__ef_begin(tg__index_reader *r);
TG_NODISCARD tg_status tg__ef_read(tg__index_reader *r, uint32_t *idx, size_t count);
TG_NODISCARD tg_status tg__ef_end(const tg__index_reader *r);

#endif

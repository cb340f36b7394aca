/* The Elias-Fano code of ascending indices: see wire/index.h for the layout.
 *
 * Its length depends only on n and k, so it is known before the indices are, and index i can be
 * found without reading those before it. Rice with as many low bits is never longer, so AUTO never
 * selects it.
 *
 * Source: Elias 1974, "Efficient storage and retrieval by content and address of static files";
 * Fano 1971 */
#ifndef TG_WIRE_ELIAS_FANO_H
#define TG_WIRE_ELIAS_FANO_H

#include "wire/index.h"

/* Bytes of the code of k of n. */
size_t tg__ef_len(size_t n, size_t k);

/* Write the code: exactly tg__ef_len bytes at dst. */
void tg__ef_write(const uint32_t *idx, size_t k, size_t n, uint8_t *dst);

/* The Elias-Fano cases of tg__index_read_begin and tg__index_read. */
TG_NODISCARD tg_status tg__ef_begin(tg__index_reader *r);
TG_NODISCARD tg_status tg__ef_read(tg__index_reader *r, uint32_t *idx, size_t count);
TG_NODISCARD tg_status tg__ef_end(const tg__index_reader *r);

#endif

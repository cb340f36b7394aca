/* The Golomb-Rice code of ascending indices: see wire/index.h for the layout. */
#ifndef TG_WIRE_RICE_H
#define TG_WIRE_RICE_H

#include "wire/index.h"

#define TG__RICE_PARAM_MAX 31

/* Return the parameter that gives the shortest code of idx (k >= 1, ascending, distinct, sum of
 * gaps < 2^32); *bits_p: that length in bits. */
int tg__rice_choose(const uint32_t *idx, size_t k, uint64_t *bits_p);

/* Write the code with parameter b: exactly len = ceil(bits / 8) bytes. */
void tg__rice_write(const uint32_t *idx, size_t k, int b, uint8_t *dst, size_t len);

/* The Rice cases of tg__index_read_begin and tg__index_read. */
TG_NODISCARD tg_status tg__rice_begin(const tg__index_reader *r);
TG_NODISCARD tg_status tg__rice_read(tg__index_reader *r, uint32_t *idx, size_t count);
TG_NODISCARD tg_status tg__rice_end(const tg__index_reader *r);

#endif

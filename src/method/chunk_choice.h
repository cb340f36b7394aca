/* Which chunks are exchanged: those of largest norm. */
#ifndef TG_METHOD_CHUNK_CHOICE_H
#define TG_METHOD_CHUNK_CHOICE_H

#include <stddef.h>
#include <stdint.h>

/* chosen (k) = the places of the k largest of norm (count), ascending; of equals the lower come
 * first. A norm that is NaN counts as infinite, one below 0 as 0, so that any bits give k places.
 * k <= count < 2^32. The arrays do not overlap.
 * Cost   five passes over the norms
 * Threads  pure function */
void tg__chunks_choose(const float *norm, size_t count, size_t k, uint32_t *chosen);

#endif

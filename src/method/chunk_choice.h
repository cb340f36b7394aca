/* Chooses the size of chunks, and the chunks to exchange: those with the largest norms. */
#ifndef TG_METHOD_CHUNK_CHOICE_H
#define TG_METHOD_CHUNK_CHOICE_H

#include <stddef.h>
#include <stdint.h>

/* The chunk size for a vector of n elements of which the fraction `density`, in (0, 1], is sent:
 * the largest power of two from 64 to 32,768 that makes at least 64 chunks and sends at least 4 of
 * them; 64 if none does. If only one chunk is sent at a time, the others wait long, and training
 * suffers; each chunk costs one norm per step. 32,768 is the paper's size, for tens of millions of
 * parameters.
 * Threads  pure function
 * Source   Sun et al. 2019, arXiv:1902.06855 */
size_t tg__chunk_for(size_t n, double density);

/* chosen (k) = the indices of the k largest of norm (count), ascending; among equals the lower come
 * first. A NaN counts as infinite, a negative norm as 0, so that any bits give k indices. k <=
 * count < 2^32. The arrays must not overlap.
 * Cost   five passes over the norms
 * Threads  pure function */
void tg__chunks_choose(const float *norm, size_t count, size_t k, uint32_t *chosen);

#endif

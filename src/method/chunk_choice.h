/* How large chunks are, and which of them are exchanged: those of largest norm. */
#ifndef TG_METHOD_CHUNK_CHOICE_H
#define TG_METHOD_CHUNK_CHOICE_H

#include <stddef.h>
#include <stdint.h>

/* Elements of a chunk that suit a vector of n of which the fraction `density`, in (0, 1], is sent:
 * the largest power of two, 64 to 32,768, that makes at least 64 chunks and sends at least 4 of
 * them; 64 if none does. If only one goes at a time the others wait for long, and training suffers;
 * each chunk costs a norm a step. 32,768 is the paper's, for tens of millions of parameters.
 * Threads  pure function
 * Source   Sun et al. 2019, arXiv:1902.06855 */
size_t tg__chunk_for(size_t n, double density);

/* chosen (k) = the places of the k largest of norm (count), ascending; of equals the lower come
 * first. A norm that is NaN counts as infinite, one below 0 as 0, so that any bits give k places.
 * k <= count < 2^32. The arrays do not overlap.
 * Cost   five passes over the norms
 * Threads  pure function */
void tg__chunks_choose(const float *norm, size_t count, size_t k, uint32_t *chosen);

#endif

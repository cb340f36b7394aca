/* Large dense messages are cut into slices: the vector into pieces, each exchanged by an object of
 * its own, several under way at once. So an exchange of higher priority waits for one slice, never
 * for a whole message, and the rounds of one piece run beside those of the next.
 *
 * Source: slices as the unit of preemption: Jayarajan et al. 2019 (P3), arXiv:1905.03960, sec. 4.2;
 *         Peng et al. 2019 (ByteScheduler), SOSP. */
#ifndef TG_SLICED_H
#define TG_SLICED_H

#include "exchange/exchange.h"

/* A message's payload at most, until TG__SLICES of them are not enough. P3 found 50,000 parameters
 * (200 kB) best at 1 to 10 Gbit/s; at 20 Mbit/s this many bytes take 52 ms, and an envelope is 0.04
 * % of them. */
#define TG__SLICE_BYTES ((size_t)128 << 10)
#define TG__SLICES 64u /* what an envelope and a tag can name */
/* Slices of one exchange under way at once. The next is begun when the lowest is finished on this
 * rank, so the lowest of all ranks is under way on all of them, and nobody waits in a circle. */
#define TG__SLICES_OPEN 8u

/* How many slices an exchange of n elements has that takes `frame` bytes for the whole vector
 * (dense f32 or not), and so many rounds. 1: it is not cut; nor is one with more rounds than a tag
 * holds, which count on in slices. */
uint32_t tg__slice_count(int size, size_t n, double frame, unsigned rounds);

/* As tg__exchange_create, which decides by the two of these how to make it.
 * whole: in one piece. sliced: count pieces, at least 2; only where ops->sliceable, the combine is
 * the mean and the codec's elements do not depend on each other. */
TG_NODISCARD tg_status tg__whole_create(const tg__exchange_ops *ops, int rank, int size, size_t n,
                                        tg_codec *codec, const tg__combine *combine,
                                        tg__exchange **x_p);
TG_NODISCARD tg_status tg__sliced_create(const tg__exchange_ops *ops, int rank, int size, size_t n,
                                         tg_codec *codec, uint32_t count, tg__exchange **x_p);

#endif

/* Slices: large dense vectors are cut into pieces, each exchanged by an object of its own, with
 * several in flight at once. So an exchange of higher priority waits for a slice, never for a whole
 * message, and the rounds of one piece overlap those of the next.
 *
 * Source: slices as the unit of preemption: Jayarajan et al. 2019 (P3), arXiv:1905.03960, sec. 4.2;
 *         Peng et al. 2019 (ByteScheduler), SOSP. */
#ifndef TG_SLICED_H
#define TG_SLICED_H

#include "exchange/exchange.h"

/* Largest payload of a message, unless that takes more than TG__SLICES slices. P3 found 50,000
 * parameters (200 kB) best at 1 to 10 Gbit/s. At 20 Mbit/s, 128 KiB take 52 ms, and an envelope
 * adds 0.04 %. */
#define TG__SLICE_BYTES ((size_t)128 << 10)
#define TG__SLICES 64u /* the largest number that envelopes and tags can hold */
/* Slices of an exchange in flight at once. The next one starts when the lowest has finished on this
 * rank. So the lowest slice of all ranks is in flight on all of them, and there is no deadlock. */
#define TG__SLICES_OPEN 8u

/* The number of slices of an exchange; 1: it is not cut. Exchanges with more rounds than a tag can
 * number are not cut, because their rounds continue in the slice number.
 * n      elements
 * frame  bytes of the whole vector, dense f32 or coded */
uint32_t tg__slice_count(int size, size_t n, double frame, unsigned rounds);

/* tg__exchange_create with a given number of slices. More than 1 require ops->sliceable, the mean
 * as combine, and a codec whose elements do not depend on each other. */
TG_NODISCARD tg_status tg__slices_create(const tg__exchange_ops *ops, int rank, int size,
                                         int servers, size_t n, tg_codec *codec,
                                         const tg__combine *combine, uint32_t slices,
                                         tg__exchange **x_p);
/* Its step for more than one: x->ops are those of the slices, and change. */
TG_NODISCARD tg_status tg__sliced_init(tg__exchange *x, uint32_t count);

#endif

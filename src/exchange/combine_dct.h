/* The mean of dct frames, computed from the sum of their coefficients. x->segments are the tensors.
 * Only exchanges that have all frames at hand can use it, because its `add` leaves coefficients. */
#ifndef TG_COMBINE_DCT_H
#define TG_COMBINE_DCT_H

#include "exchange/exchange.h"

extern const tg__combine tg__combine_dct;

#endif

/* TernGrad's program: agree on a scaler for each tensor, then exchange codes.
 *
 *   round 0   s of each tensor, clipped      all-gather, combined by the maximum
 *   round 1   codes in units of s            the method's exchange
 *
 * With scaler=local there is only round 1; a dense step is one dense exchange. */
#ifndef TG_SHARED_SCALE_PROGRAM_H
#define TG_SHARED_SCALE_PROGRAM_H

#include "method/method.h"

extern const tg__program_ops tg__shared_scale_program;

#endif

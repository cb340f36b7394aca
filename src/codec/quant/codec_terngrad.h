/* The part of the codec that TernGrad's program uses, and the keys of both. */
#ifndef TG_CODEC_TERNGRAD_H
#define TG_CODEC_TERNGRAD_H

#include "telegrad/codec.h"
#include "base/keys.h"

/* clip * sigma, the bound at which elements of x (n) are clipped on either side of 0. sigma is
 * their standard deviation, sqrt(mean((x - mean(x))^2)), as in the paper and its authors' code; it
 * is not the root mean square, which is larger if the mean is not 0. So a tensor whose mean exceeds
 * clip * sigma is clipped below its mean. The result is infinite (nothing is clipped) for clip 0,
 * and if all elements are equal, as in a tensor of one element: clipped to 0, it would never be
 * sent. NaN unless x is finite. */
float tg__terngrad_limit(const float *x, size_t n, double clip);

#define TG__TERNGRAD_KEYS                                                                      \
    TG__KEY(REAL, "clip", "2.5", 0, 1e30,                                                      \
            "clip elements to this many standard deviations of their tensor; 0: no clipping"), \
        TG__CHOICE("rounds", "7", "7|10", "rounds of the random number generator Philox4x32")

#endif

/* The part of the codec that TernGrad's program uses, and the keys of both. */
#ifndef TG_CODEC_TERNGRAD_H
#define TG_CODEC_TERNGRAD_H

#include "telegrad/codec.h"
#include "telegrad/spec.h"

/* clip * sigma, the bound at which elements of x (n) are clipped on either side of 0. sigma is
 * their standard deviation, sqrt(mean((x - mean(x))^2)), as in the paper and its authors' code; it
 * is not the root mean square, which is larger if the mean is not 0. So a tensor whose mean exceeds
 * clip * sigma is clipped below its mean. The result is infinite (nothing is clipped) for clip 0,
 * and if all elements are equal, as in a tensor of one element: clipped to 0, it would never be
 * sent. NaN unless x is finite. */
float tg__terngrad_limit(const float *x, size_t n, double clip);

#define TG__TERNGRAD_KEYS                                                                       \
    {.name = "clip",                                                                            \
     .type = TG_KEY_REAL,                                                                       \
     .def = "2.5",                                                                              \
     .min = 0,                                                                                  \
     .max = 1e30,                                                                               \
     .help = "clip elements to this many standard deviations of their tensor; 0: no clipping"}, \
    {                                                                                           \
        .name = "rounds", .type = TG_KEY_CHOICE, .def = "7", .choices = "7|10",                 \
        .help = "rounds of the random number generator Philox4x32"                              \
    }

#endif

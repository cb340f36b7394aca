/* What TernGrad's program needs of its codec, and the keys that both have. */
#ifndef TG_CODEC_TERNGRAD_H
#define TG_CODEC_TERNGRAD_H

#include "telegrad/codec.h"
#include "telegrad/spec.h"

/* clip * sigma, where elements of x (n) are cut on either side of 0. sigma is their standard
 * deviation, sqrt(mean((x - mean(x))^2)), as in the paper and its authors' code: not the root of
 * the mean square, which is larger where the mean is not 0. So a tensor whose mean is beyond
 * clip * sigma is cut to less than its mean. Infinity (nothing is cut) for clip 0, and where all
 * elements are equal, as in a tensor of one element: cut at 0 it would never be sent. NaN unless x
 * is finite. */
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

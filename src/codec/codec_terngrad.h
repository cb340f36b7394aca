/* What TernGrad's program needs of its codec, and the keys that both have. */
#ifndef TG_CODEC_TERNGRAD_H
#define TG_CODEC_TERNGRAD_H

#include "telegrad/codec.h"

/* clip * sigma of x (n), where sigma is the root of the mean square: a gradient's mean is taken as
 * 0. Infinity for clip 0. */
float tg__terngrad_limit(const float *x, size_t n, double clip);

#define TG__TERNGRAD_KEYS                                                                       \
    {.name = "clip",                                                                            \
     .type = TG_KEY_REAL,                                                                       \
     .def = "2.5",                                                                              \
     .min = 0,                                                                                  \
     .max = 1e30,                                                                               \
     .help = "elements beyond this many standard deviations of their tensor are cut; 0: none"}, \
    {                                                                                           \
        .name = "rounds", .type = TG_KEY_CHOICE, .def = "7", .choices = "7|10",                 \
        .help = "of the random generator Philox4x32"                                            \
    }

#endif

/* QSGD's keys, shared by codec and method. */
#ifndef TG_CODEC_QSGD_H
#define TG_CODEC_QSGD_H

#include "telegrad/spec.h"

#define TG__QSGD_KEYS                                                                            \
    {.name = "bits",                                                                             \
     .type = TG_KEY_INT,                                                                         \
     .def = "4",                                                                                 \
     .min = 2,                                                                                   \
     .max = 8,                                                                                   \
     .help = "bits per code, including its sign"},                                               \
        {.name = "bucket",                                                                       \
         .type = TG_KEY_INT,                                                                     \
         .def = "512",                                                                           \
         .min = 512,                                                                             \
         .max = 65536,                                                                           \
         .help = "elements that share a norm; a power of two"},                                  \
        {.name = "norm",                                                                         \
         .type = TG_KEY_CHOICE,                                                                  \
         .def = "max",                                                                           \
         .choices = "max|l2",                                                                    \
         .help = "the norm that the levels divide: max as in the paper's experiments, l2 as in " \
                 "its theory, which is sparser and has more variance"},                          \
        {.name = "levels",                                                                       \
         .type = TG_KEY_INT,                                                                     \
         .def = "0",                                                                             \
         .min = 0,                                                                               \
         .max = 127,                                                                             \
         .help = "levels above 0, at most 2^(bits-1)-1; 0: that many"},                          \
        {.name = "coding",                                                                       \
         .type = TG_KEY_CHOICE,                                                                  \
         .def = "fixed",                                                                         \
         .choices = "fixed|elias",                                                               \
         .help = "elias: codes of variable length, if that is smaller"},                         \
    {                                                                                            \
        .name = "rounds", .type = TG_KEY_CHOICE, .def = "7", .choices = "7|10",                  \
        .help = "rounds of the random number generator Philox4x32"                               \
    }

#endif

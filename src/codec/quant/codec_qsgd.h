/* QSGD's keys, shared by codec and method. */
#ifndef TG_CODEC_QSGD_H
#define TG_CODEC_QSGD_H

#include "base/keys.h"

#define TG__QSGD_KEYS                                                                              \
    TG__KEY(INT, "bits", "4", 2, 8, "bits per code, including its sign"),                          \
        TG__KEY(INT, "bucket", "512", 512, 65536, "elements that share a norm; a power of two"),   \
        TG__CHOICE("norm", "max", "max|l2",                                                        \
                   "the norm that the levels divide: max as in the paper's experiments, l2 as in " \
                   "its theory, which is sparser and has more variance"),                          \
        TG__KEY(INT, "levels", "0", 0, 127, "levels above 0, at most 2^(bits-1)-1; 0: that many"), \
        TG__CHOICE("coding", "fixed", "fixed|elias",                                               \
                   "elias: codes of variable length, if that is smaller"),                         \
        TG__CHOICE("rounds", "7", "7|10", "rounds of the random number generator Philox4x32")

#endif

/* Entries of a list of keys (tg_key), by type. */
#ifndef TG_BASE_KEYS_H
#define TG_BASE_KEYS_H

#include "telegrad/spec.h"
#include <math.h>

/* A key of type TG_KEY_<TYPE>. usual is its default, as text; NULL: none. least and most are its
 * range. The help comes last; other members may follow it: .min_open = true */
#define TG__KEY(TYPE, key, usual, least, most, ...)                                  \
    {                                                                                \
        .name = key, .type = TG_KEY_##TYPE, .def = usual, .min = least, .max = most, \
        .help = __VA_ARGS__                                                          \
    }
/* words: "auto|rice|raw" */
#define TG__CHOICE(key, usual, words, text) \
    TG__KEY(CHOICE, key, usual, 0, 0, text, .choices = words)
#define TG__FLAG(key, usual, text) TG__KEY(FLAG, key, usual, 0, 0, text)
/* A duration of any length. */
#define TG__DURATION(key, usual, ...) TG__KEY(DURATION, key, usual, 0, INFINITY, __VA_ARGS__)

#endif

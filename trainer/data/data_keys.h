/* Keys that several data sets have. */
#ifndef TG_TRAIN_DATA_KEYS_H
#define TG_TRAIN_DATA_KEYS_H

#include "telegrad/spec.h"

#define DATA_AUGMENT_KEY(otherwise)                                                              \
    {                                                                                            \
        .name = "augment", .type = TG_KEY_CHOICE, .def = otherwise, .choices = "none|crop-flip", \
        .help = "crop-flip: random crops of the image within 4 zeros on all sides, half of "     \
                "them mirrored"                                                                  \
    }

#endif

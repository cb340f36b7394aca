/* The codes of a block as bit planes, for the instruction sets whose comparisons give bits. */
#ifndef TG_KERNEL_TWOBIT_PLANES_H
#define TG_KERNEL_TWOBIT_PLANES_H

#include "kernel/element.h"

typedef struct planes {
    uint64_t plus, minus;
} planes;

static inline void planes_clear(planes *to)
{
    *to = (planes){0, 0};
}

static inline void planes_put(uint8_t *bytes, size_t m, const planes *from)
{
    tg__twobit_put(bytes, m, from->plus, from->minus);
}

#endif

/* Checks of the arguments of public functions. */
#ifndef TG_BASE_ARG_H
#define TG_BASE_ARG_H

#include "telegrad/base.h"

/* Refuse a NULL argument of a public function. ptr has the name that the header uses:
 * "tg_reducer_mean: g is NULL". */
#define TG__ARG(ptr)                                                    \
    do {                                                                \
        if ((ptr) == NULL)                                              \
            return tg_fail(TG_E_ARG, "%s: %s is NULL", __func__, #ptr); \
    } while (0)

#endif

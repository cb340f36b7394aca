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
/* The same for several, in this order: TG__ARGS(g, n_p). Not for pointers to functions. */
#define TG__ARGS(...) \
    TG_TRY(tg__check_args(__func__, #__VA_ARGS__, (const void *const[]){__VA_ARGS__}))
TG_NODISCARD tg_status tg__check_args(const char *call, const char *names, const void *const *ptr);

/* True if two ranges of memory have a byte in common. */
static inline bool tg__overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes)
{
    const uintptr_t p = (uintptr_t)a, q = (uintptr_t)b;
    return p < q ? q - p < a_bytes && b_bytes > 0 : p - q < b_bytes && a_bytes > 0;
}

#endif

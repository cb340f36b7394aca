/* Argument checks of the compatible layouts. */
#ifndef TG_CODEC_COMPAT_CHECK_H
#define TG_CODEC_COMPAT_CHECK_H

#include "telegrad/codec.h"
#include <math.h>

/* Errors TG_E_ARG */
static inline tg_status tg__compat_check(const char *what, size_t n, float threshold)
{
    if (n > TG_MAX_ELEMENTS)
        return tg_fail(TG_E_ARG, "%s: n=%zu: at most %zu", what, n, TG_MAX_ELEMENTS);
    if (!(threshold > 0) || !isfinite(threshold))
        return tg_fail(TG_E_ARG, "%s: threshold=%g: must be > 0 and finite", what,
                       (double)threshold);
    return TG_OK;
}
#endif

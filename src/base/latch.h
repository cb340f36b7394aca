/* A latch keeps the first failure, with its text, while other calls go on and may fail, too. */
#ifndef TG_BASE_LATCH_H
#define TG_BASE_LATCH_H

#include "telegrad/base.h"

#include <stdio.h>

/* Zero it before use. */
typedef struct tg__latch {
    tg_status status; /* TG_OK: nothing has failed */
    char error[1024];
} tg__latch;

/* Record a failure, with tg_error() as its text. Only the first one counts: returns false for any
 * other, and for TG_OK. */
static inline bool tg__latch_set(tg__latch *l, tg_status status)
{
    if (l->status != TG_OK || status == TG_OK)
        return false;
    l->status = status;
    snprintf(l->error, sizeof l->error, "%s", tg_error());
    return true;
}

/* Return TG_OK or the failure, whose text is then in tg_error(). */
static inline tg_status tg__latch_get(const tg__latch *l)
{
    return l->status == TG_OK ? TG_OK : tg_fail(l->status, "%s", l->error);
}

#endif

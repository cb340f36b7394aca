#include "codec/segments.h"

#include <stdio.h>

static tg_status check_begin(const char *what, const tg_segment *s, size_t i, size_t at)
{
    char end[64] = "where the vector begins";
    if (s->begin == at)
        return TG_OK;
    if (i > 0)
        snprintf(end, sizeof end, "where segments[%zu] ends", i - 1);
    return tg_fail(TG_E_ARG, "%ssegments[%zu].begin=%zu: allowed: %zu, %s", what, i, s->begin, at,
                   end);
}

tg_status tg__segments_check(const char *what, const tg_segment *segments, size_t count, size_t n,
                             size_t least)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const tg_segment *s = &segments[i];
        if (at == n && least > 0)
            return tg_fail(TG_E_ARG,
                           "%ssegments[%zu] is one too many: those before it cover all %zu "
                           "elements",
                           what, i, n);
        TG_TRY(check_begin(what, s, i, at));
        if (s->n < least || s->n > n - at)
            return tg_fail(TG_E_ARG, "%ssegments[%zu].n=%zu: allowed: %zu to %zu", what, i, s->n,
                           least, n - at);
        if (s->n > 0 && (s->rows == 0 || s->n % s->rows != 0 || s->n / s->rows != s->cols))
            return tg_fail(TG_E_ARG,
                           "%ssegments[%zu]: rows=%zu, cols=%zu: allowed: rows * cols = n, which "
                           "is %zu",
                           what, i, s->rows, s->cols, s->n);
        at += s->n;
    }
    return at == n ? TG_OK
                   : tg_fail(TG_E_ARG, "%ssegments end at element %zu: allowed: n, which is %zu",
                             what, at, n);
}

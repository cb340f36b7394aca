/* Times far ahead: the longest timeouts are over at the end of time, not in the past. */
#ifndef TG_BASE_TIME_AFTER_H
#define TG_BASE_TIME_AFTER_H

#include <stdint.h>

/* span_ns (at least 0) after a time, or INT64_MAX. */
static inline int64_t tg__time_after(int64_t ns, int64_t span_ns)
{
    return ns > INT64_MAX - span_ns ? INT64_MAX : ns + span_ns;
}

#endif

#include "command/bench/bench_args.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Read a number that ends at a comma or at the end of the text. Returns false if it is not a number
 * in range. */
static bool take_number(const char **text, double min, double max, double *v_p)
{
    char *end = NULL;
    errno = 0;
    *v_p = strtod(*text, &end);
    bool good =
        end != *text && errno == 0 && (*end == '\0' || *end == ',') && *v_p >= min && *v_p <= max;
    *text = end;
    return good;
}

tg_status bench_args_real(const char *name, const char *text, double min, double max, double *v_p)
{
    const char *at = text;
    double v;
    if (!take_number(&at, min, max, &v) || *at != '\0')
        return tg_fail(TG_E_SPEC, "--%s \"%.64s\": allowed: %g to %g", name, text, min, max);
    *v_p = v;
    return TG_OK;
}

tg_status bench_args_list(const char *name, const char *text, size_t min, size_t max, size_t room,
                          size_t *list, size_t *count_p)
{
    const char *at = text;
    for (size_t count = 0;; at++) {
        double n;
        if (count == room || !take_number(&at, (double)min, (double)max, &n) || n != floor(n)) {
            const char *example = min <= 1000000 && max >= 1000000 ? ", e.g. 1000000 or 1e6" : "";
            return room == 1
                       ? tg_fail(TG_E_SPEC,
                                 "--%s \"%.64s\": allowed: a whole number from %zu to %zu%s", name,
                                 text, min, max, example)
                       : tg_fail(
                             TG_E_SPEC,
                             "--%s \"%.64s\": allowed: whole numbers from %zu to %zu%s, at most "
                             "%zu of them, separated by commas",
                             name, text, min, max, example, room);
        }
        list[count++] = (size_t)n;
        if (*at == '\0') {
            *count_p = count;
            return TG_OK;
        }
    }
}

tg_status bench_args_compare(const char *text)
{
    return strcmp(text, "torch") == 0
               ? TG_OK
               : tg_fail(TG_E_SPEC, "--compare \"%.64s\": allowed: torch", text);
}

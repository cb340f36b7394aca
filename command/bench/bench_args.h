/* Values of the options of `telegrad bench`. `name` is the option's name, for messages.
 * Errors TG_E_SPEC: names the value and what is allowed */
#ifndef TG_CLI_BENCH_ARGS_H
#define TG_CLI_BENCH_ARGS_H

#include "telegrad/base.h"

/* A number from min to max. */
TG_NODISCARD tg_status bench_args_real(const char *name, const char *text, double min, double max,
                                       double *v_p);
/* Read integers from min to max, separated by commas; `list` has room for `room` of them. */
TG_NODISCARD tg_status bench_args_list(const char *name, const char *text, size_t min, size_t max,
                                       size_t room, size_t *list, size_t *count_p);
/* Check a value of --compare. */
TG_NODISCARD tg_status bench_args_compare(const char *text);

#endif

/* --optimizer, and --lr, the shorthand for its learning rate. */
#ifndef TG_CLI_OPTIMIZER_OPTION_H
#define TG_CLI_OPTIMIZER_OPTION_H

#include "command/job/options.h"

#define OPTIMIZER_OPTION_TEXT 512

/* Combine both into a valid spec string: the optimizer as given, or the one named `usual`, with the
 * rate. "": neither was given. Errors TG_E_SPEC: not a rate, or the optimizer already has another
 * one */
TG_NODISCARD tg_status optimizer_option_join(const struct run_options *o, const char *usual,
                                             char text[OPTIMIZER_OPTION_TEXT]);

#endif

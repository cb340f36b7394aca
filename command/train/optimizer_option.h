/* --optimizer and --lr, the short way to its learning rate. */
#ifndef TG_CLI_OPTIMIZER_OPTION_H
#define TG_CLI_OPTIMIZER_OPTION_H

#include "command/job/options.h"

#define OPTIMIZER_OPTION_TEXT 512

/* What both say together as a spec string that parses: the optimizer as given, or sgd, with the
 * rate. "": neither was given. Errors TG_E_SPEC: no rate, or the optimizer has another one */
TG_NODISCARD tg_status optimizer_option_join(const struct run_options *o,
                                             char text[OPTIMIZER_OPTION_TEXT]);

#endif

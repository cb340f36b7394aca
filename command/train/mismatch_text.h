/* Ranks that were started with different options, and checkpoints of other ones: names the options,
 * not the library's settings. */
#ifndef TG_CLI_MISMATCH_TEXT_H
#define TG_CLI_MISMATCH_TEXT_H

#include "telegrad/base.h"

/* If status is TG_E_MISMATCH, write the message of tg_error() anew. Returns status. */
tg_status mismatch_text(tg_status status);

#endif

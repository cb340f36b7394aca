/* The mode of a parameter server, as an option gives it. */
#ifndef TG_CLI_SERVER_MODE_H
#define TG_CLI_SERVER_MODE_H

#include "telegrad/base.h"

/* Check the name of the mode in --`option` `text`; its keys are checked when a server is created.
 * names    the allowed modes, "a|b"
 * Errors TG_E_SPEC: the message suggests the nearest name, and lists all */
TG_NODISCARD tg_status server_mode_check(const char *option, const char *text, const char *names);

#endif

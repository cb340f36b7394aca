/* The mode of a parameter server, as an option gives it. */
#ifndef TG_CLI_SERVER_MODE_H
#define TG_CLI_SERVER_MODE_H

#include "telegrad/base.h"

enum { SERVER_MODE_TEXT = 400 }; /* bytes of a mode in its normal form */

/* The text with the mode's own name in place of MXNet's: dist_sync is sync, dist_async async. Other
 * texts as they are. Points into `text`. */
const char *server_mode_own(const char *text);

/* Check the name of the mode in --`option` `text`; its keys are checked when a server is created.
 * names    the allowed modes, "a|b"
 * Errors TG_E_SPEC: the message suggests the nearest name, and lists all */
TG_NODISCARD tg_status server_mode_check(const char *option, const char *text, const char *names);

/* What telegrad serve tells those who call: "OPTIMIZER --mode MODE [--deadline TIME]". All servers
 * of a job must tell the same.
 * deadline_s  0: none */
void server_mode_tell(char *text, size_t room, const char *optimizer, const char *mode,
                      double deadline_s);
/* Bytes of the optimizer in it, at the beginning. */
size_t server_mode_optimizer(const char *told);
/* Check that a server has the mode that its worker expects, however it is written.
 * server  its number
 * told    what it has told
 * Errors  TG_E_SPEC (expected), TG_E_MISMATCH: the message names both */
TG_NODISCARD tg_status server_mode_expect(int server, const char *told, const char *expected);

#endif

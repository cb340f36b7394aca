/* Who has which address, where it does not come from a meeting point that everybody was told of:
 * from a list of all ranks, or from a store of the caller's. Both lead to the meeting point, rank
 * 0, which then does the rest.
 *
 * In the store: "telegrad/JOB/0" is "KEY MACHINE ADDRESS ADDRESS ...", where rank 0 may be reached;
 * "telegrad/JOB/R" is the key of rank R. KEY is "-" without keys, MACHINE in hexadecimal. */
#ifndef TG_NET_DIRECTORY_H
#define TG_NET_DIRECTORY_H

#include "net/membership.h"

#define TG__PLACES 8 /* addresses of the meeting point that are tried in turn */

/* Check what config says of it, and fill in what follows from it: who is the meeting point, where
 * to listen, whose keys are right.
 * own     the config to go by, a copy of the caller's
 * Errors  TG_E_ARG, TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status tg__directory_open(tg_net *n, tg_net_config *own);
/* After this rank listens: tell the store. Does nothing without one.
 * Errors  those of the store */
TG_NODISCARD tg_status tg__directory_publish(tg_net *n);
/* Set n->meeting to the address where the meeting point is tried in this turn; n->meeting_turn says
 * which of its host's addresses.
 * Errors  those of the store; as tg__net_patience while rank 0 has not come */
TG_NODISCARD tg_status tg__directory_find(tg_net *n, int turn);
/* The meeting point: ask the store for keys that are not known yet, now and then.
 * Errors  those of the store; TG_E_CORRUPT (what is in it is no key) */
TG_NODISCARD tg_status tg__directory_refresh(tg_net *n);
/* The same for one rank, whether its key is known or not, and at once. Does nothing without
 * a store.
 * Errors  as above */
TG_NODISCARD tg_status tg__directory_ask(tg_net *n, int rank);
/* The key that a rank must have; NULL: it is not known. */
const tg__public_key *tg__directory_key(const tg_net *n, int rank);
/* Check the roster against the list of addresses or of keys, and take addresses from the former.
 * Errors  TG_E_MISMATCH */
TG_NODISCARD tg_status tg__directory_check_roster(tg_net *n);
void tg__directory_close(tg_net *n);

#endif

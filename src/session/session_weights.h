/* The session's weights as a file that others can read: what saving and loading share. */
#ifndef TG_SESSION_WEIGHTS_H
#define TG_SESSION_WEIGHTS_H

#include "session/session_impl.h"
#include "state/weights_impl.h"

/* Whether the caller's array holds the global weights of t, and not this rank's own. */
bool tg__session_is_global(const tg_session *s, const tensor *t);
/* Whether t differs from rank to rank, so that each rank's file holds it: what is not global, and
 * with exchange=none everything. */
bool tg__session_is_own(const tg_session *s, const tensor *t);
/* All tensors into the checkpoint under way in dir, by one rank, during an evaluation. Errors
 * TG_E_IO, TG_E_ARG (names), TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_write_weights(const tg_session *s, const char *dir,
                                                 tg__weights_mark *mark_p);
/* Fill the tensors that are global; all or none. Errors TG_E_MISMATCH */
TG_NODISCARD tg_status tg__session_read_weights(tg_session *s, const tg_weights *w);

/* Copy config's metadata. Errors TG_E_ARG (not NAME=TEXT, a name that is taken), TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_copy_metadata(tg_session *s, const tg_session_config *config);
void tg__session_free_metadata(tg_session *s);

#endif

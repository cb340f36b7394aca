/* The session's weights as a file that other programs can read; shared by saving and loading. */
#ifndef TG_SESSION_WEIGHTS_H
#define TG_SESSION_WEIGHTS_H

#include "session/session_impl.h"
#include "state/weights_impl.h"

/* True if the caller's array holds the global weights of t, not this rank's own. */
bool tg__session_is_global(const tg_session *s, const tensor *t);
/* True if t differs between ranks, so that each rank's file holds it: if it is not global, and
 * always with exchange=none. */
bool tg__session_is_own(const tg_session *s, const tensor *t);
/* Write all tensors into the checkpoint that is being saved in dir. One rank calls it, during an
 * evaluation.
 * Errors  TG_E_IO, TG_E_ARG (names), TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_write_weights(const tg_session *s, const char *dir,
                                                 tg__weights_mark *mark_p);
/* Fill the global tensors; on an error none is changed.
 * Errors  TG_E_MISMATCH */
TG_NODISCARD tg_status tg__session_read_weights(tg_session *s, const tg_weights *w);

/* Copy the metadata of config.
 * Errors  TG_E_ARG (not NAME=TEXT, a name that is taken), TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_copy_metadata(tg_session *s, const tg_session_config *config);
void tg__session_free_metadata(tg_session *s);

#endif

/* The contents of a checkpoint, apart from slots; shared by saving and loading. */
#ifndef TG_SESSION_CKPT_H
#define TG_SESSION_CKPT_H

#include "session/session_impl.h"
#include "state/weights_impl.h"

/* The header of an exchange in flight; its aggregate follows. */
typedef struct tg__inbox_head {
    uint64_t of_step, due, order;
    double lr, density, eta;
    uint32_t bucket, lane, flags, coded, tag, update, owes, unused;
    uint64_t coded_bytes;
} tg__inbox_head;

typedef struct tg__counters {
    uint64_t t, skipped, order, in_flight, steps_per_epoch, drained, anew, lost;
    double lr;
    int32_t world, rank;
} tg__counters;

#define TG__SECTION_EPOCHS "epoch_shift" /* int64_t, tg__epochs; only if not 0 */
#define TG__LINE_NODES "nodes="          /* part of the identity, if there are two levels */

/* The text that a checkpoint and a job must have in common; release it with free(). World and rank
 * are compared separately. NULL: out of memory. */
char *tg__session_identity(const tg_session *s);

/* Complete what is in flight, before it is saved. (session_save.c) */
TG_NODISCARD tg_status tg__session_settle_flight(tg_session *s);
/* Write everything that this rank's file has. whole: all parameters, also those that the weights'
 * file has. (session_save.c) */
TG_NODISCARD tg_status tg__session_put_all(tg_session *s, tg__ckpt_writer *w, bool whole,
                                           const void *extra, size_t len);
/* Look into what is to be loaded, as tg__session_look does; open what an old rank saved in memory;
 * and load it. (session_inmemory.c, session_load.c) */
TG_NODISCARD tg_status tg__session_look_memory(tg_session *s);
TG_NODISCARD tg_status tg__session_open_image(const tg_session *s, int rank, tg__ckpt_reader **r_p);
TG_NODISCARD tg_status tg__session_look_into(tg_session *s, tg__ckpt_reader *r);
/* w NULL: r is whole */
TG_NODISCARD tg_status tg__session_get_all(tg_session *s, tg__ckpt_reader *r, const tg_weights *w);
/* Check that all ranks have loaded the same weights, by their hash. */
TG_NODISCARD tg_status tg__session_same_weights(tg_session *s, uint64_t hash);

/* The section name of an exchange in flight. what: "head", "aggregate" or "owed". */
void tg__inbox_name(char name[64], uint64_t number, const char *what);
/* Load an exchange in flight, without applying it.
 * Errors  TG_E_CORRUPT, TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_get_inbox(tg_session *s, tg__ckpt_reader *r,
                                             const tg__counters *c, uint64_t number, lane_op **o_p);
/* Load the caller's bytes, and the counters. (session_load.c) */
TG_NODISCARD tg_status tg__session_get_extra(tg_session *s, tg__ckpt_reader *r);
void tg__session_take_counters(tg_session *s, const tg__counters *c);

/* Was it saved by another number of ranks? */
static inline bool tg__session_taken_over(const tg_session *s)
{
    return s->from.ranks != 0 && s->from.ranks != s->transport->size;
}
/* Load the checkpoint of step s->from.step, which s->from.ranks ranks saved, with another number of
 * ranks: everything except the methods' exchanges. Parameters change only on success.
 * (session_takeover.c)
 * dir     NULL: s->from.image
 * w       the checkpoint's weights; NULL: rank 0's file is whole
 * Errors  TG_E_IO (a rank's file is missing), TG_E_CORRUPT, TG_E_MISMATCH, TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_take_over(tg_session *s, const char *dir, const tg_weights *w);
/* After that, and once all ranks have done so: let state of single ranks change hands.
 * (session_load.c) */
TG_NODISCARD tg_status tg__session_settle_takeover(tg_session *s);

/* ---- what servers have (session_servers.c) --------------------------------------------------- */

/* Between steps, on all ranks: rank 0 gets what servers have into s->states. Does nothing without
 * servers.
 * Errors  on all ranks: TG_E_UNSUPPORTED (servers whose ranks do not meet), TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_fetch_states(tg_session *s);
/* After any load: rank 0 gives servers what it has in s->states, and all ranks get the parameters
 * that servers keep.
 * Errors  on all ranks: TG_E_MISMATCH (servers of another kind), TG_E_VERSION (the checkpoint has
 *         nothing of servers that keep parameters), TG_E_CORRUPT, TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_give_states(tg_session *s);
void tg__session_drop_states(tg_session *s);
/* Write s->states, and what methods tell servers next. */
TG_NODISCARD tg_status tg__session_put_states(tg_session *s, tg__ckpt_writer *w);
/* first: r is rank 0's file, and this is rank 0, which needs the servers' states. */
TG_NODISCARD tg_status tg__session_get_states(tg_session *s, tg__ckpt_reader *r, bool first);

/* ---- weights, as a file that other programs can read (session_weights.c) --------------------- */

/* True if the caller's array holds the global weights of t, not this rank's own. */
bool tg__session_is_global(const tg_session *s, const tensor *t);
/* True if t differs between ranks, so that each rank's file holds it: if it is not global, and
 * always with exchange=none. */
bool tg__session_is_own(const tg_session *s, const tensor *t);
/* Write all tensors into the checkpoint that is being saved in dir. One rank calls it, during an
 * evaluation.
 * Errors  TG_E_IO, TG_E_ARG (names), TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_write_file(const tg_session *s, const char *path);
TG_NODISCARD tg_status tg__session_write_weights(const tg_session *s, const char *dir,
                                                 tg__weights_mark *mark_p);
/* Write all tensors to final.safetensors of the checkpoint of this step in dir, unless
 * model.safetensors holds the same. One rank calls it, during an evaluation.
 * Errors  TG_E_STATE (no such checkpoint), TG_E_IO, TG_E_NOMEM, those of tg_weights_open */
TG_NODISCARD tg_status tg__session_write_final(const tg_session *s, const char *dir);
/* Hash all tensors of a file.
 * Errors  TG_E_MISMATCH, TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_hash_weights(const tg_session *s, const tg_weights *w,
                                                uint64_t *hash_p);
/* Fill the global tensors; on an error none is changed.
 * Errors  TG_E_MISMATCH */
TG_NODISCARD tg_status tg__session_read_weights(tg_session *s, const tg_weights *w);

/* Copy the metadata of config.
 * Errors  TG_E_ARG (not NAME=TEXT, a name that is taken), TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_copy_metadata(tg_session *s, const tg_session_config *config);

#endif

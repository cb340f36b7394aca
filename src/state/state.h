/* State lives in slots keyed (tensor, role, name). Whoever needs memory between steps asks for
 * slots; the session or the reducer owns and saves them, so that a checkpoint is complete by
 * construction. */
#ifndef TG_STATE_H
#define TG_STATE_H

#include "telegrad/base.h"

struct tg__weights_mark; /* weights_impl.h */

typedef enum tg__role {
    TG__ROLE_RANK = 0,      /* differs from rank to rank: residuals */
    TG__ROLE_OWNER = 1,     /* kept by the owner of a block */
    TG__ROLE_LEADER = 2,    /* kept by a group's leader */
    TG__ROLE_SERVER = 3,    /* kept by a parameter server */
    TG__ROLE_REPLICATED = 4 /* the same bits on all ranks */
} tg__role;

/* What becomes of a slot when the world size changes from P to P' (takeover.h):
 *
 *   REPLICATED  rank 0's
 *   OWNER       pieces of one vector, which are cut anew
 *   RANK, LEADER
 *       SUM, MEAN  vectors of f32: the weighted mean of those of the old ranks that this one takes
 *                  over, so that the mean over all ranks stays, and the sum becomes P'/P times the
 *                  old one
 *       COPY       that of the first of these ranks */
typedef enum tg__rescale {
    TG__RESCALE_COPY = 0,
    TG__RESCALE_SUM = 1, /* pending gradient, and what becomes of it */
    TG__RESCALE_MEAN = 2 /* a strategy's: parameters, their changes, an optimizer's memory */
} tg__rescale;

/* Threads: one state, writer or reader must not be used by two threads at the same time. */
typedef struct tg__state tg__state;
/* Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__state_create(tg__state **s_p);
void tg__state_destroy(tg__state *s); /* and all slots; NULL is fine */

/* One contiguous zeroed block of f32, a slot for each of count tensors (n[i] elements, one after
 * the other without gaps, aligned to 64 bytes at its start). tensor[i] are names (copied). (tensor,
 * role, name) must be new. The block lives as long as s. On failure no slot of it exists.
 * Errors TG_E_NOMEM, TG_E_STATE (slot exists) */
TG_NODISCARD tg_status tg__state_block(tg__state *s, tg__role role, tg__rescale rescale,
                                       const char *name, const char *const *tensor, const size_t *n,
                                       size_t count, float **data_p);
/* Of the block made last, whose role is OWNER: tensor i's slot is the piece of the tensor that
 * begins at element at[i] (count of that block). In the order of ranks, pieces are whole tensors.
 */
void tg__state_pieces(tg__state *s, const size_t *at, size_t count);
/* A slot of raw bytes (counters, an inbox): zeroed, aligned to 64 bytes. data_p: address of a
 * pointer of any type. Errors as above */
TG_NODISCARD tg_status tg__state_bytes(tg__state *s, tg__role role, tg__rescale rescale,
                                       const char *tensor, const char *name, size_t len,
                                       void *data_p);

/* ---- checkpoint file ------------------------------------------------------------------------- */

/* Named sections, each with a CRC-32C, written aside and renamed. Its layout: checkpoint.h */

typedef struct tg__ckpt_writer tg__ckpt_writer;
/* identity: text that a reader must present to be let in (model, method, strategy, world, rank),
 * one "name value" a line.
 * Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status tg__ckpt_create(const char *path, const char *identity,
                                       tg__ckpt_writer **w_p);
/* section: a new name, not empty, not "identity", not beginning with "slot:". Bytes are written at
 * once.
 * Errors TG_E_ARG (name), TG_E_IO, TG_E_NOMEM; after a failure commit fails too */
TG_NODISCARD tg_status tg__ckpt_put(tg__ckpt_writer *w, const char *section, const void *bytes,
                                    size_t len);
TG_NODISCARD tg_status tg__ckpt_put_state(tg__ckpt_writer *w, const tg__state *s); /* every slot */
/* Flush, sync, rename; frees w. On failure nothing is left behind.
 * Errors TG_E_IO, or that of the put that failed */
TG_NODISCARD tg_status tg__ckpt_commit(tg__ckpt_writer *w);
void tg__ckpt_abandon(tg__ckpt_writer *w); /* removes what was written; NULL is fine */

typedef struct tg__ckpt_reader tg__ckpt_reader;
/* Reads and verifies the whole file before anything is handed out.
 * Errors TG_E_IO, TG_E_CORRUPT (naming the section), TG_E_VERSION, TG_E_NOMEM,
 *        TG_E_MISMATCH (identity: says the first line that differs, both values) */
TG_NODISCARD tg_status tg__ckpt_open(const char *path, const char *identity, tg__ckpt_reader **r_p);
/* The same of bytes (len) in memory, aligned to 8, borrowed until close; path is for messages.
 * identity NULL: any */
TG_NODISCARD tg_status tg__ckpt_parse(const void *bytes, size_t len, const char *path,
                                      const char *identity, tg__ckpt_reader **r_p);
/* Whether the file is of the job that `identity` describes, but for lines that begin with `except`
 * (NULL: none). Errors TG_E_MISMATCH as above */
TG_NODISCARD tg_status tg__ckpt_check(const tg__ckpt_reader *r, const char *identity,
                                      const char *except);
/* The identity's line that begins with `start`, without its end; length 0: there is none. */
const char *tg__ckpt_identity_line(const tg__ckpt_reader *r, const char *start, size_t *len_p);
bool tg__ckpt_has(const tg__ckpt_reader *r, const char *section);
/* The section's bytes (owned by r, aligned to 8). Errors TG_E_CORRUPT if it is missing or has
 * another length; len SIZE_MAX: any. len_p may be NULL */
TG_NODISCARD tg_status tg__ckpt_get(tg__ckpt_reader *r, const char *section, size_t len,
                                    const void **bytes_p, size_t *len_p);
/* Fill every slot of s. The sets of slots and their sizes must be equal. All or nothing.
 * Errors TG_E_MISMATCH, naming the slot */
TG_NODISCARD tg_status tg__ckpt_get_state(tg__ckpt_reader *r, tg__state *s);
void tg__ckpt_close(tg__ckpt_reader *r); /* NULL is fine */

/* ---- checkpoint directory -------------------------------------------------------------------- */

/* DIR/step-<12 digits>/rank-<4 digits>.tg, and the global weights beside them in model.safetensors;
 * complete when DIR/step-.../COMMIT exists, which holds the size and the check sum of the weights.
 * All ranks see one DIR. Until the commit everything is in DIR/step-N.tmp, which nobody reads. */

/* DIR/step-N.tmp/rank-R.tg to write to (directories are made; an old .tmp of the same step is
 * reused).
 * Errors TG_E_ARG (step >= 10^12, rank > 9999), TG_E_SPACE (cap), TG_E_IO, TG_E_STATE (DIR holds a
 *        committed step beyond this one: it is another run's, and would be taken for the newest) */
TG_NODISCARD tg_status tg__ckpt_dir_prepare(const char *dir, uint64_t step, int rank, char *path,
                                            size_t cap);
/* DIR/step-N.tmp/model.safetensors to write to, when some rank has prepared. Errors as above */
TG_NODISCARD tg_status tg__ckpt_dir_weights_aside(const char *dir, uint64_t step, char *path,
                                                  size_t cap);
/* By one rank when all `ranks` have written: remove other ranks' files that a crashed save of this
 * step left, COMMIT, rename, sync, then drop all but the newest two and what other crashed saves
 * left. A committed checkpoint of the same step is replaced. mark: of the weights. Errors TG_E_ARG,
 * TG_E_SPACE, TG_E_IO; trouble in dropping old ones is only logged */
TG_NODISCARD tg_status tg__ckpt_dir_commit(const char *dir, uint64_t step, int ranks,
                                           const struct tg__weights_mark *mark);
/* The newest committed step in dir.
 * Errors TG_E_IO (no such directory, or none committed: names what was found) */
TG_NODISCARD tg_status tg__ckpt_dir_latest(const char *dir, uint64_t *step_p);
/* DIR/step-N/rank-R.tg. Errors TG_E_ARG, TG_E_SPACE */
TG_NODISCARD tg_status tg__ckpt_dir_path(const char *dir, uint64_t step, int rank, char *path,
                                         size_t cap);
/* DIR/step-N/model.safetensors. Errors TG_E_ARG, TG_E_SPACE */
TG_NODISCARD tg_status tg__ckpt_dir_weights(const char *dir, uint64_t step, char *path, size_t cap);
/* What COMMIT says of it. Errors TG_E_IO, TG_E_CORRUPT, TG_E_VERSION (format 1: no weights apart)
 */
TG_NODISCARD tg_status tg__ckpt_dir_mark(const char *dir, uint64_t step,
                                         struct tg__weights_mark *mark_p);

#endif

/* State lives in slots with the key (tensor, role, name). Code that needs memory between steps
 * requests slots. The session or the reducer owns and saves them, so a checkpoint is complete by
 * construction.
 *
 * Threads  a state, writer or reader must not be used by two threads at the same time */
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

/* What a slot becomes when the number of ranks changes from P to P' (takeover.h):
 *
 *   REPLICATED     that of rank 0
 *   OWNER          pieces of one vector, which is cut again
 *   RANK, LEADER
 *       SUM, MEAN  vectors of f32: the weighted mean over the old ranks that this one takes over.
 *                  The mean over all ranks is preserved, and the sum becomes P'/P times the old one
 *       COPY       that of the first of these ranks */
typedef enum tg__rescale {
    TG__RESCALE_COPY = 0,
    TG__RESCALE_SUM = 1, /* pending gradients, and vectors derived from them */
    TG__RESCALE_MEAN = 2 /* of strategies: parameters, their changes, an optimizer's memory */
} tg__rescale;

typedef struct tg__state tg__state;
/* Create an empty state.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__state_create(tg__state **s_p);
void tg__state_destroy(tg__state *s); /* also frees all slots; NULL is fine */

/* Create a block of slots: contiguous zeroed f32, aligned to 64 bytes at its start. It lives as
 * long as s. On failure, none of its slots is created.
 * tensor  (count) names, copied; (tensor, role, name) must be new
 * n       (count) elements of each slot; they follow each other without gaps
 * Errors  TG_E_NOMEM, TG_E_STATE (a slot exists) */
TG_NODISCARD tg_status tg__state_block(tg__state *s, tg__role role, tg__rescale rescale,
                                       const char *name, const char *const *tensor, const size_t *n,
                                       size_t count, float **data_p);
/* For the last block created, whose role is OWNER: state which piece of its tensor each slot is.
 * The pieces of all ranks, in order of ranks, make up whole tensors.
 * at  (count of that block) the element at which the piece of tensor i begins */
void tg__state_pieces(tg__state *s, const size_t *at, size_t count);
/* Create a slot of raw bytes (counters, an inbox), zeroed and aligned to 64 bytes.
 * data_p  [out] address of a pointer of any type
 * Errors  as above */
TG_NODISCARD tg_status tg__state_bytes(tg__state *s, tg__role role, tg__rescale rescale,
                                       const char *tensor, const char *name, size_t len,
                                       void *data_p);

/* A slot, to be shown to a reducer's caller. */
typedef struct tg__slot_view {
    const char *tensor, *name; /* not terminated: their lengths follow */
    int tensor_len, name_len;
    const char *role, *rule;
    void *data;
    size_t len, at; /* bytes; see tg__state_pieces */
} tg__slot_view;
size_t tg__state_count(const tg__state *s);
tg__slot_view tg__state_view(const tg__state *s, size_t i);
/* Multiply all vectors that hold pending gradients (SUM), or that an owner keeps. */
void tg__state_scale(tg__state *s, double factor);

/* ---- checkpoint file ------------------------------------------------------------------------- */

/* A file of named sections, each with a CRC-32C. It is written under another name and then renamed.
 * checkpoint.h has its layout. */

typedef struct tg__ckpt_writer tg__ckpt_writer;
/* Begin to write a file.
 * path      NULL: in memory
 * identity  text that a reader must match (model, method, strategy, tensors): lines
 *           "key=value"
 * Errors    TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status tg__ckpt_create(const char *path, const char *identity,
                                       tg__ckpt_writer **w_p);
/* Write a section at once.
 * section  a new name; not empty, not "identity", and not beginning with "slot:"
 * Errors   TG_E_ARG (the name), TG_E_IO, TG_E_NOMEM. After a failure commit fails, too */
TG_NODISCARD tg_status tg__ckpt_put(tg__ckpt_writer *w, const char *section, const void *bytes,
                                    size_t len);
TG_NODISCARD tg_status tg__ckpt_put_state(tg__ckpt_writer *w, const tg__state *s); /* every slot */
/* Flush, sync and rename the file; free w. On failure nothing is left behind.
 * Errors  TG_E_IO, or that of the put that failed */
TG_NODISCARD tg_status tg__ckpt_commit(tg__ckpt_writer *w);
/* The same for one in memory: its bytes (len), to be released with free().
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__ckpt_commit_memory(tg__ckpt_writer *w, void **bytes_p, size_t *len_p);
void tg__ckpt_abandon(tg__ckpt_writer *w); /* removes what was written; NULL is fine */

typedef struct tg__ckpt_reader tg__ckpt_reader;
/* Read a file and verify all of it.
 * Errors  TG_E_IO, TG_E_CORRUPT (names the section), TG_E_VERSION, TG_E_NOMEM,
 *         TG_E_MISMATCH (identity: names the first line that differs, with both values) */
TG_NODISCARD tg_status tg__ckpt_open(const char *path, const char *identity, tg__ckpt_reader **r_p);
/* The same for a file in memory.
 * bytes     (len) aligned to 8; borrowed until close
 * path      for messages
 * identity  NULL: any */
TG_NODISCARD tg_status tg__ckpt_parse(const void *bytes, size_t len, const char *path,
                                      const char *identity, tg__ckpt_reader **r_p);
/* Check that the file belongs to the job that `identity` describes.
 * except  ignore lines that begin with this; NULL: none
 * Errors  TG_E_MISMATCH, as above */
TG_NODISCARD tg_status tg__ckpt_check(const tg__ckpt_reader *r, const char *identity,
                                      const char *except);
/* The line of the identity that begins with `start`, without its newline; length 0 if there is
 * none. */
const char *tg__ckpt_identity_line(const tg__ckpt_reader *r, const char *start, size_t *len_p);
bool tg__ckpt_has(const tg__ckpt_reader *r, const char *section);
/* The bytes of a section; owned by r, aligned to 8.
 * len     the expected length; SIZE_MAX: any
 * len_p   [out] NULL: not wanted
 * Errors  TG_E_CORRUPT (missing, or of another length) */
TG_NODISCARD tg_status tg__ckpt_get(tg__ckpt_reader *r, const char *section, size_t len,
                                    const void **bytes_p, size_t *len_p);
/* Copy a section of len bytes to dst.
 * Errors  as above */
TG_NODISCARD tg_status tg__ckpt_read(tg__ckpt_reader *r, const char *section, void *dst,
                                     size_t len);
/* Fill every slot of s. The file must have the same slots with the same sizes; on an error none is
 * changed.
 * Errors  TG_E_MISMATCH (names the slot) */
TG_NODISCARD tg_status tg__ckpt_get_state(tg__ckpt_reader *r, tg__state *s);
void tg__ckpt_close(tg__ckpt_reader *r); /* NULL is fine */

/* ---- checkpoint directory -------------------------------------------------------------------- */

/* DIR/step-<12 digits>/    complete once COMMIT exists
 *     rank-<4 digits>.tg   of each rank
 *     model.safetensors    the global weights
 *     COMMIT               size and checksum of the weights
 * Ranks that see the same DIR write one such folder together; every DIR has the weights. Until the
 * commit everything is in DIR/step-N.tmp, which nobody reads. */

/* The files of weights in a checkpoint: what a resumed run needs, and, if they differ, the weights
 * of the finished run, with everything applied that was in flight. */
typedef enum tg__weights_which { TG__WEIGHTS_SAVED, TG__WEIGHTS_FINAL } tg__weights_which;

/* The path DIR/step-N.tmp/rank-R.tg to write to. Directories are created; an old .tmp of the same
 * step is reused.
 * left_behind  later steps up to this one are known: not all ranks had them when this run resumed
 * Errors  TG_E_ARG (step >= 10^12, rank > 9999, dir is empty or too long for cap), TG_E_IO,
 *         TG_E_STATE (DIR has another later committed step: it belongs to another run, and would be
 *         taken for the newest) */
TG_NODISCARD tg_status tg__ckpt_dir_prepare(const char *dir, uint64_t step, uint64_t left_behind,
                                            int rank, char *path, size_t cap);
/* Make a committed checkpoint of this step, which was left behind, an unfinished one, before any
 * rank commits the step again: with those of the others the old one would be a mixture.
 * Errors  TG_E_IO, TG_E_ARG */
TG_NODISCARD tg_status tg__ckpt_dir_revoke(const char *dir, uint64_t step);
/* Who shares a folder: after preparing, each rank puts up a sign with a number that no other save
 * has; once all have done so, a rank that sees it is in the same folder. The commit removes them.
 * Errors  TG_E_IO, TG_E_ARG */
TG_NODISCARD tg_status tg__ckpt_dir_sign(const char *dir, uint64_t step, int rank, uint64_t number);
bool tg__ckpt_dir_sees(const char *dir, uint64_t step, int rank, uint64_t number);
/* The path DIR/step-N.tmp/model.safetensors to write to, after some rank has prepared.
 * Errors  as above */
TG_NODISCARD tg_status tg__ckpt_dir_weights_aside(const char *dir, uint64_t step, char *path,
                                                  size_t cap);
/* Commit a checkpoint. In each folder one rank calls it, when all have written:
 * 1. remove signs, and what a crashed save of this step left;
 * 2. write COMMIT, rename, sync; a committed checkpoint of the same step is replaced.
 * writers  (ranks) for each rank the one that commits its folder
 * writer   this rank
 * mark     of the weights
 * Errors   TG_E_ARG, TG_E_IO */
TG_NODISCARD tg_status tg__ckpt_dir_commit(const char *dir, uint64_t step, int ranks,
                                           const int *writers, int writer,
                                           const struct tg__weights_mark *mark);
/* After the commit of `step` in all folders: remove later steps up to left_behind, all but the last
 * two, and what crashed saves of earlier steps left. Failures are only logged. */
void tg__ckpt_dir_prune(const char *dir, uint64_t step, uint64_t left_behind);
#define TG__CKPT_STEPS 8
/* The newest committed steps in dir, newest first; at least one.
 * tells   log newer folders, which are not read: with TG_LOG_WARN if one has no COMMIT, with
 *         TG_LOG_INFO if a save did not end
 * Errors  TG_E_IO (no such directory, or nothing committed: names what was found) */
TG_NODISCARD tg_status tg__ckpt_dir_steps(const char *dir, bool tells,
                                          uint64_t steps[TG__CKPT_STEPS], size_t *count_p);
TG_NODISCARD tg_status tg__ckpt_dir_latest(const char *dir, bool tells, uint64_t *step_p);
/* Add to the error of reading dir/step-N, if that is damaged, the newest older checkpoint there and
 * how to use it. Returns `status`. */
tg_status tg__ckpt_dir_advise(const char *dir, uint64_t step, tg_status status);
/* The path DIR/step-N/rank-R.tg.
 * Errors  TG_E_ARG */
TG_NODISCARD tg_status tg__ckpt_dir_path(const char *dir, uint64_t step, int rank, char *path,
                                         size_t cap);
/* The path of a file of weights.
 * Errors  TG_E_ARG */
TG_NODISCARD tg_status tg__ckpt_dir_weights(const char *dir, uint64_t step, tg__weights_which which,
                                            char *path, size_t cap);
/* The mark of the weights in COMMIT or FINAL.
 * Errors  TG_E_IO, TG_E_CORRUPT, TG_E_VERSION (format 1, which has no file of weights) */
TG_NODISCARD tg_status tg__ckpt_dir_mark(const char *dir, uint64_t step, tg__weights_which which,
                                         struct tg__weights_mark *mark_p);

/* The path DIR/step-N/final.safetensors to write to, in a committed checkpoint; what is there is
 * removed. It counts only with a FINAL beside it, which the commit writes.
 * Errors  TG_E_STATE (there is no such checkpoint), TG_E_IO, TG_E_ARG */
TG_NODISCARD tg_status tg__ckpt_dir_final_begin(const char *dir, uint64_t step, char *path,
                                                size_t cap);
TG_NODISCARD tg_status tg__ckpt_dir_final_commit(const char *dir, uint64_t step,
                                                 const struct tg__weights_mark *mark);
/* True if both final.safetensors and FINAL are there. */
bool tg__ckpt_dir_has_final(const char *dir, uint64_t step);

#endif

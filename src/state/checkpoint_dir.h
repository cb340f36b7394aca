/* What the files about folders of checkpoints share. Errors as in state.h. */
#ifndef TG_STATE_CHECKPOINT_DIR_H
#define TG_STATE_CHECKPOINT_DIR_H

#include "state/state.h"
#include "state/weights_impl.h"

/* A file of weights in a checkpoint, and the file that records its size and checksum. */
struct tg__ckpt_part {
    const char *weights, *mark;
};
enum { TG__CKPT_PARTS = TG__WEIGHTS_FINAL + 1 };
extern const struct tg__ckpt_part tg__ckpt_parts[TG__CKPT_PARTS];

TG_NODISCARD tg_status tg__ckpt_check_folder(const char *dir);
/* DIR/step-N, suffix, and a file in it */
TG_NODISCARD tg_status tg__ckpt_file_path(const char *dir, uint64_t step, const char *suffix,
                                          const char *file, char *path, size_t cap);
/* An existing entry of this name in a checkpoint that is being written must be a folder or a file
 * itself: a link would lead out of the checkpoint. */
TG_NODISCARD tg_status tg__ckpt_check_own(const char *path, bool folder);
bool tg__ckpt_is_committed(const char *dir, uint64_t step);
/* suffix: ".tmp" or "", of the folder to write to */
TG_NODISCARD tg_status tg__ckpt_write_mark(const char *dir, uint64_t step, const char *suffix,
                                           tg__weights_which which, const tg__weights_mark *mark);
/* What COMMIT or FINAL says of the file of weights beside it. *found_p: false if there is none, or
 * `weights` is no file of a checkpoint.
 * Errors  TG_E_CORRUPT, TG_E_IO */
TG_NODISCARD tg_status tg__ckpt_mark_beside(const char *weights, tg__weights_mark *mark_p,
                                            bool *found_p);

#endif

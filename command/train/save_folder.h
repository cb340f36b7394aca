/* The folder of --save: checks before the first step, not after hours, that it can be saved to;
 * makes the names of its checkpoints. */
#ifndef TG_CLI_SAVE_FOLDER_H
#define TG_CLI_SAVE_FOLDER_H

#include <limits.h>
#include "telegrad/base.h"

/* Leaves nothing behind: a folder that is created as a test is removed again.
 * step    the first that will be saved; a newer checkpoint in the folder belongs to another run
 * Errors  TG_E_IO (the folder cannot be created or written to, or is a file), TG_E_STATE */
TG_NODISCARD tg_status save_folder_check(const char *dir, uint64_t step);

/* The path of the checkpoint of that step (docs/checkpoints.md), cut if it is too long. */
void save_folder_checkpoint(const char *dir, uint64_t step, char path[PATH_MAX]);

#endif

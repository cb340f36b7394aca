/* The folder of --save: checks before the first step, not after hours, that it can be saved to;
 * makes the names of its checkpoints. */
#ifndef TG_CLI_SAVE_FOLDER_H
#define TG_CLI_SAVE_FOLDER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include "telegrad/base.h"

/* A folder that one run has for itself. */
typedef struct save_folder {
    char path[PATH_MAX];
    int fd;      /* holds the lock */
    bool locked; /* by this process, not by another rank of its job */
    bool tells;  /* the folder has a file that says which job it is locked by */
    size_t made; /* folders that were created, removed again if nothing is saved */
} save_folder;

/* Create the folder and lock it. Nothing is left behind on an error. Close it in any case.
 * resumed  the folder of --resume, or NULL: only this one may hold checkpoints
 * job      a number that the ranks of this run share, and no other run has; 0: this process is
 *          alone
 * joins    another rank of this run, which sees the folder too, may hold the lock; within 5 s it
 *          must have said so
 * Errors   TG_E_IO (the folder cannot be created or written to, is a file, or another run saves
 *          to it), TG_E_SPEC (it holds another run's checkpoints) */
TG_NODISCARD tg_status save_folder_open(const char *dir, const char *resumed, uint64_t job,
                                        bool joins, save_folder *folder);
void save_folder_close(save_folder *folder);

/* The rank whose file is the only one in the newest checkpoint of a folder; 0: there is none, or it
 * has files of several ranks. */
int save_folder_rank(const char *dir);

/* The path of the checkpoint of that step (docs/checkpoints.md), cut if it is too long. */
void save_folder_checkpoint(const char *dir, uint64_t step, char path[PATH_MAX]);

#endif

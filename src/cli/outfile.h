/* A file that an option asks for: it appears under its name when it is whole. Links stay, what they
 * lead to is replaced. What is no regular file (pipe, device), or is this process's standard output
 * or error, is written at once, as it is. One thread at a time. */
#ifndef TG_CLI_OUTFILE_H
#define TG_CLI_OUTFILE_H

#include <stdio.h>
#include "telegrad/base.h"

struct outfile {
    FILE *file;
    char *path, *tmp; /* tmp: NULL if written as it is */
};

/* option: "--out", for messages. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status outfile_open(struct outfile *f, const char *option, const char *path);
/* Closes, and renames to the final name; on failure tmp is removed. Errors TG_E_IO */
TG_NODISCARD tg_status outfile_commit(struct outfile *f, const char *option);
/* Closes and removes. */
void outfile_abandon(struct outfile *f);

/* Whether path can be opened, as far as that is known without opening it. alone: it must be a file
 * to be replaced. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status outfile_check(const char *option, const char *path, bool alone);

#endif

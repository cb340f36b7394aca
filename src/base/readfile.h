/* Opening files that a user names, to read them. */
#ifndef TG_BASE_READFILE_H
#define TG_BASE_READFILE_H

#include "telegrad/base.h"

typedef enum tg__readable {
    TG__REGULAR, /* files only: opening never waits for anybody */
    TG__STREAM   /* pipes and terminals too, as for text that is read from front to end: opening a
                    named pipe waits for its writer */
} tg__readable;

/* A descriptor, closed on exec; *size_p (NULL: not wanted) is the length of a regular file, else 0.
 * -1: *why_p says why, to stand after "cannot open X: "; valid until the next call. */
int tg__read_open(const char *path, tg__readable what, uint64_t *size_p, const char **why_p);

#endif

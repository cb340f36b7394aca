/* A file that an option asks for: a tg_newfile whose errors name the option, and which goes away
 * when the program is interrupted for good. One thread at a time. */
#ifndef TG_CLI_OUTFILE_H
#define TG_CLI_OUTFILE_H

#include "telegrad/tools.h"

/* option: "--out", for messages. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status outfile_open(const char *option, const char *path, tg_newfile **f_p);
/* See tg_newfile_open_growing; it stays when the program is interrupted. */
TG_NODISCARD tg_status outfile_open_growing(const char *option, const char *path, bool append,
                                            tg_newfile **f_p);
TG_NODISCARD tg_status outfile_commit(tg_newfile *f, const char *option);
void outfile_abandon(tg_newfile *f);
TG_NODISCARD tg_status outfile_check_growing(const char *option, const char *path);
/* See tg_newfile_check */
TG_NODISCARD tg_status outfile_check(const char *option, const char *path, bool alone);
/* By its name, so that a file of records that stands behind an option by mistake is not
 * overwritten: it has to end in `ending`, or in `other` if that is not NULL. Errors TG_E_SPEC */
TG_NODISCARD tg_status outfile_check_ending(const char *option, const char *path,
                                            const char *ending, const char *other);
bool outfile_ends_in(const char *path, const char *ending);
/* Whether it is "-", by which --out means the standard output; path may be NULL. */
bool outfile_is_stdout(const char *path);
/* Whether two names are of one regular file or folder, or will be: neither is there yet. */
bool outfile_same(const char *a, const char *b);

#endif

/* An output file given by an option: a tg_newfile whose errors name the option, and which is
 * removed if a signal ends the program. One thread at a time. */
#ifndef TG_CLI_OUTFILE_H
#define TG_CLI_OUTFILE_H

#include <limits.h>
#include <sys/types.h>
#include <time.h>
#include "telegrad/tools.h"

/* option: such as "--out", for messages. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status outfile_open(const char *option, const char *path, tg_newfile **f_p);
/* See tg_newfile_open_growing. The file stays if a signal ends the program. */
TG_NODISCARD tg_status outfile_open_growing(const char *option, const char *path, bool append,
                                            tg_newfile **f_p);
TG_NODISCARD tg_status outfile_commit(tg_newfile *f, const char *option);
void outfile_abandon(tg_newfile *f);
TG_NODISCARD tg_status outfile_check_growing(const char *option, const char *path);
/* See tg_newfile_check */
TG_NODISCARD tg_status outfile_check(const char *option, const char *path, bool alone);
/* Check that what a file holds, if there is one, may be replaced: it is empty, or begins like one
 * that this option wrote before.
 * begins  what such a file holds from byte `at` on
 * what    what it holds: "records of runs"
 * Errors  TG_E_SPEC */
TG_NODISCARD tg_status outfile_check_old(const char *option, const char *path, size_t at,
                                         const char *begins, const char *what);
/* A file as it was at some time: whether it was regular, and which it was. */
struct outfile_seen {
    bool regular;
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};
struct outfile_seen outfile_see(const char *path);
/* Check that the file is as it was seen: another program may have written it meanwhile. Errors
 * TG_E_IO */
TG_NODISCARD tg_status outfile_check_unchanged(const char *option, const char *path,
                                               const struct outfile_seen *seen);
/* Check the ending of the name, `ending` or, if not NULL, `other`, so that a file of records given
 * to the wrong option is not overwritten. Errors TG_E_SPEC */
TG_NODISCARD tg_status outfile_check_ending(const char *option, const char *path,
                                            const char *ending, const char *other);
bool outfile_ends_in(const char *path, const char *ending);
/* Whether the path is "-", which means standard output for --out; path may be NULL. */
bool outfile_is_stdout(const char *path);
/* The lock of a file that is written at the end of a run: FILE.telegrad-lock beside it, which the
 * release removes. On a file system without locks, nothing is locked. */
struct outfile_lock {
    int fd; /* -1: none */
    char path[PATH_MAX];
};
#define OUTFILE_UNLOCKED ((struct outfile_lock){.fd = -1})
/* Errors TG_E_IO: another run has the lock, or it cannot be made */
TG_NODISCARD tg_status outfile_lock(const char *option, const char *path,
                                    struct outfile_lock *lock);
void outfile_unlock(struct outfile_lock *lock); /* OUTFILE_UNLOCKED is fine */
/* Check that the name does not end in .gz, .xz or .zst: what is written is not compressed. Errors
 * TG_E_SPEC */
TG_NODISCARD tg_status outfile_check_plain(const char *option, const char *path);
/* Whether two names refer to the same regular file or folder, or will once they exist. */
bool outfile_same(const char *a, const char *b);

#endif

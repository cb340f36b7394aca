/* A file of JSON lines that grows by whole lines, under its own name (--out). It is opened for the
 * first record: until then an older file is left alone, and if somebody else writes it meanwhile,
 * it is refused. Then it is emptied, or, if asked, appended to. What was written stays. The name
 * "-" is standard output. One thread at a time. */
#ifndef TG_CLI_RECORD_FILE_H
#define TG_CLI_RECORD_FILE_H

#include "command/output/jsonl.h"

struct record_file;

/* path    borrowed
 * first   borrowed; the type of the first record, by which a file of this kind is known
 * what    borrowed; such a file holds: "records of runs"
 * append  append to an existing file
 * Errors  TG_E_IO (it cannot be written, as far as that can be known without opening it), TG_E_SPEC
 *         (it holds something else), TG_E_NOMEM */
TG_NODISCARD tg_status record_file_open(const char *path, const char *first, const char *what,
                                        bool append, struct record_file **f_p);
/* Write a record; takes it over. NULL as f is fine. Errors TG_E_IO (disk full, ...), TG_E_NOMEM */
TG_NODISCARD tg_status record_file_add(struct record_file *f, json_t *record);
/* Close the file, and open the one that has its name now, to append: an incomplete last line is cut
 * off. After a record that could not be written, and after the file was renamed. Standard output
 * stays as it is, also if it has failed. NULL is fine.
 * Errors  TG_E_IO (then adding fails, too, until this succeeds), TG_E_SPEC (it holds something
 *         else), TG_E_NOMEM */
TG_NODISCARD tg_status record_file_open_again(struct record_file *f);
/* Whether the next record is the first of a regular file. NULL: false. */
bool record_file_is_empty(const struct record_file *f);
/* The status of the first record that could not be written, or TG_OK. NULL is fine. */
tg_status record_file_status(const struct record_file *f);
/* Sync and close. Frees f; NULL is fine. Errors TG_E_IO */
TG_NODISCARD tg_status record_file_commit(struct record_file *f);
/* Close after a failure. Frees f; NULL is fine. */
void record_file_abandon(struct record_file *f);

#endif

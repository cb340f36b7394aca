/* telegrad/tools.h - what programs around the library need as well: memory for vectors, a hash,
 * numbers and quantities as text, near misses of names, files. The telegrad command and its trainer
 * are written with it. */
#ifndef TELEGRAD_TOOLS_H
#define TELEGRAD_TOOLS_H

#include <stdio.h>
#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TG_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- memory ---------------------------------------------------------------------------------- */

#define TG_ALIGN 64 /* bytes: of every buffer of numbers */

/* Zeroed memory at a multiple of TG_ALIGN, count * size bytes (checked for overflow; at least one).
 * Released by free(). ptr_p points to a pointer of any type. Errors TG_E_NOMEM Threads any */
TG_API TG_NODISCARD tg_status tg_alloc(size_t count, size_t size, void *ptr_p);

/* A 64-bit hash for identities (of parameters, data, jobs), not for security: FNV-1a over 8-byte
 * little-endian words, each product folded by h ^= h >> 32, with a final avalanche; the tail is
 * padded with its length. Start with TG_HASH_START; chain by passing the previous result.
 * Threads any */
#define TG_HASH_START UINT64_C(0xcbf29ce484222325)
TG_API uint64_t tg_hash(uint64_t hash, const void *bytes, size_t len);

/* ---- numbers as text --------------------------------------------------------------------------
 */

/* The same in every locale: decimal only, no blanks, no "inf", "nan" or hex. Threads any. */

#define TG_REAL_TEXT 32 /* bytes that tg_real_text needs */

/* Shortest text (at least 6 digits are tried) that reads back as exactly v, e.g. "0.1", "1e-05".
 * v is finite; -0 gives "0". */
TG_API void tg_real_text(double v, char text[TG_REAL_TEXT]);

/* The whole of text as a finite number: [-]digits[.digits][e[+-]digits]. False, and *v_p untouched,
 * if it is not one, overflows, or is not zero but too small for a double. */
TG_API bool tg_real_parse(const char *text, double *v_p);
/* The same with "%" behind it: a hundredth, rounded once, so that 0.7% is 0.007. */
TG_API bool tg_percent_parse(const char *text, double *v_p);
/* The whole of text as [-]digits that fit 64 bits. */
TG_API bool tg_int_parse(const char *text, int64_t *v_p);

/* Quantities as people write them: a number, blanks or none, a unit.
 *
 * Rates in bits a second: bit, bit/s, bps, b/s, after k m g t (powers of 1000) or ki mi gi ti (of
 * 1024). Rates in bytes a second: B/s, Bps, byte/s, after the same. A capital B is a byte and a
 * small b a bit; all other letters may be in either case. MBPS, in capitals alone, could be both
 * and is refused; so are Mb and MB, which are no rates.
 * Times: us, ms, s, min, in either case.
 * Sizes in bytes: no unit, or B. k m g t and ki mi gi ti are powers of 1024; kB MB GB TB are powers
 * of 1000, in either case.
 *
 * The first len characters of text; false, and the result untouched, if they are no such quantity,
 * or too large for it. A rate is in bits a second, a time in nanoseconds; neither is negative. */
TG_API bool tg_rate_parse(const char *text, size_t len, double *bps_p);
TG_API bool tg_time_parse(const char *text, size_t len, double *ns_p);
TG_API bool tg_bytes_parse(const char *text, size_t len, double *bytes_p);

/* For messages. */
#define TG_UNITS_RATE "rates as 20mbit, 1.5 Gbit/s, 100Mbps, in bytes 12.5MB/s with a capital B"
#define TG_UNITS_TIME "times as 250us, 20ms, 1.5 s, 2min"

/* ---- near misses ------------------------------------------------------------------------------
 */

#define TG_NEAREST_WORD 48 /* bytes of a word and its zero; longer ones are never near */

/* The word that was probably meant by a misspelled one. This structure does not grow. */
typedef struct tg_nearest {
    const char *wanted;         /* borrowed */
    size_t edits;               /* between wanted and word */
    char word[TG_NEAREST_WORD]; /* the nearest one so far; "": none is near */
    char hint[TG_NEAREST_WORD + 32];
} tg_nearest;

/* Offer words one after the other. Near is a word that `wanted` becomes by one edit, by two if the
 * longer of both has 5 letters or more, by three from 9 on; or that `wanted`, of 3 letters or more,
 * begins. An edit changes, adds or removes a letter, or swaps two neighbours; capitals count as
 * small letters. The fewest edits win, then the word offered first. Threads: each its own */
TG_API void tg_nearest_begin(tg_nearest *n, const char *wanted);
TG_API void tg_nearest_offer(tg_nearest *n, const char *word, size_t len);
/* The words of a list "a|b|c"; NULL: none. */
TG_API void tg_nearest_offer_list(tg_nearest *n, const char *words);
/* `did you mean "density"? ` or "", to stand in a message. Lives in n. */
TG_API const char *tg_nearest_hint(tg_nearest *n);

/* ---- files ----------------------------------------------------------------------------------- */

/* A stream that writes to fd, and closes it when it is closed. Streams say only that a write
 * failed: *error_p becomes the errno of the first write that did, and must outlive the stream.
 * NULL: out of memory, and fd is open still. */
TG_API FILE *tg_stream_open(int fd, int *error_p);

/* A file written aside: `path`.tmp is written, and commit flushes, syncs and renames it to `path`,
 * so that a file appears only when it is whole. A link stays: what it leads to is replaced. What is
 * no regular file (pipe, device), or is this process's standard output or error, is written at
 * once, as it is. Commit or abandon must follow. One thread at a time.
 * Errors TG_E_IO, naming the path and the reason, TG_E_NOMEM */
typedef struct tg_newfile tg_newfile;
TG_API TG_NODISCARD tg_status tg_newfile_open(const char *path, tg_newfile **f_p);
/* A file that others read while it grows: under its own name from the first byte. It is emptied
 * when it is opened; with `append` it is not, but for half a line at its end, which a process that
 * was killed has left. Links and what is no regular file are treated as above. Commit flushes and
 * syncs; abandon closes, and what was written stays. */
TG_API TG_NODISCARD tg_status tg_newfile_open_growing(const char *path, bool append,
                                                      tg_newfile **f_p);
/* Where to write; commit sees whether a write failed. */
TG_API FILE *tg_newfile_stream(const tg_newfile *f);
/* The name of the file, where links are followed; that of the one aside, NULL if there is none. */
TG_API const char *tg_newfile_path(const tg_newfile *f);
TG_API const char *tg_newfile_aside(const tg_newfile *f);
/* Both free f. On failure commit has removed the file aside. Abandon: NULL is fine. */
TG_API TG_NODISCARD tg_status tg_newfile_commit(tg_newfile *f);
TG_API void tg_newfile_abandon(tg_newfile *f);

/* Whether path can be opened so, as far as that is known without opening it. alone: it must be a
 * file to be replaced. */
TG_API TG_NODISCARD tg_status tg_newfile_check(const char *path, bool alone);
TG_API TG_NODISCARD tg_status tg_newfile_check_growing(const char *path);

typedef enum tg_readable {
    TG_READ_REGULAR = 0, /* files only: opening never waits for anybody */
    TG_READ_STREAM = 1   /* pipes and terminals too, as for text that is read from front to end:
                            opening a named pipe waits for its writer */
} tg_readable;

/* A descriptor to read from, closed on exec; *size_p (NULL: not wanted) is the length of a regular
 * file, else 0. -1: *why_p says why, to stand after "cannot open X: "; valid until the next call on
 * this thread. */
TG_API int tg_read_open(const char *path, tg_readable what, uint64_t *size_p, const char **why_p);

#ifdef __cplusplus
}
#endif
#endif

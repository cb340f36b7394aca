/* telegrad/tools.h - helpers for programs around the library: memory for vectors, a hash, numbers
 * and quantities as text, suggestions for misspelled names, files. The telegrad command and its
 * trainer use them. */
#ifndef TELEGRAD_TOOLS_H
#define TELEGRAD_TOOLS_H

#include <stdio.h>
#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Elements of an array (not of a pointer). */
#define TG_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- memory ---------------------------------------------------------------------------------- */

#define TG_ALIGN 64 /* alignment of every buffer of numbers, in bytes */

/* Allocate count * size bytes (checked for overflow; at least one), zeroed and aligned to TG_ALIGN.
 * Release them with free().
 * ptr_p    [out] address of a pointer of any type
 * Errors   TG_E_NOMEM
 * Threads  any */
TG_API TG_NODISCARD tg_status tg_alloc(size_t count, size_t size, void *ptr_p);

/* A 64-bit hash to identify parameters, data and jobs; not for security. FNV-1a over 8-byte
 * little-endian words, each product folded by h ^= h >> 32, with a final avalanche; the tail is
 * padded with its length.
 * hash     TG_HASH_START, or the previous result to continue it
 * Threads  any */
#define TG_HASH_START UINT64_C(0xcbf29ce484222325)
TG_API uint64_t tg_hash(uint64_t hash, const void *bytes, size_t len);

/* ---- numbers as text ------------------------------------------------------------------------- */

/* These functions do not depend on the locale. Numbers are decimal: no blanks, "inf", "nan" or hex.
 * Threads  any */

#define TG_REAL_TEXT 32 /* bytes for tg_real_text */

/* The shortest text that reads back as exactly v, e.g. "0.1", "1e-05" (trying 6 digits and more).
 * v  finite; -0 gives "0" */
TG_API void tg_real_text(double v, char text[TG_REAL_TEXT]);

/* Parse the whole text as a finite number: [-]digits[.digits][e[+-]digits]. Returns false, and
 * leaves *v_p unchanged, if it is malformed, overflows, or is not zero but too small for a
 * double. */
TG_API bool tg_real_parse(const char *text, double *v_p);
/* The same with a "%" at the end: divided by 100 with a single rounding, so 0.7% is 0.007. */
TG_API bool tg_percent_parse(const char *text, double *v_p);
/* Parse the whole text as [-]digits that fit into 64 bits. */
TG_API bool tg_int_parse(const char *text, int64_t *v_p);

/* Parse a quantity: a number, optional blanks, a unit.
 *
 * Rates  in bits per second. Bits: bit, bit/s, bps, b/s; bytes: B/s, Bps, byte/s. Prefixes: k m g t
 *        (powers of 1000), ki mi gi ti (of 1024). B is a byte and b a bit; otherwise case does not
 *        matter. MBPS in capitals is ambiguous and refused; so are Mb and MB, which are not rates
 * Times  in nanoseconds: us, ms, s, min, in either case
 * Sizes  in bytes: no unit, or B. k m g t and ki mi gi ti are powers of 1024; kB MB GB TB are
 *        powers of 1000, in either case. Refused: Mb, Mib and b alone, where b means a bit
 *
 * len      characters of text to parse
 * Returns  false, and leaves the result unchanged, if they are not such a quantity, or it is too
 *          large or negative */
TG_API bool tg_rate_parse(const char *text, size_t len, double *bps_p);
TG_API bool tg_time_parse(const char *text, size_t len, double *ns_p);
TG_API bool tg_bytes_parse(const char *text, size_t len, double *bytes_p);

/* The accepted units, for error messages. */
#define TG_UNITS_RATE \
    "rates such as 20mbit, 1.5 Gbit/s, 100Mbps, in bytes 12.5MB/s with a capital B"
#define TG_UNITS_TIME "times such as 250us, 20ms, 1.5 s, 2min"

/* ---- text ------------------------------------------------------------------------------------ */

/* Decode the UTF-8 character (RFC 3629: nothing overlong, no surrogates) that text begins with.
 * text     need not end with a zero; a zero in it is a character
 * len      bytes that may be read
 * code_p   [out] its code; NULL if it is not wanted. Unchanged if there is no character
 * Returns  its bytes, 1 to 4; 0 if the bytes are not UTF-8, the character is cut, or len is 0
 * Threads  any */
TG_API size_t tg_utf8_decode(const char *text, size_t len, uint32_t *code_p);

/* ---- suggestions ----------------------------------------------------------------------------- */

#define TG_NEAREST_WORD 48 /* bytes of a word with its NUL; longer ones never match */

/* A search for the word that a misspelled one probably means. Never grows. */
typedef struct tg_nearest {
    const char *wanted;         /* the misspelled word; borrowed */
    size_t edits;               /* between wanted and word */
    char word[TG_NEAREST_WORD]; /* the best match so far; "": none */
    char hint[TG_NEAREST_WORD + 32];
} tg_nearest;

/* Begin a search, then offer the known words one after the other. A word matches if
 *   - `wanted` becomes the word by at most 1 edit, 2 if the longer of them has 5 letters or more, 3
 *     from 9 letters on; an edit changes, adds or removes a letter, or swaps two adjacent ones, and
 *     case does not matter; or
 *   - `wanted` has at least 3 letters, and the word begins with it.
 * The word with the fewest edits wins; among equals, the one offered first.
 * Threads  any; each uses its own tg_nearest */
TG_API void tg_nearest_begin(tg_nearest *n, const char *wanted);
TG_API void tg_nearest_offer(tg_nearest *n, const char *word, size_t len);
/* Offer the words of a list "a|b|c"; NULL is an empty list. */
TG_API void tg_nearest_offer_list(tg_nearest *n, const char *words);
/* Text for an error message: `did you mean "density"? `, or "" without a match. Stored in n. */
TG_API const char *tg_nearest_hint(tg_nearest *n);

/* ---- files ----------------------------------------------------------------------------------- */

/* Open a stream that writes to fd, and closes fd when it is closed. A stream reports only that a
 * write failed, so *error_p gets the errno of the first failed write.
 * error_p  must outlive the stream
 * Returns  NULL if out of memory; fd is still open then */
TG_API FILE *tg_stream_open(int fd, int *error_p);

/* A file that appears only when it is complete: `path`.tmp is written, and commit flushes and syncs
 * it and renames it to `path`. Call commit or abandon in the end.
 * Links    are kept; the file that a link leads to is replaced
 * Streams  a pipe, a device, or this process's standard output or error is written directly
 * Writers  one at a time: `path`.tmp is locked (F_OFD_SETLK) while it is open
 * Errors   TG_E_IO (names the path and the reason; also: another tg_newfile is writing it),
 *          TG_E_NOMEM
 * Threads  one at a time */
typedef struct tg_newfile tg_newfile;
TG_API TG_NODISCARD tg_status tg_newfile_open(const char *path, tg_newfile **f_p);
/* A file that others read while it grows: it has its own name from the first byte. Commit flushes
 * and syncs it; abandon closes it, and what was written stays. Links and streams are treated as
 * above.
 * A regular file is locked in the same way, so a second writer gets TG_E_IO, also in the same
 * process, and the file is left as it is.
 * append  false: the file is emptied first. true: it is kept, except for an incomplete last line
 *         that a killed process has left
 * Errors  as above; TG_E_IO: another tg_newfile is writing it */
TG_API TG_NODISCARD tg_status tg_newfile_open_growing(const char *path, bool append,
                                                      tg_newfile **f_p);
/* The stream to write to. Commit reports failed writes. */
TG_API FILE *tg_newfile_stream(const tg_newfile *f);
/* The name of the file with links resolved; and that of the temporary file, NULL if there is
 * none. */
TG_API const char *tg_newfile_path(const tg_newfile *f);
TG_API const char *tg_newfile_aside(const tg_newfile *f);
/* Finish or give up the file. Both free f. A commit that fails removes the temporary file. Abandon
 * accepts NULL.
 * Errors  TG_E_IO */
TG_API TG_NODISCARD tg_status tg_newfile_commit(tg_newfile *f);
TG_API void tg_newfile_abandon(tg_newfile *f);

/* Check whether tg_newfile_open or tg_newfile_open_growing could open path, as far as that is known
 * without opening it.
 * alone   true: path must be a file that commit would replace, not a stream
 * Errors  TG_E_IO (names the path and the reason), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_newfile_check(const char *path, bool alone);
TG_API TG_NODISCARD tg_status tg_newfile_check_growing(const char *path);

typedef enum tg_readable {
    TG_READ_REGULAR = 0, /* regular files only; opening never blocks */
    TG_READ_STREAM = 1 /* pipes and terminals too, for text that is read from start to end; opening
                        * a named pipe waits for its writer */
} tg_readable;

/* Open a file for reading; the descriptor is closed on exec.
 * size_p   [out] length of a regular file, else 0; NULL: not wanted
 * why_p    [out] on failure the reason, to follow "cannot open X: "; valid until the next call on
 *          this thread
 * Returns  the descriptor, -1 on failure */
TG_API int tg_readfile_open(const char *path, tg_readable what, uint64_t *size_p,
                            const char **why_p);

#ifdef __cplusplus
}
#endif
#endif

/* Memory, files and hashes that every room uses. */
#ifndef TG_BASE_MEM_H
#define TG_BASE_MEM_H

#include "telegrad/base.h"
#include <stdio.h>

#define TG__ALIGN 64 /* of every buffer of numbers */

/* Zeroed, aligned to TG__ALIGN, `count` * `size` bytes (checked for overflow; 0 bytes gives a valid
 * pointer). Released by free(). Errors: TG_E_NOMEM */
TG_NODISCARD tg_status tg__alloc(size_t count, size_t size, void *ptr_p);

#define TG__COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define TG__MIN(a, b) ((a) < (b) ? (a) : (b))
#define TG__MAX(a, b) ((a) > (b) ? (a) : (b))

/* Little-endian loads and stores at any alignment. */
static inline uint16_t tg__get16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}
static inline uint32_t tg__get32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t tg__get64(const uint8_t *p)
{
    return (uint64_t)tg__get32(p) | (uint64_t)tg__get32(p + 4) << 32;
}
static inline void tg__put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}
static inline void tg__put32(uint8_t *p, uint32_t v)
{
    tg__put16(p, (uint16_t)v);
    tg__put16(p + 2, (uint16_t)(v >> 16));
}
static inline void tg__put64(uint8_t *p, uint64_t v)
{
    tg__put32(p, (uint32_t)v);
    tg__put32(p + 4, (uint32_t)(v >> 32));
}

/* 64-bit hash for identities (params_hash, session hash, data hash), not for security: FNV-1a over
 * 8-byte little-endian words, each product folded by h ^= h >> 32, with a final avalanche; the tail
 * is padded with its length.
 * Start with TG__HASH_START; chain by passing the previous result. */
#define TG__HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t tg__hash(uint64_t hash, const void *bytes, size_t len);

/* Where a stream's bytes go. A stream says only that a write failed, not why. */
typedef struct tg__sink {
    int fd, error; /* of the first write that failed; 0: none did */
} tg__sink;
/* A stream that writes to s->fd, and closes it when it is closed; s must outlive it. NULL: out of
 * memory, and fd is open still. */
FILE *tg__sink_open(tg__sink *s);

/* A file written aside: opens `path`.tmp for writing; commit flushes, syncs and renames it to
 * `path`; abandon removes it. Exactly one of the two must follow. On failure commit has removed it.
 * A link stays: what it leads to is replaced. What is no regular file (pipe, device), or is this
 * process's standard output or error, is written at once, as it is; tmp is NULL then.
 * Errors: TG_E_IO, naming the path and the reason */
typedef struct tg__newfile {
    FILE *file;
    char *path, *tmp;
    bool growing;   /* a regular file, written under its own name */
    tg__sink *sink; /* its descriptor, and why a write failed */
} tg__newfile;
TG_NODISCARD tg_status tg__newfile_open(tg__newfile *f, const char *path);
TG_NODISCARD tg_status tg__newfile_commit(tg__newfile *f);
void tg__newfile_abandon(tg__newfile *f);
/* Whether path can be opened, as far as that is known without opening it. alone: it must be a file
 * to be replaced. Errors TG_E_IO, TG_E_NOMEM */
TG_NODISCARD tg_status tg__newfile_check(const char *path, bool alone);

/* A file that others read while it grows: under its own name from the first byte. It is emptied
 * when it is opened; with `append` it is not, but for half a line at its end, which a process that
 * was killed has left. Links and what is no regular file are treated as above. Commit flushes,
 * syncs and closes; abandon closes, and what was written stays. Errors as above */
TG_NODISCARD tg_status tg__newfile_open_growing(tg__newfile *f, const char *path, bool append);
/* Whether it can be opened so, as far as that is known without opening it. */
TG_NODISCARD tg_status tg__newfile_check_growing(const char *path);

#endif

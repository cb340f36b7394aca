/* What the trainer's parts share: memory and a hash. (The trainer uses the public headers only.) */
#ifndef TG_TRAIN_UTIL_H
#define TG_TRAIN_UTIL_H

#include "telegrad/base.h"

/* Zeroed memory at a multiple of 64 bytes, count * size bytes (at least one), checked for overflow.
 * Released by free(). ptr_p points to a pointer of any type. Errors TG_E_NOMEM */
TG_NODISCARD tg_status train_alloc(size_t count, size_t size, void *ptr_p);

/* FNV-1a (64 bits) over bytes, for identities and not for security. Start with TRAIN_HASH_START;
 * chain by passing the last result. */
#define TRAIN_HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t train_hash(uint64_t hash, const void *bytes, size_t len);

#define TRAIN_COUNT(a) (sizeof(a) / sizeof((a)[0]))

#endif

/* Little-endian numbers and texts in messages. A writer must have room; a reader never passes the
 * end, and says at the end whether all was there. */
#ifndef TG_NET_FIELDS_H
#define TG_NET_FIELDS_H

#include "base/printable.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct tg__pack {
    uint8_t *at, *end;
} tg__pack;

typedef struct tg__unpack {
    const uint8_t *at, *end;
    bool failed; /* something was missing or too long */
} tg__unpack;

static inline void tg__pack_bytes(tg__pack *p, const void *bytes, size_t len)
{
    if (len > 0 && len <= (size_t)(p->end - p->at)) {
        memcpy(p->at, bytes, len);
        p->at += len;
    }
}

/* bytes: 1 to 8 */
static inline void tg__pack_number(tg__pack *p, int bytes, uint64_t v)
{
    for (int i = 0; i < bytes && p->at < p->end; i++)
        *p->at++ = (uint8_t)(v >> (8 * i));
}

/* At most 65,535 bytes. */
static inline void tg__pack_text(tg__pack *p, const char *text)
{
    const size_t len = strlen(text);
    tg__pack_number(p, 2, len);
    tg__pack_bytes(p, text, len);
}

static inline void tg__unpack_bytes(tg__unpack *u, void *bytes, size_t len)
{
    u->failed = u->failed || len > (size_t)(u->end - u->at);
    if (u->failed || len == 0)
        return;
    memcpy(bytes, u->at, len);
    u->at += len;
}

static inline uint64_t tg__unpack_number(tg__unpack *u, int bytes)
{
    uint8_t b[8] = {0};
    uint64_t v = 0;
    tg__unpack_bytes(u, b, (size_t)bytes);
    for (int i = 0; i < bytes; i++)
        v |= (uint64_t)b[i] << (8 * i);
    return u->failed ? 0 : v;
}

/* Read a printable text of less than room bytes; "" on failure. */
static inline void tg__unpack_text(tg__unpack *u, char *text, size_t room)
{
    const size_t len = (size_t)tg__unpack_number(u, 2);
    *text = '\0';
    u->failed = u->failed || len >= room;
    tg__unpack_bytes(u, text, u->failed ? 0 : len);
    text[u->failed ? 0 : len] = '\0';
    u->failed = u->failed || !tg__is_printable(text, len);
    if (u->failed)
        *text = '\0';
}

/* Everything was there, and nothing else. */
static inline bool tg__unpack_whole(const tg__unpack *u)
{
    return !u->failed && u->at == u->end;
}

#endif

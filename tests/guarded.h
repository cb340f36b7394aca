/* For tests: a buffer between two inaccessible pages. */
#ifndef TG_GUARDED_H
#define TG_GUARDED_H

#include "telegrad/base.h"
#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct tg__guarded {
    uint8_t *begin; /* first usable byte, at the start of a page */
    size_t size;    /* usable bytes, whole pages */
    uint8_t *data;  /* the array placed last */
    size_t used;
} tg__guarded;

#define TG__GUARD_FILL 0xa5

static inline void tg__guarded_open(tg__guarded *g, size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    g->size = (size + page) / page * page;
    uint8_t *map =
        mmap(NULL, g->size + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert(map != MAP_FAILED);
    int rc = mprotect(map, page, PROT_NONE);
    rc |= mprotect(map + page + g->size, page, PROT_NONE);
    assert(rc == 0);
    (void)rc;
    g->begin = map + page;
    g->data = g->begin;
    g->used = 0;
}

static inline void tg__guarded_close(tg__guarded *g)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    munmap(g->begin - page, g->size + 2 * page);
}

/* Place an array of `used` bytes `gap` bytes after the first guard page, or before the last one,
 * and mark the memory near it. used + gap <= size. */
static inline void *tg__guarded_place(tg__guarded *g, size_t used, size_t gap, bool at_end)
{
    g->used = used;
    g->data = at_end ? g->begin + g->size - gap - used : g->begin + gap;
    size_t before = (size_t)(g->data - g->begin), after = g->size - before - used;
    before = before < 128 ? before : 128;
    after = after < 128 ? after : 128;
    memset(g->data - before, TG__GUARD_FILL, before);
    memset(g->data + used, TG__GUARD_FILL, after);
    return g->data;
}

/* True if the marks around the array are unchanged. */
static inline bool tg__guarded_intact(const tg__guarded *g)
{
    const uint8_t *end = g->data + g->used;
    for (const uint8_t *p = g->data; p > g->begin && g->data - p < 128; p--)
        if (p[-1] != TG__GUARD_FILL)
            return false;
    for (const uint8_t *p = end; p < g->begin + g->size && p - end < 128; p++)
        if (*p != TG__GUARD_FILL)
            return false;
    return true;
}

#endif

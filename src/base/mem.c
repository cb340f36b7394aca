#include "base/mem.h"
#include "base/arg.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Vectors of a model's size go into huge pages if the system lets a program request them: this
 * reduces TLB misses when several are streamed at once. */
#define HUGE_PAGE ((size_t)2 << 20)

static void *allocate(size_t bytes)
{
#ifdef MADV_HUGEPAGE
    if (bytes >= 2 * HUGE_PAGE) {
        size_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        void *p = aligned_alloc(HUGE_PAGE, whole);
        if (p)
            (void)madvise(p, whole, MADV_HUGEPAGE); /* only a hint; small pages work as well */
        return p;
    }
#endif
    return aligned_alloc(TG_ALIGN, bytes);
}

tg_status tg_alloc(size_t count, size_t size, void *ptr_p)
{
    TG__ARG(ptr_p);
    const size_t limit = PTRDIFF_MAX - TG_ALIGN;
    void *p = NULL;
    if (size == 0 || count <= limit / size) {
        size_t bytes = TG__MAX(count * size, (size_t)1);
        bytes = (bytes + TG_ALIGN - 1) / TG_ALIGN * TG_ALIGN;
        p = allocate(bytes);
        if (p)
            memset(p, 0, bytes);
    }
    if (!p)
        return tg_fail(TG_E_NOMEM, "out of memory: %zu elements of %zu bytes", count, size);
    memcpy(ptr_p, &p, sizeof p); /* ptr_p points to a pointer of any type */
    return TG_OK;
}

void tg__free_at(void *pointer_p)
{
    void *p;
    memcpy(&p, pointer_p, sizeof p); /* it points to a pointer of any type */
    free(p);
}

static uint64_t hash_word(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x100000001b3);
    /* In a product, carries only move upwards. Without this fold, two flips of a word's top bit
     * (the signs of two floats) would cancel. */
    return hash ^ hash >> 32;
}

uint64_t tg_hash(uint64_t hash, const void *bytes, size_t len)
{
    if (!bytes && len)
        return 0;
    const uint8_t *p = bytes;
    size_t words = len / 8, tail = len % 8;
    for (size_t i = 0; i < words; i++, p += 8)
        hash = hash_word(hash, tg__get64(p));
    uint8_t last[8] = {0};
    if (tail)
        memcpy(last, p, tail);
    last[7] = (uint8_t)tail;
    hash = hash_word(hash, tg__get64(last));
    /* The finaliser of MurmurHash3. */
    hash ^= hash >> 33;
    hash *= UINT64_C(0xff51afd7ed558ccd);
    hash ^= hash >> 33;
    hash *= UINT64_C(0xc4ceb9fe1a85ec53);
    return hash ^ hash >> 33;
}

tg_status tg__grow(void *array_p, size_t *cap_p, size_t need, size_t size, const char *what)
{
    enum { FEWEST = 16 };
    void *array;
    if (need <= *cap_p)
        return TG_OK;
    const size_t cap = TG__MAX(TG__MAX(2 * *cap_p, need), (size_t)FEWEST);
    memcpy(&array, array_p, sizeof array); /* array_p points to a pointer of any type */
    array = cap <= SIZE_MAX / size ? realloc(array, cap * size) : NULL;
    if (!array)
        return tg_fail(TG_E_NOMEM, "out of memory: %zu %s", cap, what);
    memcpy(array_p, &array, sizeof array);
    *cap_p = cap;
    return TG_OK;
}

#include "server/store.h"
#include "base/mem.h"
#include <stdlib.h>

typedef struct tg__stored {
    struct tg__stored *next;
    size_t cap;
} tg__stored;

_Static_assert(sizeof(tg__stored) <= TG_ALIGN, "it stands before the bytes");

/* Memory of more than this many times the wanted size is not given. */
enum { GENEROUS = 4 };

tg_status tg__store_take(tg__store *store, size_t len, uint8_t **bytes_p)
{
    tg__stored **link = &store->spare;
    while (*link != NULL && (*link)->cap < len)
        link = &(*link)->next;
    tg__stored *s = *link;
    if (s != NULL && s->cap / GENEROUS <= len) {
        *link = s->next;
    } else {
        /* Not touched: what a worker announces takes memory only as it comes. */
        const size_t room = (len + TG_ALIGN - 1) / TG_ALIGN * TG_ALIGN;
        s = aligned_alloc(TG_ALIGN, TG_ALIGN + room);
        if (s == NULL)
            return tg_fail(TG_E_NOMEM, "out of memory for a message of %zu bytes", len);
        s->cap = len;
    }
    *bytes_p = (uint8_t *)s + TG_ALIGN;
    return TG_OK;
}

void tg__store_give(tg__store *store, uint8_t *bytes)
{
    if (bytes == NULL)
        return;
    tg__stored *s = (tg__stored *)(void *)(bytes - TG_ALIGN), **link = &store->spare;
    while (*link != NULL && (*link)->cap < s->cap)
        link = &(*link)->next;
    s->next = *link;
    *link = s;
}

void tg__store_fini(tg__store *store)
{
    while (store->spare != NULL) {
        tg__stored *s = store->spare;
        store->spare = s->next;
        free(s);
    }
}

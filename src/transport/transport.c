#include "transport/endpoint.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

#define CHUNK_ITEMS 32

void tg_transport_destroy(tg_transport *t)
{
    if (t && t->ops)
        t->ops->destroy(t);
}

tg_status tg__transport_check(const char *what, const tg_transport *inner)
{
    if (!inner || !inner->ops || !inner->clock)
        return tg_fail(TG_E_ARG, "%s: %s is NULL", what,
                       !inner        ? "inner"
                       : !inner->ops ? "inner->ops"
                                     : "inner->clock");
    const tg_transport_ops *ops = inner->ops;
    if (inner->struct_size < sizeof *inner || ops->struct_size < sizeof *ops)
        return tg_fail(TG_E_ARG,
                       "%s: struct_size of the transport is %zu and of its table %zu: "
                       "allowed: at least %zu and %zu",
                       what, inner->struct_size, ops->struct_size, sizeof *inner, sizeof *ops);
    if (!ops->post_send || !ops->post_recv || !ops->test || !ops->poll || !ops->shut ||
        !ops->destroy)
        return tg_fail(TG_E_ARG,
                       "%s: the transport's table has a NULL: allowed: wake, blame and blamed",
                       what);
    if (!ops->blame != !ops->blamed)
        return tg_fail(TG_E_ARG, "%s: the transport's table has only one of blame and blamed",
                       what);
    if (inner->size < 1 || inner->rank < 0 || inner->rank >= inner->size)
        return tg_fail(TG_E_ARG, "%s: inner rank=%d size=%d: allowed: 0 <= rank < size", what,
                       inner->rank, inner->size);
    return TG_OK;
}

/* A chunk starts with a link to the chunk before; its items follow at the next multiple of the
 * alignment that tg_alloc gives. A spare item starts with a link to the next spare one. */
static void push(void **list, void *record)
{
    memcpy(record, list, sizeof *list);
    *list = record;
}

static void *pop(void **list)
{
    void *record = *list;
    memcpy(list, record, sizeof *list);
    return record;
}

tg_status tg__records_take(tg__records *pool, void *item_p)
{
    if (!pool->spare) {
        size_t stride = (pool->item_bytes + 15) / 16 * 16;
        char *chunk;
        TG_TRY(tg_alloc(1, TG_ALIGN + CHUNK_ITEMS * stride, &chunk));
        push(&pool->chunks, chunk);
        for (size_t i = CHUNK_ITEMS; i-- > 0;)
            push(&pool->spare, chunk + TG_ALIGN + i * stride);
    }
    void *item = pop(&pool->spare);
    memset(item, 0, pool->item_bytes);
    memcpy(item_p, &item, sizeof item);
    return TG_OK;
}

void tg__records_give(tg__records *pool, void *item)
{
    push(&pool->spare, item);
}

void tg__records_fini(tg__records *pool)
{
    while (pool->chunks)
        free(pop(&pool->chunks));
    pool->spare = NULL;
}

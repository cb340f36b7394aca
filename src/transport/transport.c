#include "transport/endpoint.h"
#include "base/mem.h"
#include "base/sized.h"
#include "base/virtual_clock.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_ITEMS 32

static bool (*_Atomic keeper)(tg_transport *t);

void tg__transport_keep(bool (*keeps)(tg_transport *t))
{
    atomic_store(&keeper, keeps);
}

void tg_transport_destroy(tg_transport *t)
{
    bool (*keeps)(tg_transport *) = atomic_load(&keeper);
    if (t && t->ops && !(keeps && keeps(t)))
        t->ops->destroy(t);
}

/* The name of the first required member of the table that is NULL. */
static const char *hole(const tg_transport_ops *ops)
{
    return !ops->post_send   ? "post_send"
           : !ops->post_recv ? "post_recv"
           : !ops->test      ? "test"
           : !ops->poll      ? "poll"
           : !ops->shut      ? "shut"
           : !ops->destroy   ? "destroy"
                             : NULL;
}

/* The transport, its table and its clock are used in place. */
static tg_status check_sizes(const char *call, const char *name, const tg_transport *t)
{
    char what[128];
    snprintf(what, sizeof what, "%s: %s", call, name);
    TG_TRY(tg__sized_check(what, t, sizeof *t, TG__FIRST_SIZE(tg_transport, clock)));
    snprintf(what, sizeof what, "%s: %s->ops", call, name);
    TG_TRY(tg__sized_check(what, t->ops, sizeof *t->ops, TG__FIRST_SIZE(tg_transport_ops, blamed)));
    snprintf(what, sizeof what, "%s: %s->clock", call, name);
    return tg__clock_check(what, t->clock);
}

tg_status tg__transport_check(const char *call, const char *name, const tg_transport *t)
{
    if (!t || !t->ops || !t->clock)
        return tg_fail(TG_E_ARG, "%s: %s%s is NULL", call, name,
                       !t        ? ""
                       : !t->ops ? "->ops"
                                 : "->clock");
    TG_TRY(check_sizes(call, name, t));
    const tg_transport_ops *ops = t->ops;
    if (hole(ops))
        return tg_fail(TG_E_ARG,
                       "%s: %s->ops->%s is NULL: allowed to be NULL: wake, blame and blamed", call,
                       name, hole(ops));
    if (!ops->blame != !ops->blamed)
        return tg_fail(TG_E_ARG, "%s: %s->ops has only one of blame and blamed", call, name);
    if (t->size < 1 || t->rank < 0 || t->rank >= t->size)
        return tg_fail(TG_E_ARG, "%s: %s->rank=%d, %s->size=%d: allowed: 0 <= rank < size", call,
                       name, t->rank, name, t->size);
    if (TG_HAS(tg_transport, t, servers) && t->servers > TG_SERVERS_MAX)
        return tg_fail(TG_E_ARG, "%s: %s->servers=%zu: allowed: 0..%d", call, name, t->servers,
                       TG_SERVERS_MAX);
    return TG_OK;
}

/* A chunk begins with a link to the previous chunk; its items follow at the next multiple of the
 * alignment that tg_alloc gives. A spare item begins with a link to the next spare one. */
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

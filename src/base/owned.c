#include "base/owned.h"
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>

static tg_status make_room(tg__owned *o)
{
    return tg__grow(&o->item, &o->cap, o->count + 1, sizeof *o->item, "things to release");
}

tg_status tg__owned_add(tg__owned *o, void *thing, void (*release)(void *thing))
{
    if (thing == NULL)
        return TG_OK;
    const tg_status status = make_room(o);
    if (status == TG_OK)
        o->item[o->count++] = (tg__owned_item){.thing = thing, .release = release};
    else
        release(thing);
    return status;
}

tg_status tg__owned_alloc(tg__owned *o, size_t count, size_t size, void *ptr_p)
{
    void *p;
    TG_TRY(tg_alloc(count, size, &p));
    TG_TRY(tg__owned_add(o, p, free));
    memcpy(ptr_p, &p, sizeof p); /* ptr_p points to a pointer of any type */
    return TG_OK;
}

tg_status tg__owned_text(tg__owned *o, const char *text, char **copy_p)
{
    const size_t bytes = strlen(text) + 1;
    TG_TRY(tg__owned_alloc(o, bytes, 1, copy_p));
    memcpy(*copy_p, text, bytes);
    return TG_OK;
}

tg_status tg__owned_room(tg__owned *o, void *ptr_p, size_t count, size_t size)
{
    tg__owned_item *item = NULL;
    for (size_t i = 0; item == NULL && i < o->count; i++)
        if (o->item[i].where == ptr_p)
            item = &o->item[i];
    if (item != NULL && (size == 0 || count <= item->bytes / size))
        return TG_OK;
    if (item == NULL)
        TG_TRY(make_room(o));
    void *p;
    TG_TRY(tg_alloc(count, size, &p));
    if (item != NULL)
        free(item->thing);
    else
        item = &o->item[o->count++];
    *item = (tg__owned_item){.thing = p, .release = free, .where = ptr_p, .bytes = count * size};
    memcpy(ptr_p, &p, sizeof p);
    return TG_OK;
}

void tg__owned_drop(tg__owned *o, const void *thing)
{
    for (size_t i = 0; thing != NULL && i < o->count; i++) {
        if (o->item[i].thing != thing)
            continue;
        const tg__owned_item item = o->item[i];
        o->count--;
        memmove(&o->item[i], &o->item[i + 1], (o->count - i) * sizeof item);
        item.release(item.thing);
        return;
    }
}

void tg__owned_free(tg__owned *o)
{
    while (o->count > 0) {
        const tg__owned_item item = o->item[--o->count];
        item.release(item.thing);
    }
    free(o->item);
    *o = (tg__owned){0};
}

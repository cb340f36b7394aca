/* Memory and objects that are released together, when their owner is destroyed. An owner that keeps
 * them in such a list needs no list of frees. */
#ifndef TG_BASE_OWNED_H
#define TG_BASE_OWNED_H

#include "telegrad/base.h"

typedef struct tg__owned_item {
    void *thing;
    void (*release)(void *thing);
    void *where; /* tg__owned_room: the pointer's address */
    size_t bytes;
} tg__owned_item;

/* Zeroed at first. */
typedef struct tg__owned {
    tg__owned_item *item;
    size_t count, cap;
} tg__owned;

/* Add a thing. It belongs to the list from the call on: on failure it has been released.
 * thing   NULL: nothing to add
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__owned_add(tg__owned *o, void *thing, void (*release)(void *thing));
/* tg_alloc, and add the memory.
 * ptr_p   address of a pointer of any type; set on success only
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__owned_alloc(tg__owned *o, size_t count, size_t size, void *ptr_p);
/* Copy text into memory of the list.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__owned_text(tg__owned *o, const char *text, char **copy_p);
/* Scratch memory that grows: make room for count elements of `size` bytes. If it grows, its
 * contents are lost, and it is zeroed. Room for 0 elements is not NULL.
 * ptr_p   address of a pointer of any type, NULL at first, which stays where it is and is changed
 *         only here
 * Errors  TG_E_NOMEM: the memory is as before */
TG_NODISCARD tg_status tg__owned_room(tg__owned *o, void *ptr_p, size_t count, size_t size);
/* Release a thing now. NULL is fine. */
void tg__owned_drop(tg__owned *o, const void *thing);
/* Release all, the latest first. The list is empty afterwards. */
void tg__owned_free(tg__owned *o);

#endif

/* The inside of a state, shared by state.c and the checkpoint. */
#ifndef TG_STATE_SLOTS_H
#define TG_STATE_SLOTS_H

#include "base/owned.h"
#include "state/state.h"

typedef struct tg__slot {
    char *key;  /* its section in a checkpoint: role, rule for another world size, tensor, name */
    void *data; /* inside a block */
    size_t len; /* bytes */
    tg__role role;
    tg__rescale rescale;
    size_t at; /* OWNER: the element of the tensor at which it begins */
} tg__slot;

struct tg__state {
    tg__slot *slot; /* (count) in the order of creation */
    size_t count, cap;
    tg__owned owned; /* memory of the slots */
};

/* Every slot's section begins with this, and no other section does. */
#define TG__SLOT_PREFIX "slot:"

#endif

/* The strategy of a simulation: the real one, on vectors of one element per tensor, all zero. */
#include "plan/simulate_impl.h"
#include "base/mem.h"
#include "telegrad/spec.h"

#include <stdlib.h>
#include <string.h>

/* List the tensors as a session does, but with one element each; a bucket's tensors are
 * adjacent. */
static void list_tensors(tg_simulation *sim)
{
    tg_session *s = sim->session;
    for (size_t b = 0; b < s->nbuckets; b++)
        for (uint32_t i = 0; i < s->bucket[b].count; i++) {
            const uint32_t t = s->bucket[b].member[i];
            s->wtensor[t] =
                (tg__wtensor){.w = &sim->zero[t], .g = &sim->none[t], .n = 1, .offset = i};
        }
}

static tg_status make_slots(tg_simulation *sim)
{
    const tg_session *s = sim->session;
    tg__strategy *y = s->strategy;
    float *slots;
    uint64_t *updates;
    TG_TRY(tg__owned_alloc(&sim->open, y->nslots * s->ntrained, sizeof *slots, &slots));
    TG_TRY(tg__owned_alloc(&sim->open, y->nmemories * s->ntrained, sizeof *updates, &updates));
    for (size_t r = 0; r < y->nslots; r++)
        /* in the order of members, so that they are adjacent */
        for (size_t i = 0; i < s->ntrained; i++)
            y->slot[r][s->member[i]] = slots + r * s->ntrained + i;
    for (size_t m = 0; m < y->nmemories; m++)
        if (y->memory[m].counts)
            y->memory[m].updates = updates + m * s->ntrained;
    return TG_OK;
}

static tg_status open_strategy(tg_simulation *sim, const char *spec, int world)
{
    tg_session *s = sim->session;
    list_tensors(sim);
    TG_TRY(tg__session_make_strategy(s, spec, 0, world));
    for (size_t b = 0; b < s->nbuckets; b++) /* as a session does before it creates its methods */
        TG_TRY(tg__session_takes(s, &s->rules.rule[s->bucket[b].rule]));
    memset(sim->zero, 0, s->ntrained * sizeof *sim->zero);
    return make_slots(sim);
}

tg_status tg__sim_open_strategy(tg_simulation *sim, const char *spec, int world)
{
    const tg_status status = open_strategy(sim, spec, world);
    if (status != TG_OK)
        tg__sim_close_strategy(sim);
    return status;
}

void tg__sim_close_strategy(tg_simulation *sim)
{
    tg_session *s = sim->session;
    tg__strategy_destroy(s->strategy);
    tg__owned_free(&sim->open);
    s->strategy = NULL;
    s->actions = (tg__actions){.item = s->actions.item};
}

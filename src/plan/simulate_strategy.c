/* The strategy of a simulation: the real one, on vectors of one element per tensor, all zero. */
#include "plan/simulate_impl.h"
#include "base/mem.h"
#include "telegrad/spec.h"

#include <stdlib.h>
#include <string.h>

/* List the tensors as a session does, but with one element each; a bucket's tensors are adjacent.
 * Returns the optimizer with the most slots. */
static const tg_optimizer *list_tensors(tg_simulation *sim)
{
    tg_session *s = sim->session;
    const tg_optimizer *most = s->plain;
    for (size_t b = 0; b < s->nbuckets; b++) {
        const bucket *x = &s->bucket[b];
        const bool owned = (s->rules.rule[x->rule].def->properties & TG__OWNS_MOMENTUM) != 0;
        for (uint32_t i = 0; i < x->count; i++)
            s->wtensor[x->member[i]] =
                (tg__wtensor){.w = &sim->zero[x->member[i]],
                              .g = &sim->none[x->member[i]],
                              .n = 1,
                              .offset = i,
                              .ndim = s->tensor[s->trained[x->member[i]]].ndim,
                              .bucket = (uint32_t)b,
                              .optimizer = owned ? s->plain : s->optimizer};
        most = owned ? most : s->optimizer;
    }
    return most;
}

static tg_status make_slots(tg_simulation *sim)
{
    const tg_session *s = sim->session;
    tg__strategy *y = s->strategy;
    TG_TRY(tg_alloc(y->nslots * s->ntrained, sizeof *sim->slots, &sim->slots));
    TG_TRY(tg_alloc(y->nmemories * s->ntrained, sizeof *sim->updates, &sim->updates));
    for (size_t r = 0; r < y->nslots; r++)
        /* in the order of members, so that they are adjacent */
        for (size_t i = 0; i < s->ntrained; i++)
            y->slot[r][s->member[i]] = sim->slots + r * s->ntrained + i;
    for (size_t m = 0; m < y->nmemories; m++)
        if (y->memory[m].counts)
            y->memory[m].updates = sim->updates + m * s->ntrained;
    return TG_OK;
}

/* The checks that a session makes when it creates its methods. */
static tg_status check_methods(const tg_session *s, int world)
{
    const tg__strategy *y = s->strategy;
    for (size_t b = 0; b < s->nbuckets; b++) {
        const tg__rule *rule = &s->rules.rule[s->bucket[b].rule];
        TG_TRY(tg__session_takes(s, rule));
        if (y->needs_mean && world > 1 && tg_spec_has(rule->spec, "exchange") &&
            strcmp(tg_spec_word(rule->spec, "exchange"), "none") == 0)
            return tg_fail(TG_E_UNSUPPORTED,
                           "strategy \"%s\" needs the mean over ranks; with exchange=none each has "
                           "only its own: allowed: another exchange",
                           tg_spec_name(y->spec));
    }
    return TG_OK;
}

static tg_status open_strategy(tg_simulation *sim, const char *spec, int world)
{
    tg_session *s = sim->session;
    const tg__strategy_setup setup = {.optimizer = list_tensors(sim),
                                      .steps_per_epoch = s->config.steps_per_epoch,
                                      .seed = s->config.seed,
                                      .size = world,
                                      .tensor = s->wtensor,
                                      .ntensors = s->ntrained,
                                      .nbuckets = s->nbuckets};
    TG_TRY(tg__strategy_create(spec, &setup, &s->strategy));
    TG_TRY(check_methods(s, world));
    memset(sim->zero, 0, s->ntrained * sizeof *sim->zero);
    s->actions.cap = s->nbuckets * s->strategy->in_flight;
    TG_TRY(tg_alloc(s->actions.cap, sizeof *s->actions.item, &s->actions.item));
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
    free(s->actions.item);
    free(sim->slots);
    free(sim->updates);
    s->strategy = NULL;
    s->actions = (tg__actions){0};
    sim->slots = NULL;
    sim->updates = NULL;
}

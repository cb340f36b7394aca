/* DiLoCo: many own steps, then an outer step with Nesterov momentum along the mean change. */
#include "strategy/nesterov.h"
#include "strategy/outer.h"

static const tg_key keys[] = {TG__OUTER_EVERY, TG__OUTER_NESTEROV, {.name = NULL}};

static tg_status init(tg__strategy *s)
{
    const tg__outer c = {.every = (uint64_t)tg_spec_int(s->spec, "every"),
                         .fragments = 1,
                         .lr = tg_spec_real(s->spec, "lr"),
                         .momentum = tg_spec_real(s->spec, "momentum"),
                         .clients = 1,
                         .state = TG__OUTER_KEEP};
    return tg__outer_init(s, &c);
}

const tg__strategy_ops tg__strategy_diloco = {
    .entry = {"diloco", "many local steps, then a Nesterov step along the average of their changes",
              "Douillard et al. 2023, arXiv:2311.08105", keys},
    .init = init,
    TG__OUTER_OPS,
};

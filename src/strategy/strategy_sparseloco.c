/* SparseLoCo: many own steps, then an outer step along the mean change. It has no momentum, because
 * the residual of the method (blocktopk) acts as one. */
#include "strategy/outer.h"

static const tg_key keys[] = {
    {.name = "every",
     .type = TG_KEY_INT,
     .def = "30",
     .min = 1,
     .max = 1e9,
     .help = "local steps per round"},
    {.name = "lr", .type = TG_KEY_REAL, .def = "1", .max = 1e30, .help = "of the outer step"},
    {.name = NULL}};

static tg_status init(tg__strategy *s)
{
    const tg__outer c = {.every = (uint64_t)tg_spec_int(s->spec, "every"),
                         .fragments = 1,
                         .lr = tg_spec_real(s->spec, "lr"),
                         .clients = 1,
                         .state = TG__OUTER_KEEP};
    return tg__outer_init(s, &c);
}

const tg__strategy_ops tg__strategy_sparseloco = {
    .entry = {"sparseloco", "many local steps, then one step along the average of their changes",
              "Sarfi et al. 2025, arXiv:2508.15706", keys},
    .method = "blocktopk",
    .init = init,
    TG__OUTER_OPS,
};

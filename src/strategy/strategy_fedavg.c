/* FedAvg: local SGD by changing subsets of the ranks, weighted by their samples. Clients begin a
 * round with the parameters only, and may contribute fewer steps than requested.
 *
 * Source: partial work: Li et al. 2020, FedProx, arXiv:1812.06127 */
#include "strategy/outer.h"

static const tg_key keys[] = {
    {.name = "every",
     .type = TG_KEY_INT,
     .def = "10",
     .min = 1,
     .max = 1e9,
     .help = "local steps per round"},
    {.name = "clients",
     .type = TG_KEY_REAL,
     .def = "1",
     .max = 1,
     .min_open = true,
     .help = "fraction of the ranks that take part in a round; at least one"},
    {.name = "weighted",
     .type = TG_KEY_FLAG,
     .def = "yes",
     .help = "weight ranks by their numbers of samples; no: equally"},
    {.name = "deadline",
     .type = TG_KEY_REAL,
     .def = "0",
     .max = 1e6,
     .help = "a rank that has spent this many seconds in the steps of a round begins no further "
             "step and hands in what it has; 0: no deadline"},
    {.name = NULL}};

static tg_status init(tg__strategy *s)
{
    const tg__outer c = {.every = (uint64_t)tg_spec_int(s->spec, "every"),
                         .fragments = 1,
                         .lr = 1,
                         .clients = tg_spec_real(s->spec, "clients"),
                         .weighted = tg_spec_flag(s->spec, "weighted"),
                         .state = TG__OUTER_RESET};
    s->round_steps = c.every;
    s->deadline_ns = (int64_t)(tg_spec_real(s->spec, "deadline") * 1e9);
    return tg__outer_init(s, &c);
}

const tg__strategy_ops tg__strategy_fedavg = {
    .entry = {"fedavg", "rounds of local steps by a sample of the ranks, weighted by their data",
              "McMahan et al. 2017, arXiv:1602.05629", keys},
    .init = init,
    TG__OUTER_OPS,
};

/* FedAvg: local SGD by changing subsets of the ranks, weighted by their samples. Clients may
 * contribute fewer steps than requested.
 *
 * Source: partial work: Li et al. 2020, FedProx, arXiv:1812.06127 */
#include "strategy/outer.h"

static const tg_key keys[] = {
    TG__KEY(INT, "every", "10", 1, 1e9, "local steps per round"),
    TG__KEY(REAL, "clients", "1", 0, 1,
            "fraction of the ranks that take part in a round; at least one", .min_open = true),
    TG__CHOICE("momentum", "keep", "keep|reset",
               "the optimizer's state at the start of a round: each rank keeps its own, or it is "
               "reset, as for clients that keep nothing between rounds"),
    TG__FLAG("weighted", "yes", "weight ranks by their numbers of samples; no: equally"),
    TG__KEY(REAL, "deadline", "0", 0, 1e6,
            "a rank that has spent this many seconds in the steps of a round begins no further "
            "step and hands in what it has; 0: no deadline"),
    {.name = NULL}};

static tg_status init(tg__strategy *s)
{
    s->round_steps = (uint64_t)tg_spec_int(s->spec, "every");
    s->deadline_ns = (int64_t)(tg_spec_real(s->spec, "deadline") * 1e9);
    return tg__outer_init(s);
}

const tg__strategy_ops tg__strategy_fedavg = {
    .entry = {"fedavg", "rounds of local steps by a sample of the ranks, weighted by their data",
              "McMahan et al. 2017, arXiv:1602.05629", keys},
    .tested = "every=3,clients=0.67",
    .init = init,
    TG__OUTER_OPS,
};

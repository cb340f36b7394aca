/* Local SGD (K-AVG, post-local SGD): own steps, then the mean of the changes. */
#include "strategy/outer.h"

static const tg_key keys[] = {
    TG__KEY(INT, "every", "8", 1, 1e9, "local steps between two averages"),
    TG__DURATION("after", "0",
                 "steps or epochs of uncompressed synchronous SGD at the start (post-local SGD)"),
    TG__CHOICE("momentum", "keep", "keep|average|reset",
               "the optimizer's state at an average: each rank keeps its own, they are averaged "
               "(uncompressed), or reset (also before the first round)"),
    {.name = NULL}};

const tg__strategy_ops tg__strategy_local = {
    .entry = {"local", "local steps, and every few of them the average of their changes",
              "Stich 2019, arXiv:1805.09767; Lin et al. 2020, arXiv:1808.07217", keys},
    .tested = "every=3,after=2",
    .init = tg__outer_init,
    TG__OUTER_OPS,
};

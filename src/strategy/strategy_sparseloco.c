/* SparseLoCo: many own steps, then an outer step along the mean change. It has no momentum, because
 * the residual of the method (blocktopk) acts as one. */
#include "strategy/outer.h"

static const tg_key keys[] = {TG__KEY(INT, "every", "30", 1, 1e9, "local steps per round"),
                              TG__KEY(REAL, "lr", "1", 0, 1e30, "of the outer step"),
                              {.name = NULL}};

const tg__strategy_ops tg__strategy_sparseloco = {
    .entry = {"sparseloco", "many local steps, then one step along the average of their changes",
              "Sarfi et al. 2025, arXiv:2508.15706", keys},
    .method = "blocktopk",
    .tested = "every=3",
    .init = tg__outer_init,
    TG__OUTER_OPS,
};

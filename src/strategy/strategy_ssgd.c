/* Synchronous SGD: w = optimizer(w, mean over ranks of g). The exchange of a bucket starts as soon
 * as its gradient is complete, while the backward pass continues. (With method 2bit this is
 * "bit-sgd".) */
#include "strategy/strategy.h"

static tg_status init(tg__strategy *s)
{
    return tg__strategy_add_optimizer(s, TG__ROLE_REPLICATED);
}

const tg__strategy_ops tg__strategy_ssgd = {
    .entry = {"ssgd", "synchronous: exchange in every step, wait for the average, then update",
              "Das et al. 2016, arXiv:1602.06709", NULL},
    .init = init,
    .by_bucket = true,
};

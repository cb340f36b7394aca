/* Adam with weight decay that bypasses the moments: see optimizer_adam.c */
#include "strategy/optimizers.h"

static tg_status init(tg_optimizer *o)
{
    o->decoupled = true;
    return tg__adam_init(o);
}

static const tg_key keys[] = {
    TG__OPTIMIZER_KEY_LR("0.001"),
    TG__ADAM_KEYS,
    TG__OPTIMIZER_KEY_DECAY("0.01", "decoupled: subtracts lr*wd*w from w"),
    TG__OPTIMIZER_KEYS_LAST("none", "1d: no weight decay for biases and norms"),
};

const tg__optimizer_ops tg__optimizer_adamw = {
    .entry = {"adamw", "Adam with decoupled weight decay",
              "Loshchilov and Hutter 2019, arXiv:1711.05101, alg. 2", keys},
    .slot_names = {"first_moment", "second_moment"},
    .init = init,
    .step = tg__adam_step,
    .counts = true,
    .adaptive = true,
};

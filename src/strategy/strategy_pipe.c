/* PIPE-SGD: synchronous SGD whose averages arrive width - 1 steps late. The delay is not corrected:
 * parameters are always the global ones. */
#include "strategy/strategy.h"

static const tg_key keys[] = {
    TG__KEY(INT, "width", "2", 1, 1000,
            "a gradient is applied this many steps after its exchange began; 1: ssgd"),
    {.name = NULL}};

static tg_status init(tg__strategy *s)
{
    s->in_flight = (size_t)tg_spec_int(s->spec, "width");
    return tg__strategy_add_optimizer(s, TG__ROLE_REPLICATED);
}

static void ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out)
{
    tg__actions_add(out, bucket, true, t + s->in_flight - 1);
}

const tg__strategy_ops tg__strategy_pipe = {
    .entry = {"pipe", "like ssgd, but averages are applied width - 1 steps late",
              "Li et al. 2018, arXiv:1811.03619", keys},
    .rate =
        &(const tg_rate_hint){
            .struct_size = sizeof(tg_rate_hint),
            .methods = true,
            .low = 0,
            .high = 4,
            .expect = "its gradients are late and nothing makes up for it (LeNet-5, an epoch of "
                      "MNIST, 4 workers: 96 % where ssgd has 98 %)",
            .instead = "0.4 times the rate (98 %), or dga:delay=1, which takes own steps meanwhile "
                       "(98 %)",
            .unless = "width=1", /* ssgd */
        },
    .tested = "width=3",
    .init = init,
    .ready = ready,
};

/* Local SGD (K-AVG, post-local SGD): own steps, then the mean of the changes. */
#include "strategy/outer.h"

#include <math.h>
#include <string.h>

static const tg_key keys[] = {
    {.name = "every",
     .type = TG_KEY_INT,
     .def = "8",
     .min = 1,
     .max = 1e9,
     .help = "local steps between two averages"},
    {.name = "after",
     .type = TG_KEY_DURATION,
     .def = "0",
     .max = INFINITY,
     .help = "steps or epochs of uncompressed synchronous SGD at the start (post-local SGD)"},
    {.name = "momentum",
     .type = TG_KEY_CHOICE,
     .def = "keep",
     .choices = "keep|average|reset",
     .help = "the optimizer's state at an average: each rank keeps its own, they are averaged "
             "(uncompressed), or reset (also before the first round)"},
    {.name = NULL}};

static tg_status init(tg__strategy *s)
{
    const char *state = tg_spec_word(s->spec, "momentum");
    tg__outer c = {.every = (uint64_t)tg_spec_int(s->spec, "every"),
                   .fragments = 1,
                   .lr = 1,
                   .clients = 1,
                   .state = strcmp(state, "keep") == 0      ? TG__OUTER_KEEP
                            : strcmp(state, "average") == 0 ? TG__OUTER_AVERAGE
                                                            : TG__OUTER_RESET};
    TG_TRY(tg__strategy_until(s, "after", &c.after));
    return tg__outer_init(s, &c);
}

const tg__strategy_ops tg__strategy_local = {
    .entry = {"local", "local steps, and every few of them the average of their changes",
              "Stich 2019, arXiv:1805.09767; Lin et al. 2020, arXiv:1808.07217", keys},
    .init = init,
    TG__OUTER_OPS,
};

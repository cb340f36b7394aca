/* Streaming DiLoCo: fragments of the parameters take turns, and training continues while their
 * average is in flight. (Few bits per value are the method's choice, e.g. qsgd:bits=4.) */
#include "base/mem.h"
#include "strategy/nesterov.h"
#include "strategy/outer.h"

static const tg_key keys[] = {
    TG__OUTER_EVERY,
    {.name = "fragments",
     .type = TG_KEY_INT,
     .def = "2",
     .min = 1,
     .max = 1e6,
     .help = "parts of the parameters, whose rounds end one after the other; at most as many as "
             "there are buckets (the default adapts)"},
    {.name = "overlap",
     .type = TG_KEY_INT,
     .def = "1",
     .max = 1e9,
     .help =
         "steps that an average may take; it is applied before the local step of the last of them"},
    {.name = "alpha",
     .type = TG_KEY_REAL,
     .def = "0",
     .max = 1,
     .help = "share of the own parameters that stays when the average arrives"},
    TG__OUTER_NESTEROV,
    {.name = NULL}};

/* The number of fragments: as requested; by default at most the number of buckets. */
static uint32_t fragments(const tg__strategy *s)
{
    const size_t wanted = (size_t)tg_spec_int(s->spec, "fragments");
    return (uint32_t)(tg_spec_given(s->spec, "fragments") ? wanted : TG__MIN(wanted, s->nbuckets));
}

static tg_status init(tg__strategy *s)
{
    const tg__outer c = {.every = (uint64_t)tg_spec_int(s->spec, "every"),
                         .overlap = (uint64_t)tg_spec_int(s->spec, "overlap"),
                         .fragments = fragments(s),
                         .alpha = tg_spec_real(s->spec, "alpha"),
                         .lr = tg_spec_real(s->spec, "lr"),
                         .momentum = tg_spec_real(s->spec, "momentum"),
                         .clients = 1,
                         .state = TG__OUTER_KEEP};
    return tg__outer_init(s, &c);
}

const tg__strategy_ops tg__strategy_streaming = {
    .entry = {"streaming",
              "like diloco, one fragment after the other, in parallel with local steps",
              "Douillard et al. 2025, arXiv:2501.18512", keys},
    .init = init,
    TG__OUTER_OPS,
};

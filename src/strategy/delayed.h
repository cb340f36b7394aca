/* OD-SGD and CD-SGD. They differ in one number: k = 1 is OD-SGD. See delayed.c */
#ifndef TG_STRATEGY_DELAYED_H
#define TG_STRATEGY_DELAYED_H

#include "strategy/strategy.h"

/* k as in tg__kstep_dense; the other keys are read from s->spec. */
TG_NODISCARD tg_status tg__delayed_init(tg__strategy *s, uint64_t k);
/* Whether a spec of these strategies means averages of updates.
 * prefers  what auto means, if nothing in the spec excludes it */
bool tg__delayed_averages_updates(const tg_spec *spec, bool prefers);
void tg__delayed_ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out);
void tg__delayed_result(tg__strategy *s, const tg__result *r);
void tg__delayed_open(tg__strategy *s, uint64_t t);
void tg__delayed_step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out);

/* The keys of both. */
#define TG__DCASGD_LAMBDA "0.04"
#define TG__DELAYED_KEYS(warmup_steps)                                                            \
    TG__DURATION(                                                                                 \
        "warmup", warmup_steps,                                                                   \
        "steps or epochs of uncompressed exchanges, waited for, at the start; the default is at " \
        "most a fifth of the run",                                                                \
        .share = 0.2),                                                                            \
        TG__KEY(REAL, "eta_loc", NULL, 0, 1e30,                                                   \
                "learning rate of the local update, scaled with the schedule; default: that of "  \
                "the step"),                                                                      \
        TG__CHOICE(                                                                               \
            "local", "auto", "auto|sgd|preview|dcasgd",                                           \
            "local update: plain SGD (sgd), what the optimizer would do (preview), or "           \
            "delay-compensated (dcasgd); auto: preview, but sgd with eta_loc or scaled=yes"),     \
        TG__KEY(REAL, "lambda", TG__DCASGD_LAMBDA, 0, 1e30,                                       \
                "weight of the compensation with local=dcasgd"),                                  \
        TG__FLAG("scaled", "no",                                                                  \
                 "multiply the gradient of the local update by 1/ranks, as in the authors' code")

#define TG__DELAYED_OPS                                                                 \
    .ready = tg__delayed_ready, .result = tg__delayed_result, .open = tg__delayed_open, \
    .step = tg__delayed_step, .bypasses = true, .steps = true

#endif

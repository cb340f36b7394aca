/* OD-SGD and CD-SGD. They differ in one number: k = 1 is OD-SGD. See delayed.c */
#ifndef TG_STRATEGY_DELAYED_H
#define TG_STRATEGY_DELAYED_H

#include "strategy/strategy.h"
#include "telegrad/spec.h"
#include <math.h>

/* k as in tg__kstep_dense; the other keys are read from s->spec. */
TG_NODISCARD tg_status tg__delayed_init(tg__strategy *s, uint64_t k);
void tg__delayed_fini(tg__strategy *s);
void tg__delayed_begin(tg__strategy *s);
void tg__delayed_ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out);
void tg__delayed_result(tg__strategy *s, const tg__result *r);
void tg__delayed_step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out);
void tg__delayed_drained(tg__strategy *s, uint64_t t, tg__actions *out);
const float *tg__delayed_global(const tg__strategy *s, size_t i);

/* The keys of both. */
#define TG__DCASGD_LAMBDA "0.04"
#define TG__DELAYED_KEYS(warmup_steps)                                                             \
    {.name = "warmup",                                                                             \
     .type = TG_KEY_DURATION,                                                                      \
     .def = warmup_steps,                                                                          \
     .max = INFINITY,                                                                              \
     .share = 0.2,                                                                                 \
     .help = "steps or epochs of uncompressed synchronous SGD at the start; the default is at "    \
             "most a fifth of the run"},                                                           \
        {.name = "eta_loc",                                                                        \
         .type = TG_KEY_REAL,                                                                      \
         .max = 1e30,                                                                              \
         .help = "learning rate of the local update, scaled with the schedule; default: that of "  \
                 "the step"},                                                                      \
        {.name = "local",                                                                          \
         .type = TG_KEY_CHOICE,                                                                    \
         .def = "auto",                                                                            \
         .choices = "auto|sgd|preview|dcasgd",                                                     \
         .help = "local update: plain SGD (sgd), what the optimizer would do (preview), or "       \
                 "delay-compensated (dcasgd); auto: preview, but sgd with eta_loc or scaled=yes"}, \
        {.name = "lambda",                                                                         \
         .type = TG_KEY_REAL,                                                                      \
         .def = TG__DCASGD_LAMBDA,                                                                 \
         .max = 1e30,                                                                              \
         .help = "weight of the compensation with local=dcasgd"},                                  \
    {                                                                                              \
        .name = "scaled", .type = TG_KEY_FLAG, .def = "no",                                        \
        .help = "multiply the gradient of the local update by 1/ranks, as in the authors' code"    \
    }

#define TG__DELAYED_OPS                                                                     \
    .fini = tg__delayed_fini, .begin = tg__delayed_begin, .ready = tg__delayed_ready,       \
    .result = tg__delayed_result, .step = tg__delayed_step, .drained = tg__delayed_drained, \
    .global = tg__delayed_global, .bypasses = true, .steps = true

#endif

/* Local steps, then an average: local SGD, K-AVG, post-local SGD, FedAvg, DiLoCo and streaming
 * DiLoCo. They differ in a few numbers. See outer.c */
#ifndef TG_STRATEGY_OUTER_H
#define TG_STRATEGY_OUTER_H

#include "strategy/strategy.h"

typedef enum tg__outer_momentum {
    TG__OUTER_KEEP,    /* each rank keeps its own */
    TG__OUTER_AVERAGE, /* averaged with the parameters, uncompressed */
    TG__OUTER_RESET    /* set to 0 at the start of a round */
} tg__outer_momentum;

typedef struct tg__outer {
    uint64_t every;      /* own steps in a round, >= 1 */
    uint64_t after;      /* steps of uncompressed ssgd before the first round */
    uint64_t overlap;    /* steps between the end of a round and its average, < every */
    uint32_t fragments;  /* parts of the parameters; their rounds end one after another */
    double lr, momentum; /* of the outer Nesterov step; 1 and 0: the mean itself */
    double alpha;        /* share of the own parameters that is kept when a late average arrives */
    double clients;      /* fraction of the ranks that take part in a round; 1: all */
    bool weighted;       /* by the ranks' numbers of samples */
    tg__outer_momentum state;
} tg__outer;

/* Errors TG_E_SPEC (overlap, fragments), TG_E_NOMEM */
TG_NODISCARD tg_status tg__outer_init(tg__strategy *s, const tg__outer *config);
void tg__outer_fini(tg__strategy *s);
void tg__outer_begin(tg__strategy *s);
void tg__outer_ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out);
void tg__outer_result(tg__strategy *s, const tg__result *r);
void tg__outer_step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out);
void tg__outer_drained(tg__strategy *s, uint64_t t, tg__actions *out);
const float *tg__outer_global(const tg__strategy *s, size_t i);
const char *tg__outer_regroup(tg__strategy *s, uint64_t t);
double tg__outer_weight(const tg__strategy *s, uint64_t t);

#define TG__OUTER_OPS                                                                     \
    .fini = tg__outer_fini, .begin = tg__outer_begin, .ready = tg__outer_ready,           \
    .result = tg__outer_result, .step = tg__outer_step, .drained = tg__outer_drained,     \
    .global = tg__outer_global, .weight = tg__outer_weight, .regroup = tg__outer_regroup, \
    .steps = true, .bypasses = true

#endif

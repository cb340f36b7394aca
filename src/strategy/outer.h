/* Local steps, then an average: local SGD, K-AVG, post-local SGD, FedAvg, DiLoCo and streaming
 * DiLoCo. They differ in a few numbers. See outer.c */
#ifndef TG_STRATEGY_OUTER_H
#define TG_STRATEGY_OUTER_H

#include "strategy/nesterov.h"
#include "strategy/strategy.h"

typedef enum tg__outer_momentum {
    TG__OUTER_KEEP,    /* each rank keeps its own */
    TG__OUTER_AVERAGE, /* averaged with the parameters, uncompressed */
    TG__OUTER_RESET    /* set to 0 at the start of a round */
} tg__outer_momentum;

typedef struct tg__outer {
    uint64_t every;     /* own steps in a round, >= 1 */
    uint64_t after;     /* steps of uncompressed ssgd before the first round */
    uint64_t overlap;   /* steps between the end of a round and its average, < every */
    uint32_t fragments; /* parts of the parameters; their rounds end one after another */
    tg__nesterov outer; /* its step; lr 1 and momentum 0: the mean itself */
    bool rescale;       /* its momentum shrinks with the learning rate */
    double alpha;       /* share of the own parameters that is kept when a late average arrives */
    double clients;     /* fraction of the ranks that take part in a round; 1: all */
    bool weighted;      /* by the ranks' numbers of samples */
    tg__outer_momentum state;
} tg__outer;

/* Read the keys of s->spec that are members of tg__outer. Without them, all ranks take part, the
 * mean of their changes is waited for and applied as it is, and each keeps its optimizer's state.
 * Errors TG_E_SPEC (overlap, fragments), TG_E_NOMEM */
TG_NODISCARD tg_status tg__outer_init(tg__strategy *s);
void tg__outer_ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out);
void tg__outer_result(tg__strategy *s, const tg__result *r);
void tg__outer_step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out);
void tg__outer_open(tg__strategy *s, uint64_t t);
void tg__outer_drained(tg__strategy *s, uint64_t t, tg__actions *out);
const char *tg__outer_regroup(tg__strategy *s, uint64_t t);
bool tg__outer_touches(const tg__strategy *s, uint64_t t, uint32_t bucket, bool in_step);
double tg__outer_weight(const tg__strategy *s, uint64_t t, int rank);

#define TG__OUTER_OPS                                                                   \
    .ready = tg__outer_ready, .result = tg__outer_result, .open = tg__outer_open,       \
    .step = tg__outer_step, .drained = tg__outer_drained, .touches = tg__outer_touches, \
    .weight = tg__outer_weight, .regroup = tg__outer_regroup, .steps = true, .bypasses = true

#endif

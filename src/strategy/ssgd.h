/* Shared by strategies that do nothing but apply each average to the parameters. */
#ifndef TG_STRATEGY_SSGD_H
#define TG_STRATEGY_SSGD_H

#include "strategy/strategy.h"

void tg__ssgd_nothing(tg__strategy *s);
void tg__ssgd_result(tg__strategy *s, const tg__result *r);
void tg__ssgd_step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out);
void tg__ssgd_drained(tg__strategy *s, uint64_t t, tg__actions *out);
const float *tg__ssgd_global(const tg__strategy *s, size_t i);

#define TG__SSGD_OPS                                                                \
    .fini = tg__ssgd_nothing, .begin = tg__ssgd_nothing, .result = tg__ssgd_result, \
    .step = tg__ssgd_step, .drained = tg__ssgd_drained, .global = tg__ssgd_global

#endif

/* The tensors of a model, for bench exchange --model. Only in a command with a trainer. */
#ifndef TG_BENCH_EXCHANGE_MODEL_H
#define TG_BENCH_EXCHANGE_MODEL_H

#include "bench/exchange/bench_exchange.h"

/* Check a model's spec string. Errors TG_E_SPEC */
TG_NODISCARD tg_status bench_exchange_model_check(const char *spec);

/* Fill o->tensor, o->tensors and o->n with the trained tensors of the model.
 * Returns what to free with bench_exchange_model_close, through *opened_p, also on failure.
 * Errors  TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status bench_exchange_model_open(const char *spec, bench_exchange_options *o,
                                                 void **opened_p);
/* NULL is fine. */
void bench_exchange_model_close(void *opened);

#endif

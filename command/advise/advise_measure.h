/* telegrad advise --measure: the figures of the time model, over the transport as it is. */
#ifndef TG_CLI_ADVISE_MEASURE_H
#define TG_CLI_ADVISE_MEASURE_H

#include "command/advise/advise.h"

/* The method that psi, delta and T_bit are of. */
#define ADVISE_CODED "2bit"

/* What short runs train on, and so what the model reads: the set given, or the model's usual one. A
 * static string or one of o. Errors TG_E_SPEC (no such model) */
TG_NODISCARD tg_status advise_measure_data(const struct run_options *o, const char **data_p);

/* tau, T_ssgd, T_bit: median steps of short runs without an exchange, dense, coded, all without
 * overlap; phi, psi, delta: exchanges of the model's gradient with nothing else to do; alpha, beta:
 * exchanges of several sizes. All ranks of the job call it; figures are rank 0's.
 * Errors those of the runs: TG_E_IO (no data to train on), TG_E_PEER, ... */
TG_NODISCARD tg_status advise_measure(const struct launch *l, const struct run_options *o,
                                      struct advise_measured *m);

#endif

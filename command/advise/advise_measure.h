/* telegrad advise --measure: measures the figures of the time model over the actual transport. */
#ifndef TG_CLI_ADVISE_MEASURE_H
#define TG_CLI_ADVISE_MEASURE_H

#include "command/advise/advise.h"

/* The method for psi, delta and T_bit. */
#define ADVISE_CODED "2bit"

/* The data set for the short runs, which also sets the model's input: the one given, or the model's
 * usual one. *data_p is a static string or one of o. Errors TG_E_SPEC (no such model) */
TG_NODISCARD tg_status advise_measure_data(const struct run_options *o, const char **data_p);

/* Measures on all ranks of the job; figures are rank 0's.
 *   tau, T_ssgd, T_bit   median steps of short runs without overlap: no exchange, dense, coded
 *   phi, psi, delta      exchanges of the model's gradient while nothing else runs
 *   alpha, beta          exchanges of several sizes
 * Errors those of the runs: TG_E_IO (no data to train on), TG_E_PEER, ... */
TG_NODISCARD tg_status advise_measure(const struct launch *l, const struct run_options *o,
                                      struct advise_measured *m);

#endif

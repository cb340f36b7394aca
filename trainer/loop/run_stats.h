/* What a run remembers of each step, and the figures drawn from it. */
#ifndef TG_TRAIN_RUN_STATS_H
#define TG_TRAIN_RUN_STATS_H

#include "trainer/loop/train.h"

typedef struct run_step {
    double step_ms, compute_ms, exchange_ms, apply_ms, wait_ms;
    uint64_t bytes_sent; /* since the last step, without sums and saves */
    uint64_t bytes_dense, coded_bytes;
    uint64_t elements, kept; /* of what was delivered in this step */
    double encode_ns, decode_ns;
    bool coded; /* what was delivered in this step; coded_bytes 0: nothing was */
} run_step;

/* All zero: no steps yet. */
typedef struct run_stats {
    run_step *steps;
    size_t count, room;
} run_stats;

/* Errors TG_E_NOMEM */
TG_NODISCARD tg_status run_stats_add(run_stats *s, const run_step *step);
void run_stats_free(run_stats *s);

/* Set the figures of *end that are drawn from steps: medians, means, ratios, bytes_per_step.
 * nparams: parameters of the model; seconds, sent: of training in this run, drain included, sums
 * and saves not. Figures of which no step tells anything are NAN. Errors TG_E_NOMEM */
TG_NODISCARD tg_status run_stats_figures(const run_stats *s, size_t nparams, double seconds,
                                         double sent, train_end_info *end);

#endif

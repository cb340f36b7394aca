/* What a run stores about each step, and the figures computed from it. */
#ifndef TG_TRAIN_RUN_STATS_H
#define TG_TRAIN_RUN_STATS_H

#include "trainer/loop/train.h"

typedef struct run_step {
    double step_ms, compute_ms, exchange_ms, apply_ms, wait_ms;
    uint64_t bytes_dense, coded_bytes;
    uint64_t elements, kept; /* of the exchanges delivered in this step */
    double bytes_exchanged;  /* of them (in a simulation: of those that start in it) ... */
    bool exchanged;          /* ... if there were any */
    double encode_ns, decode_ns;
    bool coded; /* of the exchanges delivered; coded_bytes 0: none was */
} run_step;

/* All zero: no steps yet. */
typedef struct run_stats {
    run_step *steps;
    size_t count, room;
} run_stats;

/* Errors TG_E_NOMEM */
TG_NODISCARD tg_status run_stats_add(run_stats *s, const run_step *step);
void run_stats_free(run_stats *s);

/* Set the figures of *end that are computed from steps: medians, means, ratios, bytes_per_step.
 * nparams: parameters of the model. seconds, sent: time and bytes of training in this run,
 * including the drain, without sums and saves. Figures without data are NAN. Errors TG_E_NOMEM */
TG_NODISCARD tg_status run_stats_figures(const run_stats *s, size_t nparams, double seconds,
                                         double sent, train_end_info *end);

#endif

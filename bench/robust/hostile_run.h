/* Training with ranks that send wrong gradients, over a parameter server with a robust rule. Ranks
 * and the server are threads of one process. */
#ifndef TG_BENCH_HOSTILE_RUN_H
#define TG_BENCH_HOSTILE_RUN_H

#include "telegrad/spec.h"

/* What hostile ranks send in place of their gradient g:
 *   none    g
 *   flip    -g
 *   scale   1000 g
 *   nan     NaN
 *   little  of the honest ranks' gradients, element by element, the mean - z deviations (Baruch et
 *           al. 2019, arXiv:1902.06156); hostile ranks know them all */
typedef struct hostile_job {
    int workers, hostile; /* the first ranks are hostile */
    uint64_t steps, seed;
    size_t batch; /* of each rank */
    const char *attack, *data, *model, *method, *optimizer;
    const char *mode; /* of the server: "sum:combine=median" */
    double z;
} hostile_job;

typedef struct hostile_result {
    double accuracy;  /* on the test set, after the last step */
    uint64_t skipped; /* steps that were dropped */
} hostile_result;

/* Errors  of the first rank or server that fails */
TG_NODISCARD tg_status hostile_run(const hostile_job *job, hostile_result *result_p);

#endif

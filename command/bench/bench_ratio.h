/* A figure of several measurements, as JSON. */
#ifndef TG_CLI_BENCH_RATIO_H
#define TG_CLI_BENCH_RATIO_H

#include "bench/rows/bench.h"
#include <jansson.h>

/* {"median": .., "min": .., "max": ..}. NULL: out of memory */
json_t *bench_ratio_json(const bench_ratio *r);

#endif

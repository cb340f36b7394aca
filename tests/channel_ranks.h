/* Reducers on a rank's transport (exchange_ranks.h). Include it after cmocka.h. */
#ifndef TG_CHANNEL_RANKS_H
#define TG_CHANNEL_RANKS_H

#include "exchange_ranks.h"
#include "telegrad/reducer.h"

static inline tg_status make_for(job *j, const char *method, size_t n, int64_t timeout_ms,
                                 tg_reducer **r_p)
{
    const tg_segment matrix = {.n = n, .rows = n % 8 ? n : n / 8, .cols = n % 8 ? 1 : 8};
    const tg_reducer_config config = {.struct_size = sizeof config,
                                      .seed = 3,
                                      .timeout_ms = timeout_ms,
                                      .steps_per_epoch = 10,
                                      .segments = &matrix,
                                      .nsegments = 1};
    return tg_reducer_create(method, j->t, n, &config, r_p);
}

static inline tg_status make(job *j, const char *method, size_t n, tg_reducer **r_p)
{
    return make_for(j, method, n, 30000, r_p);
}

#endif

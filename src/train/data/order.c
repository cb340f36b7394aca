#include "train/data/order.h"
#include "train/train_util.h"
#include <stdlib.h>

struct order {
    uint64_t seed, steps_per_epoch;
    size_t samples, world, rank, batch;
    uint64_t epoch; /* that perm is of; UINT64_MAX: none yet */
    uint32_t *perm; /* (samples) */
};

tg_status order_create(uint64_t seed, size_t samples, int world, int rank, size_t batch,
                       order **o_p)
{
    if (batch == 0 || samples > UINT32_MAX || batch > samples / (size_t)world)
        return tg_fail(TG_E_ARG,
                       "batch=%zu: allowed: 1 to %zu (%zu training samples over %d ranks)", batch,
                       samples / (size_t)world, samples, world);
    order *o;
    TG_TRY(train_alloc(1, sizeof *o, &o));
    *o = (order){.seed = seed,
                 .steps_per_epoch = samples / ((size_t)world * batch),
                 .samples = samples,
                 .world = (size_t)world,
                 .rank = (size_t)rank,
                 .batch = batch,
                 .epoch = UINT64_MAX};
    const tg_status status = train_alloc(samples, sizeof *o->perm, &o->perm);
    if (status != TG_OK) {
        free(o);
        return status;
    }
    *o_p = o;
    return TG_OK;
}

void order_destroy(order *o)
{
    if (!o)
        return;
    free(o->perm);
    free(o);
}

uint64_t order_steps_per_epoch(const order *o)
{
    return o->steps_per_epoch;
}

const uint32_t *order_batch(order *o, uint64_t step)
{
    const uint64_t epoch = step / o->steps_per_epoch;
    if (epoch != o->epoch) {
        const tg_rng_key key = {.seed = o->seed, .purpose = TG_PURPOSE_SHUFFLE, .step = epoch};
        tg_rng_permutation(&key, o->perm, o->samples);
        o->epoch = epoch;
    }
    const size_t within = (size_t)(step % o->steps_per_epoch);
    return o->perm + (within * o->world + o->rank) * o->batch;
}

#include "trainer/data/order.h"
#include "telegrad/tools.h"
#include "telegrad/random.h"
#include <stdlib.h>

struct order {
    uint64_t seed, steps_per_epoch;
    size_t samples, world, rank, batch, parts;
    const uint32_t *own; /* (samples) NULL: the order is shared by all ranks */
    uint64_t pass;       /* the pass that perm is for; UINT64_MAX: none yet */
    uint32_t *perm;      /* (samples) */
};

static tg_status create(const order *from, order **o_p)
{
    order *o;
    TG_TRY(tg_alloc(1, sizeof *o, &o));
    *o = *from;
    o->pass = UINT64_MAX;
    const tg_status status = tg_alloc(o->samples, sizeof *o->perm, &o->perm);
    if (status != TG_OK) {
        free(o);
        return status;
    }
    *o_p = o;
    return TG_OK;
}

tg_status order_create(uint64_t seed, size_t samples, int world, int rank, size_t batch,
                       size_t parts, order **o_p)
{
    const size_t most = samples / (size_t)world / parts;
    if (batch == 0 || samples > UINT32_MAX || batch > most)
        return tg_fail(TG_E_ARG,
                       "--batch %zu: allowed: 1 to %zu (%zu training samples over %d rank%s)",
                       batch, most, samples, world, world == 1 ? "" : "s");
    const order from = {.seed = seed,
                        .steps_per_epoch = samples / ((size_t)world * batch * parts),
                        .samples = samples,
                        .world = (size_t)world,
                        .rank = (size_t)rank,
                        .batch = batch,
                        .parts = parts};
    return create(&from, o_p);
}

tg_status order_create_own(uint64_t seed, const uint32_t *own, size_t n, int rank, size_t batch,
                           order **o_p)
{
    const order from = {
        .seed = seed, .samples = n, .rank = (size_t)rank, .batch = batch, .own = own};
    return create(&from, o_p);
}

void order_destroy(order *o)
{
    if (!o)
        return;
    free(o->perm);
    free(o);
}

/* tensor: 0 for the order of all ranks, 1 for the order of one */
static void shuffle(order *o, uint64_t pass)
{
    if (pass == o->pass)
        return;
    const tg_rng_key key = {.seed = o->seed,
                            .purpose = TG_PURPOSE_SHUFFLE,
                            .rank = o->own ? (uint32_t)o->rank : 0,
                            .step = pass,
                            .tensor = o->own ? 1 : 0};
    tg_rng_permutation(&key, o->perm, o->samples);
    o->pass = pass;
}

/* In the order shared by all ranks: the position where this rank's batch begins. */
static size_t begin_of(order *o, uint64_t number)
{
    const uint64_t step = number / o->parts;
    const size_t within = (size_t)(step % o->steps_per_epoch), part = (size_t)(number % o->parts);
    shuffle(o, step / o->steps_per_epoch);
    return ((within * o->world + o->rank) * o->parts + part) * o->batch;
}

void order_batch(order *o, uint64_t number, uint32_t *index, uint64_t *pass)
{
    const size_t begin = o->own ? 0 : begin_of(o, number);
    for (size_t i = 0; i < o->batch; i++) {
        if (o->own) {
            const uint64_t at = number * o->batch + i;
            shuffle(o, at / o->samples);
            index[i] = o->own[o->perm[at % o->samples]];
        } else {
            index[i] = o->perm[begin + i];
        }
        pass[i] = o->pass;
    }
}

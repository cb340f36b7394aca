/* The list of exchanges, and what they share. */
#include "exchange/exchange.h"
#include "base/mem.h"
#include "exchange/sliced.h"
#include "telegrad/spec.h"
#include <stdlib.h>
#include <string.h>

#define TG_EXCHANGE(name) extern const tg__exchange_ops tg__##name##_exchange;
#include "exchange/exchanges.def"
#undef TG_EXCHANGE
extern const tg__exchange_ops tg__broadcast_exchange, tg__reduce_exchange, tg__push_exchange;
static const tg__exchange_ops *const not_selectable[] = {&tg__broadcast_exchange,
                                                         &tg__reduce_exchange, &tg__push_exchange};

static const tg__exchange_ops *const exchanges[] = {
#define TG_EXCHANGE(name) &tg__##name##_exchange,
#include "exchange/exchanges.def"
#undef TG_EXCHANGE
};

static const tg_entry *const entries[] = {
#define TG_EXCHANGE(name) &tg__##name##_exchange.entry,
#include "exchange/exchanges.def"
#undef TG_EXCHANGE
};

const tg__exchange_ops *const *tg__exchanges(size_t *count_p)
{
    *count_p = TG_COUNT(exchanges);
    return exchanges;
}

const tg_entry *const *tg__exchange_entries(size_t *count_p)
{
    *count_p = TG_COUNT(entries);
    return entries;
}

const tg__exchange_ops *tg__exchange_find(const char *name)
{
    for (size_t i = 0; i < TG_COUNT(exchanges); i++)
        if (strcmp(exchanges[i]->entry.name, name) == 0)
            return exchanges[i];
    for (size_t i = 0; i < TG_COUNT(not_selectable); i++)
        if (strcmp(not_selectable[i]->entry.name, name) == 0)
            return not_selectable[i];
    return NULL;
}

tg_status tg__exchange_create(const tg__exchange_ops *ops, int rank, int size, size_t n,
                              tg_codec *codec, const tg__combine *combine, tg__exchange **x_p)
{
    return tg__exchange_create_served(ops, rank, size, 0, n, codec, combine, x_p);
}

tg_status tg__exchange_create_served(const tg__exchange_ops *ops, int rank, int size, int servers,
                                     size_t n, tg_codec *codec, const tg__combine *combine,
                                     tg__exchange **x_p)
{
    const bool valid = rank >= 0 && rank < size && n <= TG_MAX_ELEMENTS;
    uint32_t slices = 1;
    if (valid && ops->sliceable && combine->additive && (codec->ops->properties & TG__LOSSLESS)) {
        tg__cost cost;
        ops->cost(size, n, 4.0 * (double)n, &cost);
        slices = tg__slice_count(size, n, 4.0 * (double)n, cost.rounds);
    }
    return tg__slices_create(ops, rank, size, servers, n, codec, combine, slices, x_p);
}

static tg_status init(tg__exchange *x)
{
    TG_TRY(tg__owned_alloc(&x->owned, 1, x->ops->impl_bytes, &x->impl));
    return x->ops->init(x);
}

tg_status tg__slices_create(const tg__exchange_ops *ops, int rank, int size, int servers, size_t n,
                            tg_codec *codec, const tg__combine *combine, uint32_t slices,
                            tg__exchange **x_p)
{
    if (size < 1 || rank < 0 || rank >= size)
        return tg_fail(TG_E_ARG, "rank=%d of %d ranks: allowed: 0 <= rank < size", rank, size);
    if (n > TG_MAX_ELEMENTS)
        return tg_fail(TG_E_ARG, "n=%zu elements: allowed: at most %zu", n, TG_MAX_ELEMENTS);
    tg__exchange *x;
    TG_TRY(tg_alloc(1, sizeof *x, &x));
    *x = (tg__exchange){.ops = ops,
                        .rank = rank,
                        .size = size,
                        .servers = servers,
                        .n = n,
                        .codec = codec,
                        .combine = combine};
    tg_status status = slices > 1 ? tg__sliced_init(x, slices) : init(x);
    if (status != TG_OK) {
        tg__exchange_destroy(x);
        return status;
    }
    *x_p = x;
    return TG_OK;
}

void tg__exchange_destroy(tg__exchange *x)
{
    if (!x)
        return;
    tg__owned_free(&x->owned);
    free(x);
}

double tg__dense_bytes(int size, size_t n)
{
    return 8.0 * (double)n * (double)(size - 1) / (double)size;
}

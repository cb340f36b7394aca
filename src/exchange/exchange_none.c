/* No exchange: result = decode(own frame). There are no messages, so ranks diverge. For a single
 * rank, and for strategies and tests that need only the codec's effect. */
#include "exchange/message.h"
#include "base/mem.h"

static tg_status none_init(tg__exchange *x)
{
    tg__messages *own;
    TG_TRY(tg_alloc(1, sizeof *own, &own));
    x->impl = own;
    return tg__parts_of_vector(x, own);
}

static void none_fini(tg__exchange *x)
{
    tg__messages_free(x->impl);
}

static tg_status none_start(tg__exchange *x)
{
    (void)x;
    return TG_OK;
}

static size_t none_wants(tg__exchange *x, tg__wish *wish, size_t max)
{
    (void)x;
    (void)wish;
    (void)max;
    return 0;
}

static tg_status none_done(tg__exchange *x, uint32_t id, size_t len)
{
    (void)x;
    return tg_fail(TG_E_STATE, "exchange none: message %u of %zu bytes: it has none", id, len);
}

static bool none_finished(const tg__exchange *x)
{
    (void)x;
    return true;
}

static void none_result(tg__exchange *x, float *dst)
{
    x->overflow |= !tg__frame_decode_finite(x->parts[0].dst, x->parts[0].len, dst, x->pool);
}

static void none_cost(int size, size_t n, double frame, tg__cost *cost_p)
{
    (void)size;
    (void)n;
    (void)frame;
    *cost_p = (tg__cost){0};
}

const tg__exchange_ops tg__none_exchange = {
    .entry =
        {
            .name = "none",
            .summary =
                "nothing is sent; the result is the rank's own decoded vector, so ranks diverge",
            .source = "",
        },
    .init = none_init,
    .fini = none_fini,
    .start = none_start,
    .wants = none_wants,
    .done = none_done,
    .finished = none_finished,
    .result = none_result,
    .cost = none_cost,
    .decodes_own = true,
};

/* Own steps by the caller's optimizer, which the library does not know.
 *
 * tg_session_deliver plays the first part of a step: what is due arrives, and means of gradients
 * are put where the caller's optimizer reads them. Then the caller moves the parameters, and
 * tg_session_step plays the rest. */
#include "session/session_impl.h"
#include "telegrad/external.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/sized.h"
#include "telegrad/spec.h"

const char *tg__session_optimizer(const tg_session *s)
{
    return s->external ? TG__EXTERNAL : tg_spec_text(tg_optimizer_spec(s->optimizer));
}

bool tg__session_reads_gradients(const tg_session *s)
{
    return s->t < s->strategy->gradients_until;
}

/* In each bucket: the gradients where the caller writes them and reads their means; and a copy,
 * which the exchange and the strategy read. */
tg_status tg__session_make_gradients(tg_session *s)
{
    for (size_t b = 0; s->strategy->gradients_until > 0 && b < s->nbuckets; b++) {
        bucket *x = &s->bucket[b];
        float *own;
        TG_TRY(tg__owned_alloc(&s->owned, x->n, sizeof *own, &own));
        TG_TRY(tg__owned_alloc(&s->owned, x->n, sizeof *own, &x->staging));
        x->g = x->staging;
        for (uint32_t i = 0; i < x->count; i++) {
            tensor *t = &s->tensor[s->trained[x->member[i]]];
            tg__wtensor *w = &s->wtensor[x->member[i]];
            t->grad = w->mean = own + t->offset;
            w->g = x->g + t->offset;
        }
    }
    return TG_OK;
}

tg_status tg__session_check_open(const tg_session *s)
{
    return s->opened ? TG_OK
                     : tg_fail(TG_E_STATE,
                               "step %llu: tg_session_step without tg_session_deliver, which comes "
                               "first if the optimizer is external",
                               (unsigned long long)s->t);
}

float *tg_session_gradient(tg_session *s, uint32_t id)
{
    TG__OWN_FLOATS;
    return s != NULL && s->begun && s->external && id < s->ntensors &&
                   tg__session_reads_gradients(s) && !tg_session_idle(s)
               ? s->tensor[id].grad
               : NULL;
}

uint32_t tg_session_touches(const tg_session *s, uint32_t id)
{
    if (s == NULL || !s->begun || !s->external || id >= s->ntensors ||
        s->tensor[id].kind != TG_TENSOR_TRAINED)
        return 0;
    const uint32_t b = s->tensor[id].bucket;
    const bool in_deliver = tg__strategy_touches(s->strategy, s->t, b, false);
    const bool in_step = tg__strategy_touches(s->strategy, s->t, b, true);
    return (in_deliver ? TG_TOUCHES_IN_DELIVER : 0u) | (in_step ? TG_TOUCHES_IN_STEP : 0u);
}

static tg_status deliver(tg_session *s, tg_turn *turn)
{
    s->means = 0; /* those that tg_session_finish has dropped do not count */
    TG_TRY(tg__session_take_in(s));
    s->strategy->resets = false;
    tg__strategy_open(s->strategy, s->t);
    turn->resets = s->strategy->resets;
    turn->moves = tg__session_reads_gradients(s) ? s->means == s->nbuckets : !tg_session_idle(s);
    s->opened = true;
    return TG_OK;
}

tg_status tg_session_deliver(tg_session *s, tg_turn *turn)
{
    TG__OWN_FLOATS;
    TG__ARGS(s, turn);
    TG_TRY(tg__session_usable(s, "tg_session_deliver"));
    TG_TRY(tg__sized_room("tg_session_deliver: turn", turn, TG__FIRST_SIZE(tg_turn, resets)));
    if (!s->external)
        return tg_fail(TG_E_STATE,
                       "tg_session_deliver requires optimizer=external; this session has \"%s\", "
                       "which tg_session_step calls",
                       tg__session_optimizer(s));
    if (s->opened)
        return tg_fail(TG_E_STATE, "tg_session_deliver was called twice in step %llu",
                       (unsigned long long)s->t);
    TG_TRY(tg__session_reads_gradients(s) ? tg__session_check_ready(s) : TG_OK);
    tg_turn own = {.struct_size = sizeof own};
    TG_TRY(tg__session_failed(s, deliver(s, &own)));
    tg__sized_out(turn, &own, sizeof own);
    return TG_OK;
}

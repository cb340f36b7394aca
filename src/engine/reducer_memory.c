/* A reducer's memory: its slots, taking back a mean, another unit of gradients. */
#include "engine/reducer_impl.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/sized.h"

#include <math.h>
#include <stdio.h>

static tg_status check_idle(const char *call, const tg_reducer *r)
{
    return r->running
               ? tg_fail(TG_E_STATE, "%s: an operation is under way: wait for it first", call)
               : TG_OK;
}

tg_status tg_reducer_undo(tg_reducer *r)
{
    TG__OWN_FLOATS;
    TG__ARG(r);
    TG_TRY(check_idle("tg_reducer_undo", r));
    if (!r->delivered)
        return tg_fail(TG_E_STATE,
                       "tg_reducer_undo: there is no mean to take back: call it once, after a mean "
                       "that succeeded, and before tg_reducer_slot_get and tg_reducer_scale");
    r->delivered = false;
    TG_TRY(r->method->def->program->undo(r->method, &r->op.task));
    (void)tg__method_heal(r->method, false);
    return TG_OK;
}

/* factor 0: they begin anew */
static void scale_served(tg_reducer *r, double factor)
{
    const tg__program_ops *program = r->method->def->program;
    if (program->scale_served != NULL)
        program->scale_served(r->method, factor);
}

tg_status tg_reducer_scale(tg_reducer *r, double factor)
{
    TG__OWN_FLOATS;
    TG__ARG(r);
    TG_TRY(check_idle("tg_reducer_scale", r));
    if (!isfinite(factor) || factor <= 0)
        return tg_fail(TG_E_ARG, "tg_reducer_scale: factor=%g: allowed: finite, above 0", factor);
    tg__reducer_settle(r);
    TG_TRY(tg__reducer_gpu_show(r));
    tg__state_scale(r->state, factor);
    scale_served(r, factor);
    return TG_OK;
}

size_t tg_reducer_slot_count(const tg_reducer *r)
{
    return r != NULL ? tg__state_count(r->state) : 0;
}

tg_status tg_reducer_slot_get(tg_reducer *r, size_t i, tg_reducer_slot *slot)
{
    TG__ARGS(r, slot);
    TG_TRY(
        tg__sized_room("tg_reducer_slot_get: slot", slot, TG__FIRST_SIZE(tg_reducer_slot, rule)));
    TG_TRY(check_idle("tg_reducer_slot_get", r));
    const size_t count = tg__state_count(r->state);
    if (i >= count)
        return tg_fail(TG_E_ARG, "tg_reducer_slot_get: i=%zu: allowed: below %zu", i, count);
    tg__reducer_settle(r);
    TG_TRY(tg__reducer_gpu_show(r));
    const tg__slot_view view = tg__state_view(r->state, i);
    tg_reducer_slot own = {
        .struct_size = sizeof own, .at = view.at, .data = view.data, .bytes = view.len};
    (void)sscanf(view.tensor, "segment%zu", &own.segment);
    snprintf(own.name, sizeof own.name, "%.*s", view.name_len, view.name);
    snprintf(own.role, sizeof own.role, "%s", view.role);
    snprintf(own.rule, sizeof own.rule, "%s", view.rule);
    tg__sized_out(slot, &own, sizeof own);
    return TG_OK;
}

uint64_t tg_reducer_step(const tg_reducer *r)
{
    TG__OWN_FLOATS;
    return r != NULL ? r->step : 0;
}

tg_status tg_reducer_set_step(tg_reducer *r, uint64_t step)
{
    TG__OWN_FLOATS;
    TG__ARG(r);
    TG_TRY(check_idle("tg_reducer_set_step", r));
    r->step = step;
    scale_served(r, 0);
    return TG_OK;
}

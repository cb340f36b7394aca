/* Optimizers by spec string: the list and the public functions. */
#include "strategy/optimizers.h"
#include "base/arg.h"
#include "strategy/strategy.h"
#include "base/floats.h"
#include "base/mem.h"
#include "base/sized.h"
#include "kernel/kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TG_OPTIMIZER(name) extern const tg__optimizer_ops tg__optimizer_##name;
#include "strategy/optimizers.def"
#undef TG_OPTIMIZER

#define TG_OPTIMIZER(name) &tg__optimizer_##name.entry,
static const tg_entry *const entries[] = {
#include "strategy/optimizers.def"
};
#undef TG_OPTIMIZER

const tg_entry *const *tg__optimizer_entries(size_t *count_p)
{
    *count_p = TG_COUNT(entries);
    return entries;
}

tg_status tg_optimizer_create(const char *spec, tg_optimizer **o_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(spec, o_p);
    TG_TRY(tg__kernel_check());
    tg_optimizer *o;
    TG_TRY(tg_alloc(1, sizeof *o, &o));
    tg_status status = tg_spec_parse("optimizer", entries, TG_COUNT(entries), spec, &o->spec);
    if (status == TG_OK) {
        o->ops = (const tg__optimizer_ops *)tg_spec_entry(o->spec); /* its first member */
        status = o->ops->init(o);
    }
    if (status == TG_OK)
        *o_p = o;
    else
        tg_optimizer_destroy(o);
    return status;
}

void tg_optimizer_destroy(tg_optimizer *o)
{
    if (!o)
        return;
    tg_spec_free(o->spec);
    free(o);
}

const tg_spec *tg_optimizer_spec(const tg_optimizer *o)
{
    TG__OWN_FLOATS;
    return o ? o->spec : NULL;
}

size_t tg_optimizer_slots(const tg_optimizer *o)
{
    return o ? o->slots : 0;
}

const char *tg_optimizer_slot_name(const tg_optimizer *o, size_t slot)
{
    return slot < tg_optimizer_slots(o) ? o->ops->slot_names[slot] : NULL;
}

static tg_status check_aligned(const char *name, const float *v)
{
    if ((uintptr_t)v % sizeof *v == 0)
        return TG_OK;
    return tg_fail(TG_E_ARG, "tg_optimizer_step: %s=%p: must be aligned to %zu bytes", name,
                   (const void *)v, sizeof *v);
}

/* Check w, g and the slots: aligned, and no two of them share memory. */
static tg_status check_vectors(const tg_optimizer *o, const float *w, const float *g, size_t n,
                               float *const *slot)
{
    const size_t bytes = n * sizeof *w;
    TG_TRY(check_aligned("w", w));
    TG_TRY(check_aligned("g", g));
    if (tg__overlap(w, bytes, g, bytes))
        return tg_fail(TG_E_ARG, "tg_optimizer_step: w=%p and g=%p overlap", (const void *)w,
                       (const void *)g);
    for (size_t i = 0; i < o->slots; i++) {
        if (slot[i] == NULL)
            return tg_fail(TG_E_ARG, "tg_optimizer_step: slot[%zu] is NULL", i);
        char name[32];
        snprintf(name, sizeof name, "slot[%zu]", i);
        TG_TRY(check_aligned(name, slot[i]));
        if (tg__overlap(slot[i], bytes, w, bytes) || tg__overlap(slot[i], bytes, g, bytes))
            return tg_fail(TG_E_ARG, "tg_optimizer_step: slot[%zu] overlaps w or g", i);
        for (size_t k = 0; k < i; k++)
            if (tg__overlap(slot[i], bytes, slot[k], bytes))
                return tg_fail(TG_E_ARG, "tg_optimizer_step: slot[%zu] overlaps slot[%zu]", i, k);
    }
    return TG_OK;
}

tg_status tg_optimizer_step(const tg_optimizer *o, const tg_update *u, float *w, const float *g,
                            size_t n, float *const *slot)
{
    TG__OWN_FLOATS;
    TG__ARGS(o, u, w, g);
    if (o->slots > 0)
        TG__ARG(slot);
    tg_update given;
    TG_TRY(tg__sized_in("tg_optimizer_step: u", &given, sizeof given,
                        TG__FIRST_SIZE(tg_update, ndim), u));
    if (!(given.lr >= 0 && given.lr <= 1e30))
        return tg_fail(TG_E_ARG, "tg_optimizer_step: u->lr=%g: allowed: 0 <= lr <= 1e30", given.lr);
    if (o->ops->counts && given.number == 0)
        return tg_fail(TG_E_ARG, "tg_optimizer_step: u->number=0: allowed: 1 and up");
    TG_TRY(check_vectors(o, w, g, n, slot));
    o->ops->step(o, &given, w, w, g, n, slot);
    return TG_OK;
}

void tg__optimizer_common(tg_optimizer *o)
{
    o->lr = tg_spec_real(o->spec, "lr");
    o->weight_decay = tg_spec_real(o->spec, "weight_decay");
    o->exempt_1d = strcmp(tg_spec_word(o->spec, "exempt"), "1d") == 0;
    o->clip = tg_spec_has(o->spec, "clip") ? tg_spec_real(o->spec, "clip") : 0;
    o->needs_all = o->clip > 0;
}

double tg__optimizer_decay(const tg_optimizer *o, size_t ndim)
{
    return o->exempt_1d && ndim < 2 ? 0 : o->weight_decay;
}

float tg__optimizer_keep(const tg_optimizer *o, const tg_update *u)
{
    return o->decoupled ? (float)(1 - u->lr * tg__optimizer_decay(o, u->ndim)) : 1;
}

tg_status tg__optimizer_without_momentum(const tg_optimizer *o, tg_optimizer **o_p)
{
    char text[2 * TG_REAL_TEXT + 96], lr[TG_REAL_TEXT], decay[TG_REAL_TEXT];
    tg_real_text(o->lr, lr);
    tg_real_text(o->weight_decay, decay);
    snprintf(text, sizeof text, "%.32s:lr=%s,weight_decay=%s,momentum=0,decoupled=%s,exempt=%s",
             tg_spec_name(o->spec), lr, decay, o->decoupled ? "yes" : "no",
             o->exempt_1d ? "1d" : "none");
    return tg_optimizer_create(text, o_p);
}

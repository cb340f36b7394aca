/* One-step delay with local update.
 *
 *   step t < warmup (uncompressed and waited for in step t):
 *       W = optimizer(W, mean of g)
 *       Wloc = W
 *   step t:
 *       g = grad(Wloc), while the exchange of step t-1 is in flight
 *       W = optimizer(W, result of step t-1)            (by `result`)
 *       Wloc = local(W, g)                              (always the full f32 g)
 *       start the exchange of g, dense if the k-step rule says so for count = t - warmup
 *
 *   local=sgd:      W - eta_loc * (g + wd*W)
 *   local=preview:  what the optimizer would do with g alone: W - eta_loc * (m*u + g + wd*W)
 *   local=dcasgd:   W - eta_loc * ((g + wd*W) + lambda*g*g * (W - Wloc of g))
 *   local=auto:     preview, which equals sgd if the optimizer has no momentum; but sgd with
 *                   scaled=yes or a rate of its own, because these belong to plain steps
 *   scaled=yes:     g/P in place of g: the authors' code scales as its server does, by 1/(B*P)
 *
 * average=updates: the rank's optimizer acts before the exchange (directions.h). What is exchanged
 * is its direction d in place of g, W moves by the mean of the d, and Wloc is W moved by the own d;
 * the warm-up exchanges d, too. average=auto: updates if the session prefers them, there are coded
 * exchanges, and the local step is preview at the optimizer's rate; else gradients.
 *
 * External: the caller's optimizer takes W and the mean, and makes the next W; the session makes
 * Wloc of it by plain SGD (local=sgd), which therefore needs a rate of its own.
 *
 * W is the slot "global"; Wloc is in the caller's parameters. The warm-up updates both, so
 * evaluation, checkpoints and hashes can use W at any time, including right after a load.
 * Everything else follows from t.
 *
 * Source: OD-SGD: Xu et al. 2020, arXiv:2005.06728; CD-SGD: Yu et al. 2021, arXiv:2106.10796;
 *         dcasgd: Zheng et al. 2017, arXiv:1609.08326 */
#include "strategy/delayed.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "schedule/schedule.h"
#include "strategy/directions.h"
#include "strategy/optimizers.h"
#include <string.h>

typedef struct delayed {
    uint64_t warmup, k;
    bool updates; /* directions are exchanged, not gradients */
    tg__directions direction;
    bool own_rate;  /* eta_loc is set by the spec */
    double eta_loc; /* for the optimizer's lr */
    float lambda;
    float share; /* of g in the local update: 1, or 1/P */
    void (*local)(const tg__strategy *s, size_t i, tg__stretch e, double eta);
} delayed;

static float decay_of(const tg__strategy *s, size_t i)
{
    return (float)tg__optimizer_decay(tg__strategy_optimizer(s, i), s->tensor[i].ndim);
}

static void local_sgd(const tg__strategy *s, size_t i, tg__stretch e, double eta)
{
    const delayed *d = s->impl;
    const tg__wtensor *x = &s->tensor[i];
    tg__kernel()->sgd_to(x->w + e.at, tg__strategy_global(s, i) + e.at, x->g + e.at, e.n,
                         (float)eta * d->share, decay_of(s, i) / d->share);
}

static void local_preview(const tg__strategy *s, size_t i, tg__stretch e, double eta)
{
    const tg__wtensor *x = &s->tensor[i];
    tg__strategy_preview(s, i, e, eta, x->w + e.at, tg__strategy_global(s, i) + e.at, x->g + e.at);
}

/* w holds the parameters at which g was computed. */
static void local_dcasgd(const tg__strategy *s, size_t i, tg__stretch e, double rate)
{
    const delayed *d = s->impl;
    const tg__wtensor *x = &s->tensor[i];
    const tg__dcasgd numbers = {
        .eta = (float)rate, .wd = decay_of(s, i), .lambda = d->lambda, .share = d->share};
    tg__kernel()->dcasgd(x->w + e.at, tg__strategy_global(s, i) + e.at, x->g + e.at, e.n, &numbers);
}

static const char *local_of(const tg_spec *spec)
{
    const char *local = tg_spec_word(spec, "local");
    if (strcmp(local, "auto") != 0)
        return local;
    return tg_spec_flag(spec, "scaled") || tg_spec_has(spec, "eta_loc") ? "sgd" : "preview";
}

bool tg__delayed_averages_updates(const tg_spec *spec, bool prefers)
{
    if (!tg_spec_has(spec, "average"))
        return false; /* od, which never codes */
    const char *average = tg_spec_word(spec, "average");
    if (strcmp(average, "auto") != 0)
        return strcmp(average, "updates") == 0;
    return prefers && tg_spec_int(spec, "k") != 1 && !tg_spec_has(spec, "eta_loc") &&
           strcmp(local_of(spec), "preview") == 0;
}

static tg_status read_average(const tg__strategy *s, delayed *d)
{
    d->updates = tg__delayed_averages_updates(s->spec, s->prefers_updates);
    if (d->updates && (d->local != local_preview || d->own_rate || s->external))
        return tg_fail(TG_E_SPEC,
                       "strategy \"%s\": average=updates requires local=preview without eta_loc, "
                       "and an optimizer of the library",
                       tg_spec_name(s->spec));
    return TG_OK;
}

static tg_status read_spec(tg__strategy *s, delayed *d)
{
    const char *local = local_of(s->spec);
    bool compensates = strcmp(local, "dcasgd") == 0;
    double usual = 0;
    TG_TRY(tg__strategy_until(s, "warmup", &d->warmup));
    d->lambda = (float)tg_spec_real(s->spec, "lambda");
    d->local = compensates ? local_dcasgd : strcmp(local, "sgd") == 0 ? local_sgd : local_preview;
    /* The normal form includes the default. */
    const bool given =
        !tg_real_parse(TG__DCASGD_LAMBDA, &usual) || tg_spec_real(s->spec, "lambda") != usual;
    if (given && !compensates)
        return tg_fail(TG_E_SPEC, "strategy \"%s\": lambda requires local=dcasgd, not local=%s",
                       tg_spec_name(s->spec), local);
    d->share = tg_spec_flag(s->spec, "scaled") ? 1.0f / (float)s->size : 1;
    if (tg_spec_flag(s->spec, "scaled") && d->local == local_preview)
        return tg_fail(TG_E_SPEC,
                       "strategy \"%s\": scaled=yes with local=preview: allowed: local=sgd|dcasgd",
                       tg_spec_name(s->spec));
    d->own_rate = tg_spec_has(s->spec, "eta_loc");
    d->eta_loc = d->own_rate ? tg_spec_real(s->spec, "eta_loc") : 0;
    if (d->own_rate && !(s->optimizer->lr > 0))
        return tg_fail(TG_E_SPEC,
                       "strategy \"%s\": eta_loc is for the optimizer's lr and scales with it, but "
                       "lr=%g: allowed: lr > 0",
                       tg_spec_name(s->spec), s->optimizer->lr);
    if (s->external && !(d->local == local_sgd && d->own_rate))
        return tg_fail(TG_E_SPEC,
                       "strategy \"%s\" with an external optimizer takes its local step by plain "
                       "SGD: allowed: local=sgd with eta_loc=RATE",
                       tg_spec_name(s->spec));
    if (s->optimizer->ops->adaptive && d->local != local_preview && !d->own_rate)
        return tg_fail(TG_E_SPEC,
                       "strategy \"%s\": local=%s uses the optimizer's lr for a step of plain SGD, "
                       "but that of %s is not meant for SGD: use local=preview, or eta_loc=RATE",
                       tg_spec_name(s->spec), local, tg_spec_name(s->optimizer->spec));
    return read_average(s, d);
}

tg_status tg__delayed_init(tg__strategy *s, uint64_t k)
{
    delayed *d;
    TG_TRY(tg__owned_alloc(&s->owned, 1, sizeof *d, &d));
    s->impl = d;
    d->k = k;
    TG_TRY(read_spec(s, d));
    TG_TRY(d->updates ? tg__directions_init(s, &d->direction, "average=gradients")
                      : tg__strategy_add_optimizer(s, TG__ROLE_REPLICATED));
    return tg__strategy_add_global(s);
}

/* Exchange the bucket's gradient, or the direction that was made of it. */
static void exchange(tg__strategy *s, uint32_t bucket, bool coded, uint64_t due, tg__actions *out)
{
    const delayed *d = s->impl;
    tg__action *a = tg__actions_add(out, bucket, coded, due);
    if (d->updates)
        a->buffer = tg__directions_of_bucket(&d->direction, bucket);
}

/* The norm of all gradients, which clip needs, is known in step(). */
static bool waits_for_all(const tg__strategy *s)
{
    const delayed *d = s->impl;
    return d->updates && s->optimizer->needs_all;
}

void tg__delayed_ready(tg__strategy *s, uint64_t t, uint32_t bucket, tg__actions *out)
{
    const delayed *d = s->impl;
    if (t >= d->warmup || waits_for_all(s))
        return;
    if (d->updates)
        tg__directions_make_bucket(s, &d->direction, bucket, s->finite);
    exchange(s, bucket, false, t, out);
}

/* Wloc of tensor i, in step t. */
static void make_local(tg__strategy *s, size_t i, tg__stretch e, const tg__turn *now)
{
    const delayed *d = s->impl;
    if (now->t < d->warmup || !now->finite)
        memcpy(s->tensor[i].w + e.at, tg__strategy_global(s, i) + e.at, e.n * sizeof(float));
    else
        d->local(s, i, e, d->own_rate ? d->eta_loc * (now->lr / s->optimizer->lr) : now->lr);
}

/* W moves; in the warm-up, the caller's parameters follow it at once. */
static void move_global(tg__strategy *s, const tg__result *r)
{
    const delayed *d = s->impl;
    tg__directions_result(s, r);
    for (size_t i = 0; r->of_step < d->warmup && i < s->ntensors; i++)
        if (s->tensor[i].bucket == r->bucket)
            tg__strategy_take_global(s, i);
}

void tg__delayed_result(tg__strategy *s, const tg__result *r)
{
    const delayed *d = s->impl;
    if (d->updates) {
        move_global(s, r);
        return;
    }
    const bool makes = tg__strategy_makes(s, r);
    for (size_t i = 0; r->agg && i < s->ntensors; i++) {
        const tg__wtensor *x = &s->tensor[i];
        if (x->bucket != r->bucket)
            continue;
        for (tg__stretch e = tg__stretch_first(s, i); e.n > 0; e = tg__stretch_next(s, i, e)) {
            tg__strategy_update_at(s, 0, i, e, r->lr, tg__strategy_global(s, i) + e.at,
                                   r->agg + x->offset + e.at);
            if (makes)
                make_local(s, i, e, r->turn);
        }
    }
}

/* The caller moves W. */
void tg__delayed_open(tg__strategy *s, uint64_t t)
{
    (void)t;
    for (size_t i = 0; i < s->ntensors; i++)
        tg__strategy_take_global(s, i);
}

/* Make the directions of tensor i, and after the warm-up Wloc. */
static void go_by_direction(tg__strategy *s, size_t i, const tg__turn *now)
{
    const delayed *d = s->impl;
    const float *direction = tg__directions_of(s, &d->direction, i);
    float *w = s->tensor[i].w;
    for (tg__stretch e = tg__stretch_first(s, i); e.n > 0; e = tg__stretch_next(s, i, e)) {
        tg__directions_make(s, &d->direction, i, e, now->finite);
        if (now->t < d->warmup)
            continue;
        memcpy(w + e.at, tg__strategy_global(s, i) + e.at, e.n * sizeof *w);
        if (now->finite)
            tg__directions_apply(s, i, e, now->lr, w + e.at, direction + e.at);
    }
}

void tg__delayed_step(tg__strategy *s, uint64_t t, bool finite, double lr, tg__actions *out)
{
    const delayed *d = s->impl;
    const tg__turn now = {t, finite, lr};
    for (size_t i = 0; s->external && i < s->ntensors; i++)
        memcpy(tg__strategy_global(s, i), s->tensor[i].w, s->tensor[i].n * sizeof(float));
    const bool warms = t < d->warmup, waits = warms && waits_for_all(s);
    for (size_t i = 0; i < s->ntensors; i++)
        if (d->updates && (waits || !warms))
            go_by_direction(s, i, &now);
        else if (!d->updates && !tg__strategy_made(s, t, i))
            make_local(s, i, (tg__stretch){0, s->tensor[i].n}, &now);
    if (warms && !waits)
        return;
    /* A gradient that is not finite is exchanged as well: the session flags it, and no rank applies
     * the sum. */
    const bool coded = !warms && !tg__kstep_dense(d->k, t - d->warmup);
    for (uint32_t b = 0; b < s->nbuckets; b++)
        exchange(s, b, coded, warms ? t : t + 1, out);
}

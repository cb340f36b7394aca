#include "server/mode.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/keys.h"
#include "base/mem.h"
#include "strategy/optimizers.h"
#include "telegrad/server.h"
#include <string.h>

static const tg_key async_keys[] = {
    TG__KEY(INT, "staleness", NULL, 0, 1e9,
            "steps that a rank may be ahead of the slowest one; 0: as sync; none: any number"),
    TG__KEY(REAL, "compensate", "0", 0, 1e6,
            "lambda of delay compensation: g + lambda g g (w - w of the rank); 0: none"),
    TG__ROBUST_KEYS,
    {.name = NULL},
};
static const tg_key robust_keys[] = {TG__ROBUST_KEYS, {.name = NULL}};
static const tg_entry sum_mode = {"sum", "sum gradients and send the mean; ranks update parameters",
                                  "Li et al. 2014, OSDI", robust_keys};
static const tg_entry sync_mode = {"sync",
                                   "one step from the gradients of all ranks; send parameters",
                                   "Li et al. 2014, OSDI", robust_keys};
static const tg_entry async_mode = {"async",
                                    "one step from each gradient as it comes; send parameters",
                                    "Ho et al. 2013, NIPS (staleness); Zheng et al. 2017, "
                                    "arXiv:1609.08326 (compensate)",
                                    async_keys};
static const tg_entry *const entries[] = {&sum_mode, &sync_mode, &async_mode};

const tg_entry *const *tg__mode_entries(size_t *count_p)
{
    *count_p = TG_COUNT(entries);
    return entries;
}

/* A server has blocks of buckets, not tensors. */
static tg_status check_optimizer(const tg_optimizer *o)
{
    const char *name = tg_spec_name(tg_optimizer_spec(o));
    if (o->ops->whole || o->needs_all || o->exempt_1d)
        return tg_fail(TG_E_UNSUPPORTED,
                       "optimizer \"%s\": a server updates element by element: allowed: sgd, adam, "
                       "adamw, without clip and exempt=1d",
                       o->ops->whole ? name : tg_spec_text(tg_optimizer_spec(o)));
    return TG_OK;
}

/* MXNet's name of a mode: dist_sync, dist_async. */
static const char *own_name(const char *text)
{
    static const char before[] = "dist_";
    const char *name = text + sizeof before - 1;
    if (strncmp(text, before, sizeof before - 1) != 0)
        return text;
    const size_t len = strcspn(name, ":");
    const bool known =
        (len == 4 && strncmp(name, "sync", 4) == 0) || (len == 5 && strncmp(name, "async", 5) == 0);
    return known ? name : text;
}

static tg_status parse_spec(const char *text, tg_spec **spec_p)
{
    return tg_spec_parse("server mode", entries, TG_COUNT(entries), own_name(text), spec_p);
}

static tg_status parse(const char *text, const char *optimizer, tg__mode *m)
{
    TG_TRY(parse_spec(text, &m->spec));
    const tg_entry *entry = tg_spec_entry(m->spec);
    m->keeps = entry != &sum_mode;
    m->gathers = entry != &async_mode;
    m->staleness = TG__NO_BOUND;
    if (entry == &async_mode) {
        m->compensate = tg_spec_real(m->spec, "compensate");
        if (tg_spec_has(m->spec, "staleness"))
            m->staleness = tg_spec_int(m->spec, "staleness");
        m->gathers = m->staleness == 0;
    }
    if (m->gathers && m->compensate > 0)
        return tg_fail(TG_E_SPEC,
                       "server mode \"%s\": with staleness=0 there is no delay to "
                       "compensate: use compensate=0",
                       text);
    TG_TRY(tg__robust_read(m->spec, &m->rule));
    if (!m->gathers && m->rule.kind != TG__ROBUST_NONE)
        return tg_fail(TG_E_SPEC,
                       "server mode \"%s\": each gradient is applied as it comes, so there is "
                       "nothing to combine: use staleness=0, or sync",
                       text);
    if (!m->keeps != !optimizer)
        return tg_fail(TG_E_SPEC,
                       m->keeps ? "server mode \"%s\" requires an optimizer"
                                : "server mode \"%s\": ranks update parameters: use no optimizer",
                       text);
    if (!m->keeps)
        return TG_OK;
    TG_TRY(tg_optimizer_create(optimizer, &m->optimizer));
    TG_TRY(check_optimizer(m->optimizer));
    if (m->optimizer->ops->adaptive)
        return TG_OK;
    TG_TRY(tg__optimizer_without_momentum(m->optimizer, &m->plain));
    if (!m->plain->decoupled) /* ranks whose method owns the momentum have it in there */
        m->plain->weight_decay = 0;
    return TG_OK;
}

tg_status tg__mode_parse(const char *text, const char *optimizer, tg__mode *m)
{
    *m = (tg__mode){0};
    const tg_status status = parse(text, optimizer, m);
    if (status != TG_OK)
        tg__mode_free(m);
    return status;
}

tg_status tg_server_mode_normal(const char *mode, char *text, size_t room)
{
    TG__OWN_FLOATS;
    TG__ARGS(mode, text);
    tg_spec *spec = NULL;
    TG_TRY(parse_spec(mode, &spec));
    const size_t len = strlen(tg_spec_text(spec));
    if (len < room)
        memcpy(text, tg_spec_text(spec), len + 1);
    tg_spec_free(spec);
    return len < room ? TG_OK : tg_fail(TG_E_ARG, "room=%zu: allowed: at least %zu", room, len + 1);
}

void tg__mode_free(tg__mode *m)
{
    tg_spec_free(m->spec);
    tg_optimizer_destroy(m->optimizer);
    tg_optimizer_destroy(m->plain);
    *m = (tg__mode){0};
}

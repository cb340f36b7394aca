/* Checks whether the strategy supports a method, and says why not. */
#include "session/session_impl.h"
#include "telegrad/spec.h"

/* The strategy that is asked about: in a simulation it need not be that of the configuration. */
static const char *name_of(const tg_session *s)
{
    return tg_spec_text(s->strategy->spec);
}

/* one: what the strategy does; other: what the method does, and what is allowed */
static tg_status refuse(const tg_session *s, const tg__rule *rule, const char *one,
                        const char *other)
{
    return tg_fail(TG_E_UNSUPPORTED, "strategy \"%s\" %s; method \"%s\" %s", name_of(s), one,
                   rule->method, other);
}

/* Parameter changes are averaged as they are: they are not gradients. */
static tg_status takes_updates(const tg_session *s, const tg__rule *rule)
{
    if (!s->strategy->sends_updates)
        return TG_OK;
    const bool other = tg_spec_has(s->strategy->spec, "average"); /* can average gradients */
    if (rule->def->properties & TG__OWNS_MOMENTUM)
        return refuse(
            s, rule, "exchanges steps, which each rank's optimizer made",
            other ? "would accumulate the momentum of gradients: use average=gradients"
                  : "would accumulate the momentum of gradients: use a method without momentum "
                    "(topk)");
    if (tg__method_combine(rule->def)->votes)
        return refuse(s, rule, "applies the mean of steps of the ranks' optimizers",
                      other
                          ? "gives a vote on their signs: use average=gradients"
                          : "gives a vote on their signs: use a method that gives a mean (efsign)");
    if (s->strategy->needs_mean && s->strategy->size > 1 && tg__method_is_apart(rule->spec))
        return tg_fail(TG_E_UNSUPPORTED,
                       "strategy \"%s\" needs the mean over ranks, which exchange=none does not "
                       "form: choose another exchange",
                       name_of(s));
    if (s->strategy->some_absent && rule->def->program->max_lanes == 1)
        return refuse(
            s, rule, "lets some ranks sit rounds out",
            "keeps state that all ranks share: use another method, or all ranks in each round");
    if (s->strategy->some_absent && s->nodes != NULL)
        return tg_fail(TG_E_UNSUPPORTED,
                       "strategy \"%s\" lets some ranks sit rounds out, which does not work with "
                       "nodes: use no nodes, or all ranks in each round",
                       name_of(s));
    return TG_OK;
}

/* Norms identify an outlier only if all ranks have the same weight. */
static tg_status takes_weights(const tg_session *s, const tg__rule *rule)
{
    const uint64_t *samples = s->strategy->samples;
    bool alike = true;
    for (int rank = 0; samples != NULL && rank < s->transport->size; rank++)
        alike = alike && samples[rank] == samples[0];
    if (alike || !s->strategy->weighted || !tg__method_cuts(rule->def, rule->spec))
        return TG_OK;
    return refuse(s, rule, "weights ranks by their samples",
                  "would scale the heavier ranks down to the median: use clip=no, or weighted=no");
}

/* A method that owns the momentum includes the weight decay, unless decoupled=yes. */
static tg_status takes_decay(const tg_session *s, const tg__rule *rule)
{
    if (!s->strategy->decays_apart || !(rule->def->properties & TG__OWNS_MOMENTUM) ||
        s->optimizer->decoupled || s->optimizer->weight_decay == 0)
        return TG_OK;
    return refuse(s, rule, "keeps weight decay apart from what is exchanged",
                  "has it in its momentum: use weight_decay=0, or decoupled=yes");
}

static tg_status takes_pushes(const tg_session *s, const tg__rule *rule)
{
    if (!s->strategy->pushes)
        return TG_OK;
    if (!(rule->def->properties & TG__DENSE))
        return tg_fail(TG_E_UNSUPPORTED,
                       "strategy \"%s\" sends the parameters themselves; what method \"%s\" leaves "
                       "out of them would be missing: use dense",
                       name_of(s), rule->method);
    if (s->nodes != NULL)
        return tg_fail(
            TG_E_UNSUPPORTED,
            "strategy \"%s\" sends to one rank at a time, whatever its node: use no nodes",
            name_of(s));
    return TG_OK;
}

/* Some methods keep state from one exchange to the next. */
static tg_status takes_lanes(const tg_session *s, const tg__rule *rule)
{
    const tg__strategy *y = s->strategy;
    const size_t lanes = y->coded_in_flight != 0 ? y->coded_in_flight : y->in_flight;
    const unsigned most = rule->def->program->max_lanes;
    if (most == 0 || lanes <= most)
        return TG_OK;
    return tg_fail(
        TG_E_UNSUPPORTED,
        "strategy \"%s\" has %zu exchanges in flight; method \"%s\" needs the mean of "
        "one before it encodes the next: allowed: %u in flight, or another method (topk)",
        name_of(s), lanes, rule->method, most);
}

tg_status tg__session_takes(const tg_session *s, const tg__rule *rule)
{
    TG_TRY(takes_pushes(s, rule));
    TG_TRY(takes_updates(s, rule));
    TG_TRY(takes_weights(s, rule));
    TG_TRY(takes_decay(s, rule));
    TG_TRY(tg__session_takes_served(s, rule));
    return takes_lanes(s, rule);
}

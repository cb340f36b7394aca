/* Checks whether the strategy supports a method, and says why not. */
#include "session/session_impl.h"
#include "telegrad/spec.h"

#include <string.h>

/* Parameter changes are averaged as they are: they are not gradients. */
static tg_status takes_updates(const tg_session *s, const tg__rule *rule)
{
    if (!s->strategy->sends_updates)
        return TG_OK;
    if (rule->def->properties & TG__OWNS_MOMENTUM)
        return tg_fail(TG_E_UNSUPPORTED,
                       "strategy \"%s\" exchanges changes of parameters, which each rank's "
                       "optimizer made; method \"%s\" would accumulate the momentum of gradients: "
                       "allowed: a method without momentum (topk)",
                       s->config.strategy, rule->method);
    if (rule->def->combine == &tg__combine_vote)
        return tg_fail(TG_E_UNSUPPORTED,
                       "strategy \"%s\" applies the mean of changes of parameters; method \"%s\" "
                       "gives a vote on their signs: allowed: a method that gives a mean (efsign)",
                       s->config.strategy, rule->method);
    if (s->strategy->needs_mean && s->transport->size > 1 && tg_spec_has(rule->spec, "exchange") &&
        strcmp(tg_spec_word(rule->spec, "exchange"), "none") == 0)
        return tg_fail(
            TG_E_UNSUPPORTED,
            "strategy \"%s\" needs the mean over ranks; with exchange=none each has only "
            "its own: allowed: another exchange",
            s->config.strategy);
    if (s->strategy->some_absent && rule->def->program->max_lanes == 1)
        return tg_fail(
            TG_E_UNSUPPORTED,
            "strategy \"%s\" lets some ranks sit rounds out; method \"%s\" remembers what "
            "the ranks did together: allowed: another method, or all ranks in each round",
            s->config.strategy, rule->method);
    if (s->strategy->some_absent && s->nodes != NULL)
        return tg_fail(
            TG_E_UNSUPPORTED,
            "strategy \"%s\" lets some ranks sit rounds out, which a node's sum does not "
            "know: allowed: no nodes, or all ranks in each round",
            s->config.strategy);
    return TG_OK;
}

/* Norms identify an outlier only if all ranks have the same weight. */
static tg_status takes_weights(const tg_session *s, const tg__rule *rule)
{
    const uint64_t *samples = s->strategy->samples;
    bool alike = true;
    for (int rank = 0; samples != NULL && rank < s->transport->size; rank++)
        alike = alike && samples[rank] == samples[0];
    if (alike || !s->strategy->weighted || rule->def->combine != &tg__combine_clipped ||
        strcmp(tg_spec_word(rule->spec, "clip"), "median") != 0)
        return TG_OK;
    return tg_fail(TG_E_UNSUPPORTED,
                   "strategy \"%s\" weights ranks by their samples; method \"%s\" would cut what "
                   "counts more to the median: allowed: clip=no, or weighted=no",
                   s->config.strategy, rule->method);
}

/* A method that owns the momentum includes the weight decay, unless decoupled=yes. */
static tg_status takes_decay(const tg_session *s, const tg__rule *rule)
{
    if (!s->strategy->decays_apart || !(rule->def->properties & TG__OWNS_MOMENTUM) ||
        s->optimizer->decoupled || s->optimizer->weight_decay == 0)
        return TG_OK;
    return tg_fail(TG_E_UNSUPPORTED,
                   "strategy \"%s\" keeps weight decay apart from what is exchanged; method \"%s\" "
                   "has it in its momentum: allowed: weight_decay=0, or decoupled=yes",
                   s->config.strategy, rule->method);
}

static tg_status takes_pushes(const tg_session *s, const tg__rule *rule)
{
    if (!s->strategy->pushes)
        return TG_OK;
    if (!(rule->def->properties & TG__DENSE))
        return tg_fail(TG_E_UNSUPPORTED,
                       "strategy \"%s\" sends parameters themselves; what method \"%s\" leaves out "
                       "of them would be missing: allowed: dense",
                       s->config.strategy, rule->method);
    if (s->nodes != NULL)
        return tg_fail(TG_E_UNSUPPORTED,
                       "strategy \"%s\" sends to one rank at a time, whatever node it is on: "
                       "allowed: no nodes",
                       s->config.strategy);
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
        tg_spec_text(y->spec), lanes, rule->method, most);
}

tg_status tg__session_takes(const tg_session *s, const tg__rule *rule)
{
    TG_TRY(takes_pushes(s, rule));
    TG_TRY(takes_updates(s, rule));
    TG_TRY(takes_weights(s, rule));
    TG_TRY(takes_decay(s, rule));
    return takes_lanes(s, rule);
}

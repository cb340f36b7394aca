/* What each tensor costs. A random gradient (normal, standard deviation 1) is encoded by the
 * methods themselves, as a single rank.
 *
 * A bucket's bytes are measured. Its tensors share them in proportion to what each would take
 * alone, or, if tensors compete for what is sent (sparsifiers), to their sizes. */
#include "session/session_impl.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "method/rehearsal.h"
#include "telegrad/spec.h"

#include <math.h>
#include <stdlib.h>

enum { DRAWS = 16 }; /* steps averaged, if their sizes differ (ATOMO's number of atoms) */

static tg_status play_some(tg__method *m, const float *g, double eta, double *bytes_p)
{
    tg__rehearsal first, next;
    tg__task task = {.step = TG__LATE, .g = g, .coded = true, .eta = eta};
    double sum;
    TG_TRY(tg__rehearse(m, task, &first));
    task.step++;
    TG_TRY(tg__rehearse(m, task, &next));
    sum = (double)first.bytes + (double)next.bytes;
    *bytes_p = sum / 2;
    if (fabs((double)next.bytes - (double)first.bytes) < 0.05 * (double)first.bytes)
        return TG_OK;
    while (++task.step < TG__LATE + DRAWS) {
        TG_TRY(tg__rehearse(m, task, &next));
        sum += (double)next.bytes;
    }
    *bytes_p = sum / DRAWS;
    return TG_OK;
}

/* The bytes of the frames of b's tensors, as one bucket. */
static tg_status measure(const tg_session *s, const bucket *b, double *bytes_p)
{
    tg__method_setup setup = {.size = 1, .measures = true, .lanes = 1};
    tg__method *m = NULL;
    TG__FREED float *g = NULL;
    TG_TRY(tg__state_create(&setup.state));
    tg_status status = tg__session_method(s, b, 0, setup, &m);
    if (status == TG_OK)
        status = tg__rehearsal_gradient(s->config.seed, b->n, &g);
    if (status == TG_OK)
        status = play_some(m, g, s->lr, bytes_p);
    tg__method_destroy(m);
    tg__state_destroy(setup.state);
    return status;
}

/* bytes (ntrained): set the shares of the bucket's members. */
static tg_status share(const tg_session *s, const bucket *b, double *bytes)
{
    const bool competes = (s->rules.rule[b->rule].def->properties & TG__SPARSIFIES) != 0;
    double all, sum = 0;
    TG_TRY(measure(s, b, &all));
    all += TG__ENVELOPE_BYTES;
    for (uint32_t i = 0; i < b->count; i++) {
        const size_t t = b->member[i];
        const bucket alone = {
            .member = &b->member[i], .count = 1, .n = s->wtensor[t].n, .rule = b->rule};
        bytes[t] = (double)alone.n;
        if (!competes && b->count > 1)
            TG_TRY(measure(s, &alone, &bytes[t]));
        sum += bytes[t];
    }
    for (uint32_t i = 0; i < b->count; i++)
        bytes[b->member[i]] *= all / sum;
    return TG_OK;
}

static tg_status list(tg_session *s, const double *bytes,
                      tg_status (*each)(void *arg, const tg_plan_tensor *tensor), void *arg)
{
    for (size_t i = 0; i < s->ntrained; i++) {
        const tensor *t = &s->tensor[s->trained[i]];
        const tg__rule *rule = &s->rules.rule[tg__rules_find(&s->rules, t->name)];
        const tg_plan_tensor row = {.struct_size = sizeof row,
                                    .name = t->name,
                                    .shape = t->shape,
                                    .ndim = t->ndim,
                                    .n = t->n,
                                    .method = tg_spec_text(rule->spec),
                                    .rule = rule->pattern,
                                    .bucket = t->bucket,
                                    .bytes = bytes[i]};
        TG_TRY(each(arg, &row));
    }
    return TG_OK;
}

tg_status tg_session_plan(tg_session *s, tg_status (*each)(void *arg, const tg_plan_tensor *tensor),
                          void *arg)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    TG__ARG(each);
    TG_TRY(tg__session_begun(s, "tg_session_plan"));
    TG__FREED double *bytes = NULL;
    TG_TRY(tg_alloc(s->ntrained, sizeof *bytes, &bytes));
    for (size_t b = 0; b < s->nbuckets; b++)
        TG_TRY(share(s, &s->bucket[b], bytes));
    return list(s, bytes, each, arg);
}

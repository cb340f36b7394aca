#include "method/auto_exchange.h"
#include "base/c_locale.h"
#include "base/mem.h"
#include "method/method_keys.h"
#include "method/rehearsal.h"
#include "telegrad/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 }; /* candidates */

typedef struct candidates {
    const tg__exchange_ops *x[MOST];
    double seconds[MOST], frame[MOST];
    size_t count, usual;
} candidates;

/* List the exchanges that the spec's key allows and that may be chosen automatically. */
static void list(const tg_spec *spec, candidates *c)
{
    const tg_key *key = tg_spec_entry(spec)->keys;
    while (strcmp(key->name, "exchange") != 0)
        key++;
    char words[TG__CHOICES_BYTES], *rest = words;
    snprintf(words, sizeof words, "%s", key->choices);
    for (char *name; (name = strsep(&rest, "|")) != NULL && c->count < MOST;) {
        const tg__exchange_ops *x = tg__exchange_find(name);
        if (x == NULL || !x->automatic)
            continue;
        if (strcmp(name, tg__method_default_exchange(spec)) == 0)
            c->usual = c->count;
        c->x[c->count++] = x;
    }
}

/* A bucket to choose for. */
typedef struct request {
    const char *text;
    const tg_spec *spec;
    const tg__method_def *def;
    const tg__method_setup *setup;
    const tg__network *net;
    tg__sample sample;
    double eta;
    float *g; /* (sample.n) */
} request;

/* Only the second step counts: by then thresholds have adapted. */
static tg_status rehearse(const request *q, const tg__exchange_ops *x, tg__rehearsal *r)
{
    tg__method *m = NULL;
    tg__method_setup alone = q->sample.setup;
    alone.rank = 0;
    alone.size = 1;
    alone.lanes = 1;
    alone.exchange = x->entry.name;
    alone.pool = NULL;
    alone.nodes = NULL;
    TG_TRY(tg__state_create(&alone.state));
    tg_status status = tg__method_create(q->text, &alone, &m);
    tg__task task = {.step = TG__LATE, .g = q->g, .coded = true, .eta = q->eta};
    for (; task.step < TG__LATE + 2 && status == TG_OK; task.step++)
        status = tg__rehearse(m, task, r);
    tg__method_destroy(m);
    tg__state_destroy(alone.state);
    for (size_t i = 0; i < r->rounds && status == TG_OK; i++) {
        r->round[i].n = (size_t)((double)r->round[i].n * q->sample.scale);
        r->round[i].frame *= q->sample.scale;
    }
    return status;
}

static tg_status find_rounds(const request *q, const tg__exchange_ops *x, tg__rehearsal *r)
{
    tg__method_setup setup = *q->setup;
    if (q->def->program->foresee == NULL)
        return rehearse(q, x, r);
    setup.exchange = x->entry.name;
    q->def->program->foresee(q->spec, &setup, r);
    return TG_OK;
}

/* Predict the time of all rounds together. */
static tg_status predict_one(const request *q, const tg__exchange_ops *x, double *seconds_p,
                             double *frame_p)
{
    tg__rehearsal r = {0};
    TG_TRY(find_rounds(q, x, &r));
    *seconds_p = *frame_p = 0;
    for (size_t i = 0; i < r.rounds; i++) {
        *seconds_p += tg__exchange_seconds(r.round[i].x, q->setup->size, r.round[i].n,
                                           r.round[i].frame, q->net);
        *frame_p += r.round[i].frame;
    }
    return TG_OK;
}

/* Predict all candidates; drop those that the method refuses. */
static tg_status predict(const request *q, candidates *c)
{
    size_t left = 0, usual = 0;
    for (size_t i = 0; i < c->count; i++) {
        const tg_status status = predict_one(q, c->x[i], &c->seconds[left], &c->frame[left]);
        const bool refused = status == TG_E_SPEC || status == TG_E_UNSUPPORTED;
        if (status != TG_OK && (!refused || i == c->usual))
            return status;
        if (i == c->usual)
            usual = left;
        if (status == TG_OK)
            c->x[left++] = c->x[i];
    }
    c->count = left;
    c->usual = usual;
    return TG_OK;
}

static void tell(const request *q, const candidates *c, size_t taken)
{
    char others[400] = "", rate[64] = "no time a byte";
    size_t at = 0, n = 0;
    for (size_t i = 0; i < c->count; i++)
        if (i != taken && at < sizeof others)
            at += (size_t)tg__snprintf(others + at, sizeof others - at, "%s %.2f, ",
                                       c->x[i]->entry.name, 1e3 * c->seconds[i]);
    for (size_t i = 0; i < q->setup->count; i++)
        n += q->setup->len[i];
    if (q->net->byte > 0)
        tg__snprintf(rate, sizeof rate, "%.1f Mbit/s", 8e-6 / q->net->byte);
    tg_log(TG_LOG_INFO,
           "bucket %u: exchange=auto: %s, %.2f ms predicted (%sfor a delay of %.2f ms, %s, %d "
           "ranks, %zu elements, %.0f bytes coded)",
           q->setup->bucket, c->x[taken]->entry.name, 1e3 * c->seconds[taken], others,
           1e3 * q->net->delay, rate, q->setup->size, n, c->frame[taken]);
}

static tg_status choose(request *q, const tg__exchange_ops **choice_p)
{
    candidates c = {.count = 0};
    list(q->spec, &c);
    if (c.count == 1) {
        *choice_p = c.x[0];
        return TG_OK;
    }
    if (q->def->program->foresee == NULL) {
        TG_TRY(tg__sample_create(q->setup, TG__AUTO_ELEMENTS, &q->sample));
        TG_TRY(tg__rehearsal_gradient(q->setup->seed, q->sample.n, &q->g));
    }
    TG_TRY(predict(q, &c));
    const size_t taken = tg__exchange_pick(c.seconds, c.count, c.usual);
    tell(q, &c, taken);
    *choice_p = c.x[taken];
    return TG_OK;
}

tg_status tg__auto_exchange(const char *text, const tg__method_setup *setup, double eta,
                            const tg__network *net, const tg__exchange_ops **choice_p)
{
    tg_spec *spec;
    request q = {.text = text, .setup = setup, .net = net, .eta = eta};
    TG_TRY(tg__method_parse(text, &spec, &q.def));
    q.spec = spec;
    const tg_status status = choose(&q, choice_p);
    free(q.g);
    tg__sample_free(&q.sample);
    tg_spec_free(spec);
    return status;
}

uint8_t tg__exchange_number(const tg__exchange_ops *x)
{
    size_t count;
    const tg__exchange_ops *const *all = tg__exchanges(&count);
    for (size_t i = 0; i < count; i++)
        if (all[i] == x)
            return (uint8_t)i;
    return TG__NO_CHOICE;
}

const tg__exchange_ops *tg__exchange_numbered(uint8_t number)
{
    size_t count;
    const tg__exchange_ops *const *all = tg__exchanges(&count);
    return number < count && all[number]->automatic ? all[number] : NULL;
}

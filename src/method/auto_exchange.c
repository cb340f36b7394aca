#include "method/auto_exchange.h"
#include "base/mem.h"
#include "method/rehearsal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 }; /* candidates */

typedef struct candidates {
    const tg__exchange_ops *x[MOST];
    double seconds[MOST], frame[MOST];
    size_t count, usual;
} candidates;

/* Those among the choices of the spec's key that may be chosen. */
static void list(const tg_spec *spec, candidates *c)
{
    const tg_key *key = tg_spec_entry(spec)->keys;
    while (strcmp(key->name, "exchange") != 0)
        key++;
    size_t count;
    const tg__exchange_ops *const *all = tg__exchanges(&count);
    const char *usual = tg__method_default_exchange(spec);
    for (const char *at = key->choices; at != NULL && c->count < MOST;) {
        const char *end = strchr(at, '|');
        const size_t len = end == NULL ? strlen(at) : (size_t)(end - at);
        for (size_t i = 0; i < count; i++) {
            const char *name = all[i]->entry.name;
            if (!all[i]->automatic || strlen(name) != len || strncmp(name, at, len) != 0)
                continue;
            if (strcmp(name, usual) == 0)
                c->usual = c->count;
            c->x[c->count++] = all[i];
        }
        at = end == NULL ? NULL : end + 1;
    }
}

/* What its rounds take together, among q->size ranks. The second step counts: by then thresholds
 * have adapted. */
static tg_status rehearse(const tg__auto_request *q, const tg__network *net, const float *g,
                          const tg__exchange_ops *x, double *seconds_p, double *frame_p)
{
    tg__method *m = NULL;
    tg__method_setup alone = {.size = 1, .lanes = 1, .exchange = x->entry.name};
    tg__rehearsal r;
    TG_TRY(tg__state_create(&alone.state));
    tg_status status = q->make(q->arg, alone, &m);
    for (uint64_t i = 0; i < 2 && status == TG_OK; i++)
        status = tg__rehearse(m, g, TG__LATE + i, q->eta, &r);
    tg__method_destroy(m);
    tg__state_destroy(alone.state);
    TG_TRY(status);
    *seconds_p = *frame_p = 0;
    for (size_t i = 0; i < r.rounds; i++) {
        *seconds_p +=
            tg__exchange_seconds(r.round[i].x, q->size, r.round[i].n, r.round[i].frame, net);
        *frame_p += r.round[i].frame;
    }
    return TG_OK;
}

/* Leave out what the method refuses. */
static tg_status predict(const tg__auto_request *q, const tg__network *net, const float *g,
                         candidates *c)
{
    size_t left = 0, usual = 0;
    for (size_t i = 0; i < c->count; i++) {
        const tg_status status = rehearse(q, net, g, c->x[i], &c->seconds[left], &c->frame[left]);
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

static void tell(const tg__auto_request *q, const tg__network *net, const candidates *c,
                 size_t taken)
{
    char others[400] = "", rate[64] = "no time a byte";
    size_t at = 0;
    for (size_t i = 0; i < c->count; i++)
        if (i != taken && at < sizeof others)
            at += (size_t)snprintf(others + at, sizeof others - at, "%s %.2f, ",
                                   c->x[i]->entry.name, 1e3 * c->seconds[i]);
    if (net->byte > 0)
        snprintf(rate, sizeof rate, "%.1f Mbit/s", 8e-6 / net->byte);
    tg_log(TG_LOG_INFO,
           "bucket %u: exchange=auto: %s, %.2f ms predicted (%sfor a delay of %.2f ms, %s, %d "
           "ranks, %zu elements, %.0f bytes coded)",
           q->bucket, c->x[taken]->entry.name, 1e3 * c->seconds[taken], others, 1e3 * net->delay,
           rate, q->size, q->n, c->frame[taken]);
}

tg_status tg__auto_exchange(const tg__auto_request *q, const tg__network *net,
                            const tg__exchange_ops **choice_p)
{
    candidates c = {.count = 0};
    float *g;
    list(q->spec, &c);
    if (c.count == 1) {
        *choice_p = c.x[0];
        return TG_OK;
    }
    TG_TRY(tg__rehearsal_gradient(q->seed, q->n, &g));
    const tg_status status = predict(q, net, g, &c);
    free(g);
    TG_TRY(status);
    const size_t taken = tg__exchange_pick(c.seconds, c.count, c.usual);
    tell(q, net, &c, taken);
    *choice_p = c.x[taken];
    return TG_OK;
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

#include "trainer/loop/run_lags.h"
#include "trainer/loop/run.h"
#include "telegrad/registry.h"
#include "telegrad/spec.h"
#include "telegrad/tools.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lags_densities(const fusion_tensor *t, size_t n, const uint32_t *buckets, size_t nbuckets,
                    double alpha, double least, double *density)
{
    double idle = 0; /* end of the exchanges so far */
    size_t first = n;
    for (size_t b = nbuckets; b-- > 0;) {
        double ready = 0, next = 0, bytes = 0;
        first -= buckets[b];
        for (size_t i = first; i < first + buckets[b]; i++) {
            ready = t[i].ready > ready ? t[i].ready : ready;
            bytes += t[i].exchange;
        }
        for (size_t i = first; b > 0 && i > first - buckets[b - 1]; i--)
            next = t[i - 1].ready > next ? t[i - 1].ready : next;
        const double begin = ready > idle ? ready : idle, full = bytes / least;
        const double room = (b > 0 ? next - begin : 0) - alpha;
        density[b] = full <= room ? 1 : room > least * full ? room / full : least;
        idle = begin + alpha + full * density[b];
    }
}

tg_status lags_least(const train_job *job, double *least_p)
{
    tg_spec *spec;
    TG_TRY(tg_registry_parse(TG_KIND_METHOD, job->method ? job->method : "dense", &spec));
    tg_status status = TG_OK;
    if (tg_spec_has(spec, "density") && tg_spec_has(spec, "warmup"))
        *least_p = tg_spec_real(spec, "density");
    else
        status =
            tg_fail(TG_E_SPEC,
                    "--fusion lags chooses densities, and method \"%s\" has none that its "
                    "bytes grow with: allowed: topk, dgc, randomk, cltk, csc; or --fusion auto",
                    tg_spec_name(spec));
    tg_spec_free(spec);
    return status;
}

tg_status lags_method(const char *method, double density, char **text_p)
{
    const size_t name = strcspn(method, ":"), room = strlen(method) + 48;
    char *text;
    TG_TRY(tg_alloc(room, 1, &text));
    size_t len = (size_t)snprintf(text, room, "%.*s:density=%.3g", (int)name, method, density);
    for (const char *at = method + name; *at != '\0';) {
        at++;
        const size_t key = strcspn(at, ",");
        if (key > 0 && strncmp(at, "density=", 8) != 0)
            len += (size_t)snprintf(text + len, room - len, ",%.*s", (int)key, at);
        at += key;
    }
    *text_p = text;
    return TG_OK;
}

/* Add "TENSOR=METHOD". */
static tg_status add_rule(run *r, const char *tensor, double density)
{
    char *method, *rule;
    TG_TRY(lags_method(r->job->method, density, &method));
    const size_t room = strlen(tensor) + strlen(method) + 2;
    const tg_status status = tg_alloc(room, 1, &rule);
    if (status == TG_OK) {
        snprintf(rule, room, "%s=%s", tensor, method);
        r->rules[r->nrules++] = rule;
    }
    free(method);
    return status;
}

tg_status lags_rules(run *r)
{
    const train_job *job = r->job;
    const model *m = r->model;
    TG_TRY(tg_alloc(job->nrules + m->ntensors, sizeof *r->rules, &r->rules));
    for (; r->nrules < job->nrules; r->nrules++) {
        const size_t room = strlen(job->rules[r->nrules]) + 1;
        TG_TRY(tg_alloc(room, 1, &r->rules[r->nrules]));
        memcpy(r->rules[r->nrules], job->rules[r->nrules], room);
    }
    size_t bucket = 0, left = r->nbuckets > 0 ? r->buckets[0] : 0;
    for (size_t i = 0; i < m->ntensors; i++) {
        if (m->tensors[i].kind != MODEL_TRAINED)
            continue;
        if (left == 0)
            left = r->buckets[++bucket];
        left--;
        if (run_rule_of(job, m->tensors[i].name) == NULL)
            TG_TRY(add_rule(r, m->tensors[i].name, r->density[bucket]));
    }
    return TG_OK;
}

void lags_free(run *r)
{
    for (size_t i = 0; i < r->nrules; i++)
        free(r->rules[i]);
    free(r->rules);
    free(r->density);
}

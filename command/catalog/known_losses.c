#include "command/catalog/known_losses.h"

#include <math.h>
#include <string.h>

enum { JOBS = 4 };

static const struct {
    const char *name, *unit;
    int digits;
} jobs[JOBS] = {{"GPT, 4 epochs", "nats", 2},
                {"GPT, 12 epochs", "nats", 2},
                {"ResNet-20, 4 epochs", "points", 1},
                {"character LSTM, 3 epochs", "nats", 2}};

#define NONE (double)NAN /* was not trained */

static const struct known_loss {
    tg_kind kind;
    const char *spec;
    double loss[JOBS];
} known[] = {
    {TG_KIND_METHOD, "topk", {0.12, 0.03, 0.1, 0.03}},
    {TG_KIND_METHOD, "adacomp", {0.09, 0.04, 1.5, 0.03}},
    {TG_KIND_METHOD, "dgc", {NONE, NONE, 3.7, NONE}},
    {TG_KIND_METHOD, "2bit", {0.09, 0.01, -0.8, 0.01}},
    {TG_KIND_METHOD, "1bit", {0.09, NONE, 0.5, 0.00}},
    {TG_KIND_METHOD, "1bit:weights=no", {0.10, 0.02, 3.2, 0.46}},
    {TG_KIND_METHOD, "efsign", {NONE, NONE, NONE, 0.01}},
    {TG_KIND_METHOD, "powersgd", {NONE, 0.10, NONE, NONE}},
    {TG_KIND_METHOD, "qsgd", {NONE, -0.01, NONE, 0.01}},
    {TG_KIND_STRATEGY, "cd", {0.06, 0.01, 0.2, -0.01}},
    {TG_KIND_STRATEGY, "od", {0.02, NONE, -1.2, 0.00}},
    {TG_KIND_STRATEGY, "dga:delay=4", {0.17, NONE, NONE, 0.10}},
    {TG_KIND_STRATEGY, "local:every=8", {0.13, 0.02, 3.5, 0.02}},
    {TG_KIND_STRATEGY, "local:every=8,after=2ep", {0.03, NONE, NONE, NONE}},
    {TG_KIND_STRATEGY, "diloco", {0.26, 0.09, NONE, 0.06}},
    {TG_KIND_STRATEGY, "diloco:every=20", {0.09, NONE, NONE, NONE}},
    {TG_KIND_STRATEGY, "streaming", {0.26, NONE, NONE, 0.07}},
};
enum { KNOWN = sizeof known / sizeof *known };

static bool is_of(const struct known_loss *k, tg_kind kind, const char *name)
{
    return k->kind == kind && strcspn(k->spec, ":") == strlen(name) &&
           strncmp(k->spec, name, strlen(name)) == 0;
}

void known_losses_print(tg_kind kind, const char *name, FILE *out)
{
    for (size_t i = 0; i < KNOWN; i++) {
        const char *before = ": ";
        if (!is_of(&known[i], kind, name))
            continue;
        fprintf(out, "      loses  %s, beside dense training", known[i].spec);
        for (size_t j = 0; j < JOBS; j++)
            if (!isnan(known[i].loss[j])) {
                fprintf(out, "%s%.*f %s (%s)", before, jobs[j].digits, known[i].loss[j],
                        jobs[j].unit, jobs[j].name);
                before = ", ";
            }
        fputs("; docs/results/defaults.md\n", out);
    }
}

json_t *known_losses_json(tg_kind kind, const char *name)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < KNOWN; i++)
        for (size_t j = 0; list && j < JOBS; j++) {
            if (!is_of(&known[i], kind, name) || isnan(known[i].loss[j]))
                continue;
            json_t *loss = json_pack("{s:s, s:s, s:f, s:s}", "spec", known[i].spec, "job",
                                     jobs[j].name, "loss", known[i].loss[j], "unit", jobs[j].unit);
            if (json_array_append_new(list, loss) != 0) {
                json_decref(list);
                list = NULL;
            }
        }
    return list;
}

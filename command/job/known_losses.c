#include "command/job/known_losses.h"

#include <math.h>
#include <string.h>

enum { JOBS = 4 };

/* Of one model, the longest job is the last. */
static const struct {
    const char *model; /* how the model's name begins */
    const char *name, *unit;
    int digits;
    double seeds;
} jobs[JOBS] = {{"gpt", "GPT, 4 epochs", "nats", 2, 0.04},
                {"gpt", "GPT, 12 epochs", "nats", 2, 0.04},
                {"resnet", "ResNet-20, 4 epochs", "points", 1, 1},
                {"lstm", "character LSTM, 3 epochs", "nats", 2, 0.04}};

#define NONE (double)NAN /* was not trained */

static const struct trained {
    tg_kind kind;
    const char *spec;
    double loss[JOBS];
} known[] = {
    {TG_KIND_METHOD, "topk", {0.12, 0.03, 1.5, 0.03}},
    {TG_KIND_METHOD, "adacomp", {0.09, 0.04, 2.9, 0.03}},
    {TG_KIND_METHOD, "cltk", {0.61, NONE, NONE, 0.08}},
    {TG_KIND_METHOD, "cltk:beta=0.1", {0.29, NONE, NONE, 0.19}},
    {TG_KIND_METHOD, "cltk:density=0.04", {0.45, NONE, NONE, NONE}},
    {TG_KIND_METHOD, "dgc", {NONE, NONE, 5.1, NONE}},
    {TG_KIND_METHOD, "dgc:clip=0.25", {NONE, NONE, NONE, 0.11}},
    {TG_KIND_METHOD, "2bit", {0.09, 0.01, 0.6, 0.01}},
    {TG_KIND_METHOD, "1bit", {0.09, NONE, 1.9, 0.00}},
    {TG_KIND_METHOD, "1bit:weights=no", {0.10, 0.02, 4.6, 0.46}},
    {TG_KIND_METHOD, "efsign", {0.08, NONE, 2.4, 0.01}},
    {TG_KIND_METHOD, "powersgd", {0.25, 0.10, 3.3, 0.06}},
    {TG_KIND_METHOD, "qsgd", {-0.01, 0.02, NONE, 0.01}},
    {TG_KIND_STRATEGY, "cd", {0.06, 0.01, 1.6, -0.01}},
    {TG_KIND_STRATEGY, "od", {0.02, NONE, 0.2, 0.00}},
    {TG_KIND_STRATEGY, "dga:delay=4", {0.17, NONE, NONE, 0.10}},
    {TG_KIND_STRATEGY, "local:every=8", {0.13, 0.05, 4.8, 0.02}},
    {TG_KIND_STRATEGY, "local:every=8,after=2ep", {0.03, NONE, NONE, 0.00}},
    {TG_KIND_STRATEGY, "diloco", {0.26, 0.09, NONE, 0.06}},
    {TG_KIND_STRATEGY, "diloco:every=20", {0.09, NONE, NONE, NONE}},
    {TG_KIND_STRATEGY, "streaming", {0.26, NONE, NONE, 0.07}},
};
enum { KNOWN = sizeof known / sizeof *known };

static bool is_of(const struct trained *k, tg_kind kind, const char *name)
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

/* Compare the normal forms without the exchange, which is the last key if there is one. */
static bool mean_the_same(const tg_spec *spec, const char *other)
{
    const char *text = tg_spec_text(spec), *end = strstr(text, "exchange=");
    const size_t len = end ? (size_t)(end - text) : strlen(text);
    return strncmp(text, other, len) == 0 &&
           (end ? strncmp(other + len, "exchange=", 9) == 0 : other[len] == '\0');
}

static bool is_meant(const struct trained *k, tg_kind kind, const tg_spec *spec)
{
    tg_spec *other;
    if (!is_of(k, kind, tg_spec_name(spec)) || tg_registry_parse(kind, k->spec, &other) != TG_OK)
        return false;
    const bool same = mean_the_same(spec, tg_spec_text(other));
    tg_spec_free(other);
    return same;
}

static bool is_model(const char *spec, const char *beginning)
{
    return strncmp(spec, beginning, strlen(beginning)) == 0;
}

bool known_losses_find(tg_kind kind, const tg_spec *spec, const char *model, known_loss *k)
{
    const struct trained *t = known, *const end = known + KNOWN;
    size_t j = JOBS;
    while (t < end && !is_meant(t, kind, spec))
        t++;
    while (t < end && j > 0 && (isnan(t->loss[j - 1]) || !is_model(model, jobs[j - 1].model)))
        j--;
    if (t == end || j == 0)
        return false;
    *k = (known_loss){.spec = t->spec,
                      .job = jobs[j - 1].name,
                      .unit = jobs[j - 1].unit,
                      .digits = jobs[j - 1].digits,
                      .loss = t->loss[j - 1],
                      .seeds = jobs[j - 1].seeds};
    return true;
}

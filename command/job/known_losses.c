#include "command/job/known_losses.h"
#include "command/job/spec_words.h"

#include <math.h>
#include <stdlib.h>
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
    {TG_KIND_METHOD, "topk", {0.12, 0.02, 1.5, 0.03}},
    {TG_KIND_METHOD, "adacomp", {0.09, 0.04, 2.9, 0.03}},
    {TG_KIND_METHOD, "cltk", {0.61, NONE, 8.7, 0.08}},
    {TG_KIND_METHOD, "cltk:beta=0.1", {0.29, NONE, NONE, 0.19}},
    {TG_KIND_METHOD, "cltk:density=0.04", {0.44, NONE, NONE, NONE}},
    {TG_KIND_METHOD, "dgc", {NONE, NONE, 5.2, NONE}},
    {TG_KIND_METHOD, "dgc:clip=0.25", {NONE, NONE, NONE, 0.11}},
    {TG_KIND_METHOD, "2bit", {0.09, 0.00, 0.6, 0.01}},
    {TG_KIND_METHOD, "1bit", {0.09, 0.02, 1.9, 0.00}},
    {TG_KIND_METHOD, "1bit:weights=no", {0.10, 0.02, 4.6, 0.46}},
    {TG_KIND_METHOD, "efsign", {0.08, NONE, 2.4, 0.01}},
    {TG_KIND_METHOD, "powersgd", {0.25, 0.10, 3.3, 0.06}},
    {TG_KIND_METHOD, "powersgd:rank=16", {0.04, NONE, NONE, NONE}},
    {TG_KIND_METHOD, "qsgd", {-0.01, 0.01, 1.4, 0.01}},
    {TG_KIND_STRATEGY, "cd", {0.06, 0.01, 1.7, -0.01}},
    {TG_KIND_STRATEGY, "od", {0.02, NONE, 0.2, 0.00}},
    {TG_KIND_STRATEGY, "dga:delay=4", {0.17, NONE, 4.6, 0.10}},
    {TG_KIND_STRATEGY, "local:every=8", {0.13, 0.05, 4.9, 0.02}},
    {TG_KIND_STRATEGY, "local:every=8,momentum=reset", {0.40, NONE, 8.6, NONE}},
    {TG_KIND_STRATEGY, "local:every=8,after=2ep", {0.03, NONE, 1.0, 0.00}},
    {TG_KIND_STRATEGY, "diloco", {0.26, 0.09, 11.0, 0.06}},
    {TG_KIND_STRATEGY, "diloco:every=20", {0.09, NONE, NONE, NONE}},
    {TG_KIND_STRATEGY, "streaming", {0.26, NONE, 10.6, 0.07}},
    {TG_KIND_STRATEGY, "sparseloco", {0.54, NONE, NONE, NONE}},
    {TG_KIND_STRATEGY, "sparseloco:every=15", {0.41, NONE, NONE, NONE}},
};
enum { KNOWN = sizeof known / sizeof *known };

static bool is_of(const struct trained *k, tg_kind kind, const char *name)
{
    return k->kind == kind && spec_same_name(k->spec, name);
}

void known_losses_print(tg_kind kind, const char *name, FILE *out)
{
    for (size_t i = 0; i < KNOWN; i++) {
        const char *before = ": ";
        if (!is_of(&known[i], kind, name))
            continue;
        fprintf(out, "      loses  %s, compared with dense training", known[i].spec);
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

/* Keys whose loss grows with the value, or falls. */
static const struct harder {
    const char *key, *change;
    bool grows;
} harder[] = {{"delay=", "longer delay", true},
              {"density=", "lower density", false},
              {"rank=", "lower rank", false}};

static bool begins(const char *text, const char *beginning)
{
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

static const struct harder *harder_key(const char *pair)
{
    for (size_t i = 0; i < sizeof harder / sizeof *harder; i++)
        if (begins(pair, harder[i].key))
            return &harder[i];
    return NULL;
}

/* How a spec relates to one that was trained. */
typedef enum likeness { UNLIKE, ALIKE, HARDER } likeness;

/* Compare a pair KEY=VALUE of each. If it is harder, set k's change and trained. */
static likeness compare_pair(const char *pair, size_t len, const char *other, size_t other_len,
                             known_loss *k)
{
    if (len == other_len && strncmp(pair, other, len) == 0)
        return ALIKE;
    if (begins(pair, "exchange=") && begins(other, "exchange="))
        return begins(pair, "exchange=none") ? UNLIKE : ALIKE;
    const struct harder *h = harder_key(pair);
    if (h == NULL || !begins(other, h->key))
        return UNLIKE;
    const double value = strtod(pair + strlen(h->key), NULL);
    const double trained = strtod(other + strlen(h->key), NULL);
    if (h->grows ? value <= trained : value >= trained)
        return UNLIKE;
    k->change = h->change;
    k->trained = trained;
    return HARDER;
}

/* Compare normal forms of one name, whose keys are in one order. */
static likeness compare(const char *text, const char *other, known_loss *k)
{
    likeness all = ALIKE;
    while (all != UNLIKE && *text != '\0' && *other != '\0') {
        const size_t len = strcspn(text, ":,"), other_len = strcspn(other, ":,");
        const likeness pair = compare_pair(text, len, other, other_len, k);
        all = pair == ALIKE ? all : pair;
        text += len + (text[len] != '\0');
        other += other_len + (other[other_len] != '\0');
    }
    return *text == '\0' && *other == '\0' ? all : UNLIKE;
}

static likeness relate(const struct trained *t, tg_kind kind, const tg_spec *spec, known_loss *k)
{
    tg_spec *other;
    if (!is_of(t, kind, tg_spec_name(spec)) || tg_registry_parse(kind, t->spec, &other) != TG_OK)
        return UNLIKE;
    const likeness found = compare(tg_spec_text(spec), tg_spec_text(other), k);
    tg_spec_free(other);
    return found;
}

/* The longest of the jobs with such a model in which it was trained; JOBS: none. */
static size_t find_job(const struct trained *t, const char *model)
{
    size_t j = JOBS;
    while (j > 0 && (isnan(t->loss[j - 1]) || !begins(model, jobs[j - 1].model)))
        j--;
    return j > 0 ? j - 1 : JOBS;
}

bool known_losses_find(tg_kind kind, const tg_spec *spec, const char *model, known_loss *k)
{
    bool found = false;
    for (size_t i = 0; i < KNOWN; i++) {
        known_loss now = {.change = NULL};
        const likeness like = relate(&known[i], kind, spec, &now);
        const size_t j = like == UNLIKE ? JOBS : find_job(&known[i], model);
        if (j == JOBS || (like == HARDER && found && known[i].loss[j] <= k->loss))
            continue;
        now.spec = known[i].spec;
        now.job = jobs[j].name;
        now.unit = jobs[j].unit;
        now.digits = jobs[j].digits;
        now.loss = known[i].loss[j];
        now.seeds = jobs[j].seeds;
        *k = now;
        if (like == ALIKE)
            return true;
        found = true;
    }
    return found;
}

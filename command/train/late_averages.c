#include "command/train/late_averages.h"
#include "command/output/console.h"
#include "telegrad/registry.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 30 }; /* fewer are warned of */

/* The number of a key that the strategy need not have; 0: it has none. */
static uint64_t number(const tg_spec *spec, const char *key)
{
    return tg_spec_has(spec, key) ? (uint64_t)tg_spec_int(spec, key) : 0;
}

/* Whether no round ends in the run. Until `after`, every step exchanges. */
static bool no_round(const late_run *run, const tg_spec *spec)
{
    const uint64_t every = number(spec, "every");
    uint64_t after = 0;
    if (tg_spec_has(spec, "after") &&
        tg_duration_steps(tg_spec_duration(spec, "after"), run->steps_per_epoch, "after", &after) !=
            TG_OK)
        return false;
    return every > 1 && run->first >= after &&
           (run->first - after) / every == (run->steps - after) / every;
}

bool late_averages(const late_run *run, bool ended, char *text, size_t room)
{
    tg_spec *spec;
    if (run->world < 2 || run->steps <= run->first ||
        tg_registry_parse(TG_KIND_STRATEGY, run->strategy, &spec) != TG_OK)
        return false;
    const bool round = no_round(run, spec);
    const char *key = round ? "every" : tg_spec_has(spec, "width") ? "width" : "delay";
    const uint64_t value = number(spec, key);
    const bool late = round || value >= run->steps + (key[0] == 'w');
    if (late && ended)
        snprintf(text, room, "strategy %s: %s=%" PRIu64 " in a run of %" PRIu64 " steps: %s",
                 tg_spec_name(spec), key, value, run->steps - run->first,
                 round ? "nothing was exchanged before the end"
                       : "no average arrived before the end");
    else if (late)
        snprintf(text, room,
                 "strategy %s: %s=%" PRIu64 " in a run of %" PRIu64
                 " steps: %s before the end, and tests until then use the parameters that the run "
                 "started with: use a smaller %s=",
                 tg_spec_name(spec), key, value, run->steps - run->first,
                 round ? "nothing is exchanged" : "no average arrives", key);
    tg_spec_free(spec);
    return late;
}

static uint64_t usual_every(const tg_spec *spec)
{
    const tg_key *key = tg_spec_entry(spec)->keys;
    while (strcmp(key->name, "every") != 0)
        key++;
    return strtoull(key->def, NULL, 10);
}

static bool averages_seldom(const tg_spec *spec)
{
    const char *name = tg_spec_name(spec);
    return strcmp(name, "diloco") == 0 || strcmp(name, "streaming") == 0;
}

/* Whether rounds of the default length make few averages. With SGD that does less harm than short
 * rounds do. */
static bool few_rounds(const late_run *run, char *text, size_t room)
{
    tg_spec *spec;
    if (run->world < 2 || !run->optimizer || strncmp(run->optimizer, "adam", 4) != 0 ||
        tg_registry_parse(TG_KIND_STRATEGY, run->strategy, &spec) != TG_OK)
        return false;
    const uint64_t every = number(spec, "every"), rounds = every > 0 ? run->steps / every : 0;
    const bool few = averages_seldom(spec) && every == usual_every(spec) && rounds < ROUNDS;
    if (few)
        snprintf(text, room,
                 "strategy %s: every=%" PRIu64 " makes %" PRIu64 " round%s in a run of %" PRIu64
                 " steps, which is few: a GPT ended 0.26 nats behind ssgd after 9 "
                 "rounds of 100 steps, 0.09 after 49 of 20 (docs/results/defaults.md): use a "
                 "smaller every=, such as every=20",
                 tg_spec_name(spec), every, rounds, rounds == 1 ? "" : "s", run->steps);
    tg_spec_free(spec);
    return few;
}

void late_averages_warn(const late_run *run, const char *title)
{
    char text[400];
    if (late_averages(run, false, text, sizeof text) || few_rounds(run, text, sizeof text))
        console_warning("%s%s%s", title, title[0] ? ": " : "", text);
}

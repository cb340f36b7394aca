#include "command/train/settled_keys.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct texts {
    char value[64], why[320];
};

static bool same(tg_duration a, tg_duration b)
{
    return a.count == b.count && a.epochs == b.epochs;
}

/* Describe a warm-up that is not given. */
static bool describe_warm_up(const tg_key *key, const tg_spec *written, const tg_spec *settled,
                             uint64_t steps, struct texts *t)
{
    if (key->type != TG_KEY_DURATION || !(key->share > 0) || tg_spec_given(written, key->name))
        return false;
    const tg_duration d = tg_spec_duration(settled, key->name);
    snprintf(t->value, sizeof t->value, "%.9g%s", d.count, d.epochs ? "ep" : "");
    if (steps == 0)
        snprintf(t->why, sizeof t->why, "the checkpoint's");
    else if (same(d, tg_spec_duration(written, key->name)))
        snprintf(t->why, sizeof t->why,
                 "the default: the run's %" PRIu64 " steps are enough for it", steps);
    else
        snprintf(t->why, sizeof t->why,
                 "%g %% of the run's %" PRIu64 " steps, which are too few for the default, %s",
                 100 * key->share, steps, key->def);
    return true;
}

/* Describe `auto` in the words of the key's help. */
static bool describe_auto(const tg_key *key, const tg_spec *settled, struct texts *t)
{
    static const char word[] = "auto: ";
    const bool words =
        key->type == TG_KEY_CHOICE || key->type == TG_KEY_INT || key->type == TG_KEY_REAL;
    if (!words || !key->choices || !tg_spec_has(settled, key->name) ||
        strcmp(tg_spec_word(settled, key->name), "auto") != 0)
        return false;
    const char *found = strstr(key->help, word);
    const char *why = found ? found + strlen(word) : key->help;
    snprintf(t->value, sizeof t->value, "auto");
    snprintf(t->why, sizeof t->why, "%.*s", (int)strcspn(why, ";"), why);
    return true;
}

static tg_status walk(tg_kind kind, const tg_spec *written, const tg_spec *settled, uint64_t steps,
                      tg_status (*each)(void *arg, const settled_key *key), void *arg)
{
    for (const tg_key *key = tg_spec_entry(settled)->keys; key && key->name; key++) {
        struct texts t;
        if (!describe_warm_up(key, written, settled, steps, &t) && !describe_auto(key, settled, &t))
            continue;
        const settled_key one = {kind, tg_spec_name(settled), key->name, t.value, t.why};
        TG_TRY(each(arg, &one));
    }
    return TG_OK;
}

tg_status settled_keys(tg_kind kind, const char *written, const char *settled, uint64_t steps,
                       tg_status (*each)(void *arg, const settled_key *key), void *arg)
{
    tg_spec *from, *to;
    TG_TRY(tg_registry_parse(kind, written, &from));
    tg_status status = tg_registry_parse(kind, settled, &to);
    if (status == TG_OK) {
        status = walk(kind, from, to, steps, each, arg);
        tg_spec_free(to);
    }
    tg_spec_free(from);
    return status;
}

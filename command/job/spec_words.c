#include "command/job/spec_words.h"
#include "telegrad/tools.h"
#include <stdbool.h>
#include <string.h>

/* The first whose second word is there counts. */
static const char *const names[][2] = {
    {"fp32", "dense"},      {"float32", "dense"},  {"identity", "dense"}, {"none", "dense"},
    {"allreduce", "dense"}, {"float16", "fp16"},   {"half", "fp16"},      {"bfloat16", "bf16"},
    {"8bit", "int8"},       {"randk", "randomk"},  {"sync", "ssgd"},      {"bsp", "ssgd"},
    {"allreduce", "ssgd"},  {"localsgd", "local"}, {"steplr", "step"},    {"multistep", "step"},
    {"momentum", "sgd"},    {"f32", "dense"},
};

static const struct {
    const char *word, *key, *more;
} keys[] = {
    {"sparsity", "density", " (1 - sparsity)"},
    {"ratio", "density", ", the share of elements that is sent"},
    {"k", "density", ", the share of elements that is sent"},
    {"fraction", "density", ""},
    {"r", "rank", ""},
    {"step_size", "every", ""},
    {"milestones", "at", ""},
    {"gamma", "factor", ""},
    {"eta_min", "final", ", a share of the rate"},
    {"sync_every", "every", ""},
    {"wd", "weight_decay", ""},
};

static bool is(const char *text, size_t len, const char *word)
{
    return strlen(word) == len && strncmp(text, word, len) == 0;
}

static const tg_entry *find(const tg_entry *const *entries, size_t count, const char *name,
                            size_t len)
{
    for (size_t i = 0; i < count; i++)
        if (is(name, len, entries[i]->name))
            return entries[i];
    return NULL;
}

static bool has_key(const tg_entry *entry, const char *name, size_t len)
{
    for (const tg_key *key = entry->keys; key && key->name; key++)
        if (is(name, len, key->name))
            return true;
    return false;
}

/* Check one "key=value" (len). */
static tg_status check_key(const char *option, const tg_entry *entry, const char *spec,
                           const char *word, size_t len)
{
    if (has_key(entry, word, len))
        return TG_OK;
    for (size_t i = 0; i < TG_COUNT(keys); i++)
        if (is(word, len, keys[i].word) && has_key(entry, keys[i].key, strlen(keys[i].key)))
            return tg_fail(TG_E_SPEC, "--%s %.64s: %s has no key \"%s\": did you mean \"%s\"%s?",
                           option, spec, entry->name, keys[i].word, keys[i].key, keys[i].more);
    return TG_OK;
}

bool spec_same_name(const char *spec, const char *other)
{
    const size_t len = strcspn(spec, ":");
    return len == strcspn(other, ":") && strncmp(spec, other, len) == 0;
}

tg_status spec_words_check(const char *option, const tg_entry *const *entries, size_t count,
                           const char *spec)
{
    const size_t len = strcspn(spec, ":");
    const tg_entry *entry = find(entries, count, spec, len);
    for (size_t i = 0; !entry && i < TG_COUNT(names); i++)
        if (is(spec, len, names[i][0]) && find(entries, count, names[i][1], strlen(names[i][1])))
            return tg_fail(TG_E_SPEC, "--%s %.64s: there is no \"%s\": did you mean \"%s\"?",
                           option, spec, names[i][0], names[i][1]);
    int depth = 0;
    for (const char *at = spec + len; entry && *at; at++) { /* keys begin after ":" and "," */
        depth += (*at == '[') - (*at == ']');
        if (depth == 0 && strchr(":,", *at))
            TG_TRY(check_key(option, entry, spec, at + 1, strcspn(at + 1, "=,")));
    }
    return TG_OK;
}

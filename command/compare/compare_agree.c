#include "command/compare/compare_agree.h"
#include "command/job/clock_options.h"
#include "telegrad/registry.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <string.h>

#define SETTINGS ", settings "

/* Settings that ranks must have in common, in normal form: links are told by name. */
static uint64_t settings_hash(const struct run_options *o)
{
    const struct {
        tg_kind kind;
        const char *text;
    } specs[] = {{TG_KIND_METHOD, options_method(o)},
                 {TG_KIND_STRATEGY, o->strategy},
                 {TG_KIND_OPTIMIZER, options_optimizer(o)},
                 {TG_KIND_LR_SCHEDULE, o->lr_schedule}};
    const uint64_t numbers[] = {(uint64_t)o->lr_scale,
                                o->accumulate,
                                (uint64_t)o->precision,
                                o->nodes,
                                o->fusion,
                                o->steps,
                                o->epochs,
                                o->rule_count};
    uint64_t hash = tg_hash(TG_HASH_START, numbers, sizeof numbers);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        tg_spec *spec;
        if (tg_registry_parse(specs[i].kind, specs[i].text, &spec) != TG_OK)
            continue; /* it was checked */
        hash = tg_hash(hash, tg_spec_text(spec), strlen(tg_spec_text(spec)) + 1);
        tg_spec_free(spec);
    }
    for (size_t i = 0; i < o->rule_count; i++)
        hash = tg_hash(hash, o->rules[i], strlen(o->rules[i]) + 1);
    return hash;
}

void compare_agree_describe(const struct compare_plan *plan, char text[JOB_COMMAND])
{
    snprintf(text, JOB_COMMAND, "compare of %zu run%s", plan->count, plan->count == 1 ? "" : "s");
    for (size_t i = 0; i < plan->count; i++)
        if (plan->runs[i].options.link || plan->runs[i].options.links_of_count > 0) {
            job_command_add(text, ", run %zu", i + 1);
            clock_options_tell_links(&plan->runs[i].options, text);
        }
    for (size_t i = 1; i < plan->count; i++)
        job_command_add(text, "%s%04x", i > 1 ? "+" : SETTINGS,
                        (unsigned)(settings_hash(&plan->runs[i].options) & 0xffff));
}

/* The hashes of what a rank was started for. len: of the text before them, from its quotation mark
 * on */
struct hashes {
    const char *head, *at;
    size_t len, count;
};

/* Find them in `text`, from `from` on. */
static bool find_hashes(const char *text, const char *from, struct hashes *h)
{
    const char *mark = strstr(from, SETTINGS), *head = mark;
    if (!mark)
        return false;
    while (head > text && *head != '"')
        head--;
    *h = (struct hashes){.head = head, .at = mark + strlen(SETTINGS), .len = (size_t)(mark - head)};
    h->count = strspn(h->at, "0123456789abcdef+");
    return true;
}

tg_status compare_agree_explain(tg_status status, const struct compare_plan *plan)
{
    char text[1024], plain[1024];
    struct hashes one, two = {.head = NULL};
    snprintf(text, sizeof text, "%s", tg_error());
    if (status != TG_E_MISMATCH || !find_hashes(text, text, &one))
        return status;
    const bool both = find_hashes(text, one.at, &two);
    const bool alike = both && one.len == two.len && one.count == two.count &&
                       memcmp(one.head, two.head, one.len) == 0;
    size_t at = 0;
    while (alike && at < one.count && one.at[at] == two.at[at])
        at++;
    const size_t run = 1 + at / 5; /* four digits and a sign */
    if (alike && run < plan->count)
        return tg_fail(status,
                       "ranks were started differently: run %zu, \"%.64s\", does not have the same "
                       "settings on all ranks",
                       run + 1, plan->runs[run].name);
    const char *rest = both ? two.at + two.count : one.at + one.count;
    const char *between = one.at + one.count;
    snprintf(plain, sizeof plain, "%.*s%.*s%s", (int)(one.head + one.len - text), text,
             both ? (int)(two.head + two.len - between) : 0, between, rest);
    return tg_fail(status, "%s", plain);
}

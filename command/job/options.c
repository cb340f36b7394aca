#include "command/job/options.h"
#include "command/job/transports.h"
#include "command/output/cli.h"
#include "command/job/clock_options.h"
#include "command/job/option_table.h"
#include "command/job/launch.h"
#include "command/job/server_mode.h"
#include "command/job/spec_words.h"
#include "telegrad/transport.h"
#include "telegrad/tools.h"
#include "trainer/data/shard.h"
#include "trainer/model/model.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const driver_names[] = {
    [TG_DRIVER_AUTO] = "auto", [TG_DRIVER_THREAD] = "thread", [TG_DRIVER_INLINE] = "inline"};

static const char *const overlap_names[] = {
    [TG_OVERLAP_BACKWARD] = "backward", [TG_OVERLAP_FULL] = "full", [TG_OVERLAP_NONE] = "none"};

const char *options_method(const struct run_options *o)
{
    return o->settled.method[0] ? o->settled.method
           : o->method          ? o->method
                                : tg_registry_strategy_method(o->strategy);
}

const char *options_optimizer(const struct run_options *o)
{
    return o->settled.optimizer[0] ? o->settled.optimizer : o->optimizer;
}

double options_timeout(const struct run_options *o)
{
    return o->timeout > 0 ? o->timeout : o->virtual_clock ? OPTION_MAX_TIMEOUT : 60;
}

const char *options_driver_name(tg_driver driver)
{
    return driver_names[driver];
}

const char *options_overlap_name(tg_overlap overlap)
{
    return overlap_names[overlap];
}

double options_patience(const struct run_options *o)
{
    return o->timeout > 0 ? o->timeout : NET_OPTIONS_PATIENCE;
}

void options_defaults(struct run_options *o, uint64_t workers)
{
    *o = (struct run_options){.model = "lenet5",
                              .strategy = "ssgd",
                              .optimizer = OPT_OPTIMIZER,
                              .lr_schedule = "constant",
                              .workers = workers,
                              .batch = 32,
                              .accumulate = 1,
                              .epochs = 1,
                              .seed = 1,
                              .log_every = 50,
                              .codec_threads = 1,
                              .driver = TG_DRIVER_AUTO,
                              .overlap = TG_OVERLAP_FULL,
                              .evaluate = true};
}

struct net_options *options_net(void *run_options)
{
    return &((struct run_options *)run_options)->net;
}

static const struct option_def *find(const char *name)
{
    for (size_t i = 0; i < option_table_count; i++)
        if (option_table[i].o.name && strcmp(option_table[i].o.name, name) == 0)
            return &option_table[i];
    return NULL;
}

bool options_given(const struct run_options *o, const char *name)
{
    const struct option_def *option = find(name);
    return option && (o->given >> (option - option_table) & 1);
}

bool options_repeatable(const char *name)
{
    const struct option_def *option = find(name);
    return option && cli_repeatable(&option->o);
}

static tg_status not_allowed(const struct option_def *option, const char *value)
{
    if (option->form == FORM_SECONDS)
        return tg_fail(TG_E_SPEC,
                       "--%s %.64s: allowed: %g to %.15g seconds, as a number of seconds or a time "
                       "such as 500ms, 60s, 2min",
                       option->o.name, value, option->min, option->max);
    const uint64_t most = option->max < (double)INT64_MAX ? (uint64_t)option->max : INT64_MAX;
    return tg_fail(TG_E_SPEC, "--%s %.64s: allowed: whole numbers from %.0f to %" PRIu64,
                   option->o.name, value, option->min, most);
}

/* Numbers follow the rules of spec strings. */
static tg_status set_number(void *member, const struct option_def *option, const char *value)
{
    const bool real = option->form == FORM_SECONDS;
    const tg_key keys[] = {{.name = option->o.name,
                            .type = real ? TG_KEY_REAL : TG_KEY_INT,
                            .min = option->min,
                            .max = option->max,
                            .help = ""},
                           {.name = NULL}};
    const tg_entry entry = {"option", "", "", keys}, *entries[] = {&entry};
    tg_spec *spec = NULL; /* borrows keys */
    char text[128], seconds[TG_REAL_TEXT];
    double ns;
    const char *number = value;
    if (real && tg_time_parse(value, strlen(value), &ns)) {
        tg_real_text(ns / 1e9, seconds);
        number = seconds;
    }
    double unused;
    const bool wrong = strpbrk(number, ",[] \t") || strlen(number) > 64;
    if (wrong || (real && !tg_real_parse(number, &unused)))
        return not_allowed(option, value);
    snprintf(text, sizeof text, "option:%s=%s", option->o.name, number);
    if (tg_spec_parse("option", entries, 1, text, &spec) != TG_OK)
        return not_allowed(option, value);
    if (real)
        *(double *)member = tg_spec_real(spec, option->o.name);
    else
        *(uint64_t *)member = (uint64_t)tg_spec_int(spec, option->o.name);
    tg_spec_free(spec);
    return TG_OK;
}

/* "topk=0.01" and "topk:0.01" lack a key: suggest "topk:density=0.01". entries: (count) */
static tg_status lacks_key(const char *option, const tg_entry *const *entries, size_t count,
                           const char *value)
{
    const size_t len = strcspn(value, ":=");
    const bool digits =
        value[len] == ':' && strspn(value + len + 1, "0123456789.%") > 0 && !strchr(value, '=');
    for (size_t i = 0; (value[len] == '=' || digits) && i < count; i++)
        if (strlen(entries[i]->name) == len && strncmp(entries[i]->name, value, len) == 0 &&
            entries[i]->keys && entries[i]->keys->name)
            return tg_fail(TG_E_SPEC,
                           "--%s %.64s: a value without its key: did you mean \"%.*s:%s=%.64s\"?",
                           option, value, (int)len, value, entries[i]->keys->name, value + len + 1);
    return TG_OK;
}

static tg_status set_spec(const char **member, const struct option_def *option, const char *value)
{
    tg_spec *spec = NULL;
    size_t count = 0;
    const bool models = option->form == FORM_MODEL, shards = option->form == FORM_SHARD;
    const tg_entry *const *entries = models   ? model_entries(&count)
                                     : shards ? shard_entries(&count)
                                              : tg_registry_entries(option->kind, &count);
    TG_TRY(lacks_key(option->o.name, entries, count, value));
    const tg_status status =
        models || shards ? tg_spec_parse(models ? "model" : "shard", entries, count, value, &spec)
                         : tg_registry_parse(option->kind, value, &spec);
    if (status != TG_OK) {
        char text[1024];
        snprintf(text, sizeof text, "%s", tg_error());
        TG_TRY(spec_words_check(option->o.name, entries, count, value));
        return tg_fail(TG_E_SPEC, "--%s %.64s: %s", option->o.name, value, text);
    }
    tg_spec_free(spec);
    *member = value;
    return TG_OK;
}

/* Find a word in names (count); the result is its index. */
static tg_status find_word(const char *option, const char *const *names, size_t count,
                           const char *value, size_t *index_p)
{
    char list[128] = "";
    tg_nearest near;
    tg_nearest_begin(&near, value);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(value, names[i]) == 0) {
            *index_p = i;
            return TG_OK;
        }
        tg_nearest_offer(&near, names[i], strlen(names[i]));
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
    }
    return tg_fail(TG_E_SPEC, "--%s \"%.64s\": %sallowed: %s", option, value,
                   tg_nearest_hint(&near), list);
}

static tg_status set_workers(uint64_t *workers, const struct option_def *option, const char *value)
{
    struct option_def simulated = *option;
    simulated.max = TG_SIM_WORLD_MAX;
    if (set_number(workers, &simulated, value) == TG_OK)
        return TG_OK;
    return tg_fail(TG_E_SPEC,
                   "--%s \"%.64s\": allowed: 1 to %.0f, or with --clock virtual --sim-only to %d",
                   option->o.name, value, option->max, TG_SIM_WORLD_MAX);
}

static tg_status set_driver(tg_driver *driver, const struct option_def *option, const char *value)
{
    size_t i = 0;
    TG_TRY(find_word(option->o.name, driver_names, sizeof driver_names / sizeof driver_names[0],
                     value, &i));
    *driver = (tg_driver)i;
    return TG_OK;
}

static tg_status set_overlap(tg_overlap *overlap, const struct option_def *option,
                             const char *value)
{
    size_t i = 0;
    TG_TRY(find_word(option->o.name, overlap_names, sizeof overlap_names / sizeof overlap_names[0],
                     value, &i));
    *overlap = (tg_overlap)i;
    return TG_OK;
}

/* Set a size that is a whole number of bytes, auto or lags. */
static tg_status set_fusion(uint64_t *bytes, const struct option_def *option, const char *value)
{
    double n;
    if (strcmp(value, "auto") == 0) {
        *bytes = OPT_FUSION_AUTO;
        return TG_OK;
    }
    if (strcmp(value, "lags") == 0) {
        *bytes = OPT_FUSION_LAGS;
        return TG_OK;
    }
    if (!tg_bytes_parse(value, strlen(value), &n) || n != floor(n) || n < option->min ||
        n > option->max)
        return tg_fail(
            TG_E_SPEC,
            "--%s \"%.64s\": allowed: auto, lags, or 1 to 4096M bytes, e.g. 500000, 64K, 4MiB "
            "(of 1024), 4MB (of 1000); B is a byte",
            option->o.name, value);
    *bytes = (uint64_t)n;
    return TG_OK;
}

static tg_status set_nodes(uint64_t *nodes, const struct option_def *option, const char *value)
{
    if (strcmp(value, "auto") == 0)
        *nodes = OPT_NODES_AUTO;
    else if (set_number(nodes, option, value) != TG_OK)
        return tg_fail(TG_E_SPEC, "--%s %.64s: allowed: auto, or whole numbers from %.0f to %.0f",
                       option->o.name, value, option->min, option->max);
    return TG_OK;
}

static tg_status set_scale(train_lr_scale *scale, const struct option_def *option,
                           const char *value)
{
    size_t i = 0;
    TG_TRY(find_word(option->o.name, train_lr_scale_names, TRAIN_LR_SCALES, value, &i));
    *scale = (train_lr_scale)i;
    return TG_OK;
}

tg_status options_precision(const char *name, const char *value, train_precision *precision_p)
{
    size_t i = 0;
    TG_TRY(find_word(name, train_precision_names, TRAIN_PRECISIONS, value, &i));
    *precision_p = (train_precision)i;
    return TG_OK;
}

static tg_status set_clock(bool *is_virtual, const struct option_def *option, const char *value)
{
    static const char *const names[] = {"real", "virtual"};
    size_t i = 0;
    TG_TRY(find_word(option->o.name, names, 2, value, &i));
    *is_virtual = i == 1;
    return TG_OK;
}

static tg_status add_fault(struct run_options *o, const char *value)
{
    char *end = NULL;
    unsigned long rank = strtoul(value, &end, 10);
    if (*value < '0' || *value > '9' || *end != '=' || rank > 4095)
        return tg_fail(TG_E_SPEC, "--fault \"%.64s\": allowed: RANK=SPEC, e.g. 2=fault:stall=100",
                       value);
    if (o->fault_count == OPT_MAX_FAULTS)
        return tg_fail(TG_E_SPEC, "--fault \"%.64s\": the option is allowed at most %d times",
                       value, OPT_MAX_FAULTS);
    tg_transport *t = NULL, *faulty = NULL;
    TG_TRY(tg_transport_inproc(1, &t));
    tg_status status = tg_transport_faulty(t, end + 1, &faulty);
    tg_transport_destroy(status == TG_OK ? faulty : t);
    if (status != TG_OK)
        return tg_fail(status, "--fault %.64s: %s", value, tg_error());
    o->faults[o->fault_count++] = (struct run_fault){rank, end + 1};
    return TG_OK;
}

/* Add a rule; the session in options_check parses it. */
static tg_status add_rule(struct run_options *o, const char *value)
{
    if (o->rule_count == OPT_MAX_RULES)
        return tg_fail(TG_E_SPEC, "--rule \"%.64s\": the option is allowed at most %d times", value,
                       OPT_MAX_RULES);
    size_t count;
    const tg_entry *const *methods = tg_registry_entries(TG_KIND_METHOD, &count);
    const char *equals = strchr(value, '=');
    if (equals)
        TG_TRY(lacks_key("rule ...", methods, count, equals + 1));
    o->rules[o->rule_count++] = value;
    return TG_OK;
}

static tg_status set_value(struct run_options *o, const struct option_def *option,
                           const char *value)
{
    void *member = (char *)o + option->offset;
    tg_link link;
    const struct job_transport *transport;
    switch (option->form) {
    case FORM_SPEC:
    case FORM_MODEL:
    case FORM_SHARD:
        return set_spec(member, option, value);
    case FORM_TRANSPORT:
        TG_TRY(job_transport_named(value, &transport));
        *(const char **)member = transport->name;
        return TG_OK;
    case FORM_MODE:
        *(const char **)member = server_mode_own(value);
        return TG_OK;
    case FORM_TEXT:
    case FORM_LR:
        *(const char **)member = value;
        return TG_OK;
    case FORM_LINK:
        if (strcmp(value, "none") != 0 && tg_link_parse(value, &link) != TG_OK)
            return tg_fail(TG_E_SPEC, "--%s: %s", option->o.name, tg_error());
        *(const char **)member = strcmp(value, "none") != 0 ? value : NULL;
        return TG_OK;
    case FORM_COUNT:
    case FORM_SECONDS:
        return set_number(member, option, value);
    case FORM_WORKERS:
        return set_workers(member, option, value);
    case FORM_DRIVER:
        return set_driver(member, option, value);
    case FORM_OVERLAP:
        return set_overlap(member, option, value);
    case FORM_FUSION:
        return set_fusion(member, option, value);
    case FORM_NODES:
        return set_nodes(member, option, value);
    case FORM_SCALE:
        return set_scale(member, option, value);
    case FORM_PRECISION:
        return options_precision(option->o.name, value, member);
    case FORM_NO_EVAL:
        *(bool *)member = false;
        return TG_OK;
    case FORM_FLAG:
        *(bool *)member = true;
        return TG_OK;
    case FORM_RULE:
        return add_rule(o, value);
    case FORM_CLOCK:
        return set_clock(member, option, value);
    case FORM_TAU:
        return clock_options_tau(o, value);
    case FORM_JITTER:
        return clock_options_jitter(o, value);
    case FORM_SLOW:
        return clock_options_slow(o, value);
    case FORM_LINK_OF:
        return clock_options_link_of(o, value);
    case FORM_FAULT:
        return add_fault(o, value);
    }
    return tg_fail(TG_E_STATE, "--%s: option of an unknown form", option->o.name);
}

static tg_status unknown(int where, const char *name)
{
    char list[512] = "";
    size_t used = 0;
    tg_nearest near;
    tg_nearest_begin(&near, name);
    for (size_t i = 0; i < option_table_count; i++) {
        const struct option_def *option = &option_table[i];
        if (!option->o.name || !(option->where & where) || option->form == FORM_FAULT ||
            used >= sizeof list)
            continue;
        tg_nearest_offer(&near, option->o.name, strlen(option->o.name));
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                 option->o.name);
    }
    const struct option_def *common = find(name);
    if (where == OPT_RUN && common && common->where & OPT_COMPARE)
        return tg_fail(TG_E_SPEC, "\"%.64s\" is the same for all runs: give --%.64s outside --run",
                       name, name);
    return tg_fail(TG_E_SPEC, "unknown option \"%.64s\": %sallowed: %s%s", name,
                   tg_nearest_hint(&near), where == OPT_RUN ? "name, " : "", list);
}

tg_status options_set(struct run_options *o, int where, const char *name, const char *value)
{
    const struct option_def *option = find(name);
    if (!option || !(option->where & where))
        return unknown(where, name);
    if (option->o.arg && (!value || !*value))
        return tg_fail(TG_E_SPEC, "--%s has no value: allowed: %s", name, option->o.arg);
    if (!option->o.arg && value)
        return tg_fail(TG_E_SPEC, "--%s takes no value, but has \"%.64s\"", name, value);
    TG_TRY(set_value(o, option, value));
    o->given |= UINT64_C(1) << (option - option_table);
    if (o->virtual_clock || o->net.server || option->form == FORM_WORKERS)
        launch_wants_more();
    return TG_OK;
}

/* ---- by key ---------------------------------------------------------------------------------- */

#define KEY_FIRST 0x100 /* key of entry 0 of the table; no character, so there is no short form */
enum { ROOM = 65 };

tg_status options_set_shared(struct run_options *o, int key, const char *arg)
{
    const struct option_def *option = &option_table[key - KEY_FIRST];
    return options_set(o, option->where, option->o.name, arg);
}

const char *options_name(int key)
{
    return option_table[key - KEY_FIRST].o.name;
}

/* The rows of the table for one place, with keys, ending with an empty row. */
static const struct cli_option *list_of(int where, struct cli_option list[ROOM])
{
    size_t n = 0;
    for (size_t i = 0; i < option_table_count; i++) {
        if (!(option_table[i].where & where))
            continue;
        list[n] = option_shown(&option_table[i], where);
        list[n++].key = KEY_FIRST + (int)i;
    }
    list[n] = (struct cli_option){0};
    return list;
}

const struct cli_option *options_of_train(void)
{
    static struct cli_option list[ROOM];
    return list_of(OPT_TRAIN, list);
}

const struct cli_option *options_of_compare(void)
{
    static struct cli_option list[ROOM];
    return list_of(OPT_COMPARE, list);
}

const struct cli_option *options_of_tune(void)
{
    static struct cli_option list[ROOM];
    return list_of(OPT_TUNE, list);
}

#include "command/job/options.h"
#include "command/output/cli.h"
#include "command/job/clock_options.h"
#include "command/output/console.h"
#include "command/job/launch.h"
#include "telegrad/transport.h"
#include "telegrad/tools.h"
#include "trainer/data/shard.h"
#include "trainer/model/model.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum form {
    FORM_TEXT,      /* const char *, not empty; checked by whoever uses it */
    FORM_SPEC,      /* const char *, a spec string of `kind` */
    FORM_MODEL,     /* const char * */
    FORM_SHARD,     /* const char * */
    FORM_LINK,      /* const char *, NULL for "none" */
    FORM_COUNT,     /* uint64_t */
    FORM_WORKERS,   /* uint64_t; --sim-only may have more: options_check */
    FORM_SECONDS,   /* double: 60, 60s, 500 ms, 2min */
    FORM_DRIVER,    /* tg_driver */
    FORM_OVERLAP,   /* tg_overlap */
    FORM_FUSION,    /* uint64_t: 500000, 64K, 4MiB, 4MB, auto */
    FORM_NODES,     /* uint64_t: 4, auto */
    FORM_SCALE,     /* train_lr_scale */
    FORM_PRECISION, /* train_precision */
    FORM_LR,        /* const char *, goes into the optimizer */
    FORM_NO_EVAL,   /* no value */
    FORM_FLAG,      /* no value: bool */
    FORM_RULE,      /* PATTERN=METHOD, several */
    FORM_CLOCK,     /* bool: virtual */
    FORM_TAU,       /* const char *, and tau_ns */
    FORM_JITTER,    /* double, a fraction: 10% */
    FORM_SLOW,      /* RANK:TIMESx, RANK:TIMESx@FROM-TO, several */
    FORM_LINK_OF,   /* RANK=LINK, several */
    FORM_FAULT      /* RANK=SPEC, several */
};

struct option_def {
    const char *name, *arg;
    int where;
    enum form form;
    size_t offset;   /* of the member that it sets */
    tg_kind kind;    /* FORM_SPEC */
    double min, max; /* FORM_COUNT, FORM_SECONDS */
};

#define MAX_TIMEOUT 1e6 /* seconds */
#define AT(member) offsetof(struct run_options, member)
#define BOTH (OPT_TRAIN | OPT_COMPARE)
#define EVERY (OPT_TRAIN | OPT_COMPARE | OPT_RUN)

static const struct option_def table[] = {
    {"model", "SPEC", BOTH | OPT_EVAL, FORM_MODEL, AT(model), TG_KIND_COUNT, 0, 0},
    {"data", "SPEC", BOTH | OPT_EVAL, FORM_TEXT, AT(data), TG_KIND_COUNT, 0, 0},
    {"holdout", "N", BOTH | OPT_EVAL, FORM_COUNT, AT(holdout), TG_KIND_COUNT, 0, 1e9},
    {"context", "N", BOTH | OPT_EVAL, FORM_COUNT, AT(context), TG_KIND_COUNT, 1, 65536},
    {"shard", "SPEC", BOTH, FORM_SHARD, AT(shard), TG_KIND_COUNT, 0, 0},
    {"workers", "N", BOTH, FORM_WORKERS, AT(workers), TG_KIND_COUNT, 1, TG_RANKS_MAX},
    {"method", "SPEC", EVERY, FORM_SPEC, AT(method), TG_KIND_METHOD, 0, 0},
    {"rule", "PATTERN=METHOD", EVERY, FORM_RULE, AT(rules), TG_KIND_COUNT, 0, 0},
    {"strategy", "SPEC", EVERY, FORM_SPEC, AT(strategy), TG_KIND_STRATEGY, 0, 0},
    {"optimizer", "SPEC", EVERY, FORM_SPEC, AT(optimizer), TG_KIND_OPTIMIZER, 0, 0},
    {"lr", "RATE", EVERY, FORM_LR, AT(lr), TG_KIND_COUNT, 0, 0},
    {"lr-schedule", "SPEC", EVERY, FORM_SPEC, AT(lr_schedule), TG_KIND_LR_SCHEDULE, 0, 0},
    {"lr-scale", "none|sqrt|linear", EVERY, FORM_SCALE, AT(lr_scale), TG_KIND_COUNT, 0, 0},
    {"accumulate", "N", EVERY, FORM_COUNT, AT(accumulate), TG_KIND_COUNT, 1, 1e6},
    {"precision", "fp32|bf16", EVERY | OPT_EVAL, FORM_PRECISION, AT(precision), TG_KIND_COUNT, 0,
     0},
    {"link", "LINK", EVERY, FORM_LINK, AT(link), TG_KIND_COUNT, 0, 0},
    {"link-of", "RANK=LINK", BOTH, FORM_LINK_OF, AT(links_of), TG_KIND_COUNT, 0, 0},
    {"clock", "real|virtual", BOTH, FORM_CLOCK, AT(virtual_clock), TG_KIND_COUNT, 0, 0},
    {"tau", "measured|TIME|FILE", BOTH, FORM_TAU, AT(tau), TG_KIND_COUNT, 0, 0},
    {"slow", "RANK:TIMESx", BOTH, FORM_SLOW, AT(slow), TG_KIND_COUNT, 0, 0},
    {"sim-only", NULL, BOTH, FORM_FLAG, AT(sim_only), TG_KIND_COUNT, 0, 0},
    {"jitter", "PERCENT%", BOTH, FORM_JITTER, AT(jitter), TG_KIND_COUNT, 0, 0},
    {"steps", "N", EVERY, FORM_COUNT, AT(steps), TG_KIND_COUNT, 1, 1e12},
    {"epochs", "N", BOTH, FORM_COUNT, AT(epochs), TG_KIND_COUNT, 0, 1e9},
    {"batch", "N", BOTH | OPT_EVAL, FORM_COUNT, AT(batch), TG_KIND_COUNT, 1, 1e6},
    {"seed", "N", BOTH, FORM_COUNT, AT(seed), TG_KIND_COUNT, 0, (double)INT64_MAX},
    {"log-every", "N", BOTH, FORM_COUNT, AT(log_every), TG_KIND_COUNT, 1, 1e12},
    {"timeout", "SECONDS", BOTH, FORM_SECONDS, AT(timeout), TG_KIND_COUNT, 0.001, MAX_TIMEOUT},
    {"driver", "auto|thread|inline", BOTH, FORM_DRIVER, AT(driver), TG_KIND_COUNT, 0, 0},
    {"overlap", "full|backward|none", EVERY, FORM_OVERLAP, AT(overlap), TG_KIND_COUNT, 0, 0},
    {"fusion", "BYTES|auto", EVERY, FORM_FUSION, AT(fusion), TG_KIND_COUNT, 1, 4294967296.0},
    {"nodes", "auto|N", EVERY, FORM_NODES, AT(nodes), TG_KIND_COUNT, 1, TG_RANKS_MAX},
    {"no-eval", NULL, BOTH, FORM_NO_EVAL, AT(evaluate), TG_KIND_COUNT, 0, 0},
    {"out", "FILE", BOTH, FORM_TEXT, AT(out), TG_KIND_COUNT, 0, 0},
    {"save", "DIR", OPT_TRAIN, FORM_TEXT, AT(save_dir), TG_KIND_COUNT, 0, 0},
    {"save-every", "N", OPT_TRAIN, FORM_COUNT, AT(save_every), TG_KIND_COUNT, 1, 1e12},
    {"resume", "DIR", OPT_TRAIN | OPT_EVAL, FORM_TEXT, AT(resume_dir), TG_KIND_COUNT, 0, 0},
    {"init", "FILE", OPT_TRAIN, FORM_TEXT, AT(init), TG_KIND_COUNT, 0, 0},
    {"trace", "FILE", OPT_TRAIN, FORM_TEXT, AT(trace), TG_KIND_COUNT, 0, 0},
    {"dry-run", NULL, OPT_TRAIN, FORM_FLAG, AT(dry_run), TG_KIND_COUNT, 0, 0},
    {"json", NULL, OPT_TRAIN | OPT_EVAL, FORM_FLAG, AT(json), TG_KIND_COUNT, 0, 0},
    {"codec-threads", "N", BOTH, FORM_COUNT, AT(codec_threads), TG_KIND_COUNT, 1, 256},
    {"dump-gradients", "DIR", OPT_TRAIN, FORM_TEXT, AT(dump_gradients), TG_KIND_COUNT, 0, 0},
    {"dump-every", "N", OPT_TRAIN, FORM_COUNT, AT(dump_every), TG_KIND_COUNT, 1, 1e12},
    {"fault", "RANK=SPEC", OPT_TRAIN, FORM_FAULT, AT(faults), TG_KIND_COUNT, 0, 0},
};

#define COUNT (sizeof table / sizeof table[0])
_Static_assert(COUNT <= 64, "run_options.given has 64 bits");

static const char *const driver_names[] = {
    [TG_DRIVER_AUTO] = "auto", [TG_DRIVER_THREAD] = "thread", [TG_DRIVER_INLINE] = "inline"};

static const char *const overlap_names[] = {
    [TG_OVERLAP_BACKWARD] = "backward", [TG_OVERLAP_FULL] = "full", [TG_OVERLAP_NONE] = "none"};

const char *options_method(const struct run_options *o)
{
    return o->method ? o->method : tg_registry_strategy_method(o->strategy);
}

const char *options_optimizer(const struct run_options *o)
{
    return o->settled.optimizer[0] ? o->settled.optimizer : o->optimizer;
}

double options_timeout(const struct run_options *o)
{
    return o->timeout > 0 ? o->timeout : o->virtual_clock ? MAX_TIMEOUT : 60;
}

const char *options_driver_name(tg_driver driver)
{
    return driver_names[driver];
}

const char *options_overlap_name(tg_overlap overlap)
{
    return overlap_names[overlap];
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

static const struct option_def *find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    return NULL;
}

bool options_given(const struct run_options *o, const char *name)
{
    const struct option_def *option = find(name);
    return option && (o->given >> (option - table) & 1);
}

/* A number by the rules of spec strings, so that messages and ranges look alike. */
static tg_status set_number(void *member, const struct option_def *option, const char *value)
{
    bool real = option->form == FORM_SECONDS;
    const tg_key keys[] = {{.name = option->name,
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
        return tg_fail(TG_E_SPEC, "--%s \"%.64s\": allowed: a number%s", option->name, value,
                       real ? " of seconds, or a time as 500ms, 60s, 2min" : "");
    snprintf(text, sizeof text, "option:%s=%s", option->name, number);
    if (tg_spec_parse("option", entries, 1, text, &spec) != TG_OK)
        return tg_fail(TG_E_SPEC, "--%s", tg_error());
    if (real)
        *(double *)member = tg_spec_real(spec, option->name);
    else
        *(uint64_t *)member = (uint64_t)tg_spec_int(spec, option->name);
    tg_spec_free(spec);
    return TG_OK;
}

static tg_status check_spec(const struct option_def *option, const char *value)
{
    tg_spec *spec = NULL;
    if (option->form == FORM_MODEL) {
        size_t count = 0;
        const tg_entry *const *models = model_entries(&count);
        TG_TRY(tg_spec_parse("model", models, count, value, &spec));
    } else if (option->form == FORM_SHARD) {
        TG_TRY(shard_parse(value, &spec));
    } else {
        TG_TRY(tg_registry_parse(option->kind, value, &spec));
    }
    tg_spec_free(spec);
    return TG_OK;
}

/* The number of a word among names (count). */
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
                   option->name, value, option->max, TG_SIM_WORLD_MAX);
}

static tg_status set_driver(tg_driver *driver, const struct option_def *option, const char *value)
{
    size_t i;
    TG_TRY(find_word(option->name, driver_names, sizeof driver_names / sizeof driver_names[0],
                     value, &i));
    *driver = (tg_driver)i;
    return TG_OK;
}

static tg_status set_overlap(tg_overlap *overlap, const struct option_def *option,
                             const char *value)
{
    size_t i;
    TG_TRY(find_word(option->name, overlap_names, sizeof overlap_names / sizeof overlap_names[0],
                     value, &i));
    *overlap = (tg_overlap)i;
    return TG_OK;
}

/* A size that is a whole number of bytes, or auto. */
static tg_status set_fusion(uint64_t *bytes, const struct option_def *option, const char *value)
{
    double n;
    if (strcmp(value, "auto") == 0) {
        *bytes = OPT_FUSION_AUTO;
        return TG_OK;
    }
    if (!tg_bytes_parse(value, strlen(value), &n) || n != floor(n) || n < option->min ||
        n > option->max)
        return tg_fail(TG_E_SPEC,
                       "--%s \"%.64s\": allowed: auto, or 1 to 4096M bytes, as 500000, 64K, 4MiB "
                       "(of 1024), 4MB (of 1000)",
                       option->name, value);
    *bytes = (uint64_t)n;
    return TG_OK;
}

static tg_status set_nodes(uint64_t *nodes, const struct option_def *option, const char *value)
{
    if (strcmp(value, "auto") != 0)
        return set_number(nodes, option, value);
    *nodes = OPT_NODES_AUTO;
    return TG_OK;
}

static tg_status set_scale(train_lr_scale *scale, const struct option_def *option,
                           const char *value)
{
    size_t i;
    TG_TRY(find_word(option->name, train_lr_scale_names, TRAIN_LR_SCALES, value, &i));
    *scale = (train_lr_scale)i;
    return TG_OK;
}

tg_status options_precision(const char *name, const char *value, train_precision *precision_p)
{
    size_t i;
    TG_TRY(find_word(name, train_precision_names, TRAIN_PRECISIONS, value, &i));
    *precision_p = (train_precision)i;
    return TG_OK;
}

static tg_status set_clock(bool *is_virtual, const struct option_def *option, const char *value)
{
    static const char *const names[] = {"real", "virtual"};
    size_t i;
    TG_TRY(find_word(option->name, names, 2, value, &i));
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
        return tg_fail(TG_E_SPEC, "--fault \"%.64s\": allowed: %d of them", value, OPT_MAX_FAULTS);
    tg_transport *t = NULL, *faulty = NULL;
    TG_TRY(tg_transport_inproc(1, &t));
    tg_status status = tg_transport_faulty(t, end + 1, &faulty);
    tg_transport_destroy(status == TG_OK ? faulty : t);
    TG_TRY(status);
    o->faults[o->fault_count++] = (struct run_fault){rank, end + 1};
    return TG_OK;
}

/* The session looks into it: options_check. */
static tg_status add_rule(struct run_options *o, const char *value)
{
    if (o->rule_count == OPT_MAX_RULES)
        return tg_fail(TG_E_SPEC, "--rule \"%.64s\": allowed: %d of them", value, OPT_MAX_RULES);
    o->rules[o->rule_count++] = value;
    return TG_OK;
}

static tg_status set_value(struct run_options *o, const struct option_def *option,
                           const char *value)
{
    void *member = (char *)o + option->offset;
    tg_link link;
    switch (option->form) {
    case FORM_SPEC:
    case FORM_MODEL:
    case FORM_SHARD:
        if (check_spec(option, value) != TG_OK)
            return tg_fail(TG_E_SPEC, "--%s %.64s: %s", option->name, value, tg_error());
        *(const char **)member = value;
        return TG_OK;
    case FORM_TEXT:
    case FORM_LR:
        *(const char **)member = value;
        return TG_OK;
    case FORM_LINK:
        if (strcmp(value, "none") != 0 && tg_link_parse(value, &link) != TG_OK)
            return tg_fail(TG_E_SPEC, "--%s: %s", option->name, tg_error());
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
        return options_precision(option->name, value, member);
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
    return tg_fail(TG_E_STATE, "--%s: option of an unknown form", option->name);
}

static tg_status unknown(int where, const char *name)
{
    char list[512] = "";
    size_t used = 0;
    tg_nearest near;
    tg_nearest_begin(&near, name);
    for (size_t i = 0; i < COUNT; i++) {
        if (!(table[i].where & where) || table[i].form == FORM_FAULT || used >= sizeof list)
            continue;
        tg_nearest_offer(&near, table[i].name, strlen(table[i].name));
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                 table[i].name);
    }
    return tg_fail(TG_E_SPEC, "unknown option \"%.64s\": %sallowed: %s%s", name,
                   tg_nearest_hint(&near), where == OPT_RUN ? "name, " : "", list);
}

tg_status options_set(struct run_options *o, int where, const char *name, const char *value)
{
    const struct option_def *option = find(name);
    if (!option || !(option->where & where))
        return unknown(where, name);
    if (option->arg && (!value || !*value))
        return tg_fail(TG_E_SPEC, "--%s has no value: allowed: %s", name, option->arg);
    if (!option->arg && value)
        return tg_fail(TG_E_SPEC, "--%s takes no value, but has \"%.64s\"", name, value);
    TG_TRY(set_value(o, option, value));
    o->given |= UINT64_C(1) << (option - table);
    return TG_OK;
}

/* ---- argp ------------------------------------------------------------------------------------ */

#define KEY_FIRST 0x100 /* option i of the table; not a character, so there is no short form */

static error_t parse_common(int where, int key, char *arg, struct argp_state *state)
{
    if (key < KEY_FIRST || key >= KEY_FIRST + (int)COUNT)
        return ARGP_ERR_UNKNOWN;
    if (options_set(state->input, where, table[key - KEY_FIRST].name, arg) == TG_OK)
        return 0;
    console_error("%s", tg_error());
    return EINVAL;
}

static error_t parse_train(int key, char *arg, struct argp_state *state)
{
    return parse_common(OPT_TRAIN, key, arg, state);
}

static error_t parse_compare(int key, char *arg, struct argp_state *state)
{
    return parse_common(OPT_COMPARE, key, arg, state);
}

static error_t parse_eval(int key, char *arg, struct argp_state *state)
{
    return parse_common(OPT_EVAL, key, arg, state);
}

const struct argp *options_argp(int where)
{
    static struct argp_option list[COUNT + 1];
    static struct argp parser;
    size_t n = 0;
    memset(list, 0, sizeof list);
    for (size_t i = 0; i < COUNT; i++)
        if (table[i].where & where)
            list[n++] = (struct argp_option){
                .name = table[i].name, .key = KEY_FIRST + (int)i, .arg = table[i].arg};
    parser = (struct argp){.options = list,
                           .parser = where == OPT_TRAIN  ? parse_train
                                     : where == OPT_EVAL ? parse_eval
                                                         : parse_compare};
    return &parser;
}

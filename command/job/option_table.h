/* The options of a run: of train, of compare, and of a --run of compare. */
#ifndef TG_CLI_OPTION_TABLE_H
#define TG_CLI_OPTION_TABLE_H

#include "command/help/command.h"
#include "command/job/options.h"
#include "telegrad/registry.h"

enum option_form {
    FORM_TEXT,      /* const char *, not empty; checked where it is used */
    FORM_MODE,      /* const char *: of a server, by its own name (server_mode.h) */
    FORM_SPEC,      /* const char *, a spec string of `kind` */
    FORM_MODEL,     /* const char * */
    FORM_SHARD,     /* const char * */
    FORM_TRANSPORT, /* const char *, of transports.h */
    FORM_LINK,      /* const char *, NULL for "none" */
    FORM_COUNT,     /* uint64_t */
    FORM_WORKERS,   /* uint64_t; --sim-only allows more, see options_check */
    FORM_SECONDS,   /* double: 60, 60s, 500 ms, 2min */
    FORM_DRIVER,    /* tg_driver */
    FORM_OVERLAP,   /* tg_overlap */
    FORM_FUSION,    /* uint64_t: 500000, 64K, 4MiB, 4MB, auto */
    FORM_NODES,     /* uint64_t: 4, auto */
    FORM_SCALE,     /* train_lr_scale */
    FORM_PRECISION, /* train_precision */
    FORM_LR,        /* const char *, becomes part of the optimizer */
    FORM_NO_EVAL,   /* no value */
    FORM_FLAG,      /* no value: bool */
    FORM_RULE,      /* PATTERN=METHOD, may be repeated */
    FORM_CLOCK,     /* bool, true for "virtual" */
    FORM_TAU,       /* const char *, and tau_ns */
    FORM_JITTER,    /* double, a fraction: 10% */
    FORM_SLOW,      /* RANK:TIMESx, RANK:TIMESx@FROM-TO, may be repeated */
    FORM_LINK_OF,   /* RANK=LINK, may be repeated */
    FORM_FAULT      /* RANK=SPEC, may be repeated */
};

struct option_def {
    struct cli_option o; /* a heading if it has no name */
    int where;
    enum option_form form;
    size_t offset;   /* offset of the member that it sets */
    tg_kind kind;    /* FORM_SPEC */
    double min, max; /* FORM_COUNT, FORM_SECONDS */
};

#define OPTION_MAX_TIMEOUT 1e6 /* seconds */

extern const struct option_def option_table[];
extern const size_t option_table_count; /* at most 64 */

/* An option as the command at `where` (OPT_TRAIN, ...) shows it in --help. */
struct cli_option option_shown(const struct option_def *d, int where);

#endif

/* The plan of compare: the runs in order, each with its own options on top of the common ones. */
#ifndef TG_CLI_COMPARE_PLAN_H
#define TG_CLI_COMPARE_PLAN_H

#include "command/job/options.h"

struct planned_run {
    char *text;     /* as written, "method=..;strategy=.."; cut into words by plan_resolve */
    char *where;    /* where it was given, for messages: "--run 2", "FILE:7" */
    char *name;     /* unique; NULL until plan_resolve, unless the spec file sets it */
    bool named;     /* by its own key `name` */
    bool own_rules; /* the run has rules of its own, which replace the common ones */
    struct run_options options;
};

struct compare_plan {
    struct planned_run *runs; /* (count) */
    size_t count, room;
    char *spec_text; /* text of the spec file; options point into it */
};

void plan_free(struct compare_plan *plan);

/* Add a run; strings are copied. name may be NULL. Errors TG_E_NOMEM, TG_E_SPEC (too many) */
TG_NODISCARD tg_status plan_add(struct compare_plan *plan, const char *name, const char *text,
                                const char *where);

/* Once all common options are known, set the name and options of every run, and check them with
 * options_check. Errors TG_E_SPEC (the message names the run), those of options_check */
TG_NODISCARD tg_status plan_resolve(struct compare_plan *plan, const struct run_options *common);

#endif

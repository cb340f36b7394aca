#include "command/train/dry_run.h"
#include "command/train/cli_run.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/output.h"
#include "command/train/late_averages.h"
#include "command/train/resumed_specs.h"
#include "command/train/settled_keys.h"
#include "command/train/verdict.h"
#include "command/output/table.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct plan {
    const struct run_options *options;
    int world;
    struct table *table;
    json_t *tensors; /* NULL: print a table */
    size_t elements;
    double bytes, coded_per_step; /* of an exchange of all tensors; of a step, on average */
    uint32_t buckets;
    uint64_t steps, steps_per_epoch;
    char *method, *strategy;      /* normal forms */
    json_t *settled;              /* settled_keys, as written to the JSON */
    uint64_t seen;                /* bit i: rule i has been handled */
    struct resumed_specs resumed; /* used with --resume */
};
_Static_assert(OPT_MAX_RULES <= 64, "plan.seen");

static tg_status no_memory(void)
{
    return tg_fail(TG_E_NOMEM, "out of memory for the plan");
}

/* ---- what the run would settle --------------------------------------------------------------- */

static tg_status on_settled(void *arg, const settled_key *key)
{
    const struct plan *p = arg;
    json_t *one = json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", tg_kind_name(key->kind), "name",
                            key->name, "key", key->key, "value", key->value, "why", key->why);
    return json_array_append_new(p->settled, one) == 0 ? TG_OK : no_memory();
}

static tg_status on_about(void *arg, const train_plan_info *info)
{
    struct plan *p = arg;
    p->steps = info->steps;
    p->steps_per_epoch = info->steps_per_epoch;
    p->method = strdup(info->method);
    p->strategy = strdup(info->strategy);
    if (!p->method || !p->strategy)
        return no_memory();
    const verdict warm_ups =
        verdict_of_warm_ups(&(verdict_run){.end = &(train_end_info){.steps = p->steps},
                                           .method = p->method,
                                           .strategy = p->strategy,
                                           .lr_schedule = p->options->lr_schedule,
                                           .first_step = p->resumed.step,
                                           .steps_per_epoch = p->steps_per_epoch});
    verdict_say(&warm_ups, "");
    late_averages_warn(&(late_run){.strategy = p->strategy,
                                   .world = p->world,
                                   .first = p->resumed.step,
                                   .steps = p->steps,
                                   .steps_per_epoch = p->steps_per_epoch,
                                   .optimizer = options_optimizer(p->options)},
                       "");
    const uint64_t steps = p->options->resume_dir ? 0 : p->steps;
    TG_TRY(settled_keys(TG_KIND_STRATEGY, p->options->strategy, p->strategy, steps, on_settled, p));
    return settled_keys(TG_KIND_METHOD, options_method(p->options), p->method, steps, on_settled,
                        p);
}

/* Report what the rule of a tensor leaves to the run, once per rule. */
static tg_status settle_rule(struct plan *p, const tg_plan_tensor *t)
{
    const struct run_options *o = p->options;
    const size_t len = t->rule ? strlen(t->rule) : 0;
    size_t i = 0;
    while (i < o->rule_count &&
           !(t->rule && strncmp(o->rules[i], t->rule, len) == 0 && o->rules[i][len] == '='))
        i++;
    if (i == o->rule_count || p->seen >> i & 1)
        return TG_OK;
    p->seen |= UINT64_C(1) << i;
    if (strcmp(o->rules[i] + len + 1, "f32") == 0) /* another name for dense */
        return TG_OK;
    if (o->resume_dir) /* the checkpoint does not tell the warm-ups of rules */
        return TG_OK;
    return settled_keys(TG_KIND_METHOD, o->rules[i] + len + 1, t->method, p->steps, on_settled, p);
}

/* ---- tensors --------------------------------------------------------------------------------- */

static tg_status add_json(struct plan *p, const tg_plan_tensor *t)
{
    json_t *shape = json_array();
    for (size_t d = 0; d < t->ndim; d++)
        json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
    json_t *row = json_pack("{s:s, s:o, s:I, s:s, s:s?, s:i, s:f}", "name", t->name, "shape", shape,
                            "elements", (json_int_t)t->n, "method", t->method, "rule", t->rule,
                            "bucket", (int)t->bucket, "bytes", t->bytes);
    return json_array_append_new(p->tensors, row) == 0 ? TG_OK : no_memory();
}

static void add_row(struct plan *p, const tg_plan_tensor *t)
{
    char shape[128] = "";
    for (size_t d = 0, at = 0; d < t->ndim && at < sizeof shape; d++)
        at += (size_t)snprintf(shape + at, sizeof shape - at, "%s%zu", d ? " x " : "", t->shape[d]);
    char bucket[16];
    snprintf(bucket, sizeof bucket, "%u", t->bucket);
    table_row(p->table);
    table_cell(p->table, t->name);
    table_cell(p->table, shape);
    table_cell(p->table, format_count(t->n).text);
    table_cell(p->table, bucket);
    table_cell(p->table, format_bytes(t->bytes).text);
    table_cell(p->table, format_ratio(4 * (double)t->n / t->bytes, "x").text);
    table_rest(p->table, t->method);
}

static tg_status on_tensor(void *arg, const tg_plan_tensor *t)
{
    struct plan *p = arg;
    p->elements += t->n;
    p->bytes += t->bytes;
    p->buckets = t->bucket >= p->buckets ? t->bucket + 1 : p->buckets;
    TG_TRY(settle_rule(p, t));
    if (p->tensors != NULL)
        return add_json(p, t);
    add_row(p, t);
    return TG_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Whole numbers of keys that the strategy need not have; `otherwise`: it has none. */
static double number(const tg_spec *spec, const char *key, double otherwise)
{
    return tg_spec_has(spec, key) ? (double)tg_spec_int(spec, key) : otherwise;
}

/* Mean bytes of a step: rounds exchange in some steps, by some workers; od and cd:k=1 all, cd one
 * in k steps dense. */
static tg_status find_coded_per_step(struct plan *p, double dense)
{
    tg_spec *spec;
    TG_TRY(tg_registry_parse(TG_KIND_STRATEGY, p->strategy, &spec));
    const double k = strcmp(tg_spec_name(spec), "od") == 0 ? 1 : number(spec, "k", 0);
    p->coded_per_step =
        k > 0 ? ((k - 1) * p->bytes + dense) / k : p->bytes / number(spec, "every", 1);
    if (tg_spec_has(spec, "clients"))
        p->coded_per_step *= tg_spec_real(spec, "clients");
    tg_spec_free(spec);
    return TG_OK;
}

static tg_status print_json(const struct plan *p, double dense)
{
    json_t *all =
        json_pack("{s:O, s:I, s:i, s:f, s:f, s:f, s:f, s:i, s:I, s:I, s:s, s:s, s:s, s:O, s:I}",
                  "tensors", p->tensors, "elements", (json_int_t)p->elements, "buckets",
                  (int)p->buckets, "bytes", p->bytes, "coded_per_step", p->coded_per_step,
                  "bytes_dense", dense, "ratio", dense / p->bytes, "workers", p->world, "steps",
                  (json_int_t)p->steps, "steps_per_epoch", (json_int_t)p->steps_per_epoch, "method",
                  p->method, "strategy", p->strategy, "optimizer", options_optimizer(p->options),
                  "settled", p->settled, "first_step", (json_int_t)p->resumed.step);
    tg_status status = jsonl_print(all);
    json_decref(all);
    return status;
}

static void print_run(const struct plan *p)
{
    printf("method         %s\n", p->method);
    printf("strategy       %s\n", p->strategy);
    printf("optimizer      %s\n", options_optimizer(p->options));
    printf("steps          %" PRIu64 ", %" PRIu64 " an epoch, with %d worker%s\n", p->steps,
           p->steps_per_epoch, p->world, p->world == 1 ? "" : "s");
    if (p->options->resume_dir)
        printf("goes on        from step %" PRIu64 "\n", p->resumed.step);
    size_t i;
    json_t *key;
    json_array_foreach(p->settled, i, key)
    {
        const char *name, *which, *value, *why;
        if (json_unpack(key, "{s:s, s:s, s:s, s:s}", "name", &name, "key", &which, "value", &value,
                        "why", &why) == 0)
            printf("%-14s %s=%s: %s\n", name, which, value, why);
    }
}

static tg_status print_table(const struct plan *p, double dense)
{
    TG_TRY(output_table(p->table));
    printf("\n%s elements in %u bucket%s: coded, %s per exchange; the gradient has %s, ratio "
           "%s\n(after warm-ups, for a random gradient with a standard normal distribution)\n\n",
           format_count(p->elements).text, p->buckets, p->buckets == 1 ? "" : "s",
           format_bytes(p->bytes).text, format_bytes(dense).text,
           format_ratio(dense / p->bytes, "x").text);
    printf("coded          %s per step on average; what a worker sends depends on the "
           "exchange, too: --clock virtual --sim-only says it\n",
           format_bytes(p->coded_per_step).text);
    print_run(p);
    return output_flush();
}

static void heading(struct table *t)
{
    static const char *const titles[] = {"tensor", "shape", "elements", "bucket", "bytes", "ratio"};
    table_row(t);
    for (size_t i = 0; i < sizeof titles / sizeof *titles; i++)
        table_cell(t, titles[i]);
    table_rest(t, "method");
}

static void release(struct plan *p)
{
    resumed_specs_free(&p->resumed);
    free(p->method);
    free(p->strategy);
    json_decref(p->settled);
    json_decref(p->tensors);
    table_destroy(p->table);
}

tg_status dry_run(const struct launch *l, const struct run_options *o)
{
    train_job job = run_job_of(o, NULL);
    struct plan p = {.options = o,
                     .world = launch_world(l, o),
                     .table = table_create(7),
                     .settled = json_array(),
                     .tensors = o->json ? json_array() : NULL};
    if (p.table == NULL || p.settled == NULL || (o->json && p.tensors == NULL)) {
        release(&p);
        return no_memory();
    }
    table_fit(p.table, (size_t)console_out_columns());
    heading(p.table);
    tg_status status = o->resume_dir ? resumed_specs_read(o, &p.resumed) : TG_OK;
    if (status == TG_OK && o->resume_dir) {
        job.method = p.resumed.method;
        job.strategy = p.resumed.strategy;
    }
    if (status == TG_OK)
        status =
            train_plan(&job, run_data_name(o), p.world, o->servers > 0, on_about, on_tensor, &p);
    double dense = 4 * (double)p.elements;
    if (status == TG_OK)
        status = find_coded_per_step(&p, dense);
    if (status == TG_OK)
        status = o->json ? print_json(&p, dense) : print_table(&p, dense);
    release(&p);
    return status;
}

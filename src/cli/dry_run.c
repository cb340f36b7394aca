#include "cli/dry_run.h"
#include "cli/cli_run.h"
#include "cli/format.h"
#include "cli/output.h"
#include "cli/table.h"

struct plan {
    struct table *table;
    json_t *tensors; /* NULL: a table is wanted */
    size_t elements;
    double bytes;
    uint32_t buckets;
};

static tg_status no_memory(void)
{
    return tg_fail(TG_E_NOMEM, "out of memory for the plan");
}

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
    if (p->tensors != NULL)
        return add_json(p, t);
    add_row(p, t);
    return TG_OK;
}

static tg_status print_json(const struct plan *p, double dense)
{
    json_t *all = json_pack("{s:O, s:I, s:i, s:f, s:f, s:f}", "tensors", p->tensors, "elements",
                            (json_int_t)p->elements, "buckets", (int)p->buckets, "bytes", p->bytes,
                            "bytes_dense", dense, "ratio", dense / p->bytes);
    tg_status status = records_print(all);
    json_decref(all);
    return status;
}

static tg_status print_table(const struct plan *p, double dense)
{
    TG_TRY(output_table(p->table));
    printf("\n%s elements in %u bucket%s: %s a step and worker, %s of the %s gradient\n"
           "(after warm-ups, on a normal random gradient of deviation 1)\n",
           format_count(p->elements).text, p->buckets, p->buckets == 1 ? "" : "s",
           format_bytes(p->bytes).text, format_ratio(dense / p->bytes, "x").text,
           format_bytes(dense).text);
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

tg_status dry_run(const struct run_options *o)
{
    const train_job job = run_job_of(o, NULL);
    struct plan p = {.table = table_create(7)};
    if (o->json)
        p.tensors = json_array();
    if (p.table == NULL || (o->json && p.tensors == NULL)) {
        table_destroy(p.table);
        return no_memory();
    }
    heading(p.table);
    tg_status status = train_plan(&job, run_data_name(o), on_tensor, &p);
    double dense = 4 * (double)p.elements;
    if (status == TG_OK)
        status = o->json ? print_json(&p, dense) : print_table(&p, dense);
    json_decref(p.tensors);
    table_destroy(p.table);
    return status;
}

/* Prints whether parameter servers pay. */
#include "command/advise/advise.h"
#include "command/advise/advise_known.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/output.h"
#include "command/output/table.h"
#include <stdio.h>
#include <stdlib.h>

static const advice_served *taken(const struct advise_answer *a)
{
    return &a->served.mode[a->served.taken];
}

/* Servers that sum have the bits of those that keep the parameters in mode sync. */
static const char *mode_text(const advice_served *w)
{
    return w->mode[0] == 's' ? "in step" : w->servers == 0 ? "-" : w->mode;
}

static void fill_row(struct table *t, const advice_served *w)
{
    char number[16], ms[32];
    snprintf(number, sizeof number, "%u", w->servers);
    snprintf(ms, sizeof ms, "%.4g", 1e3 * w->step_s);
    table_row(t);
    table_cell(t, w->servers > 0 ? number : "none");
    table_cell(t, mode_text(w));
    table_cell(t, w->method_text);
    table_cell(t, ms);
    table_cell(t, format_bytes(w->bytes).text);
}

static tg_status print_table(const struct advise_answer *a)
{
    static const char *const titles[] = {"servers", "mode", "method", "ms a step", "sent a step"};
    const size_t columns = sizeof titles / sizeof titles[0];
    const advice_answer_served *r = &a->served;
    struct table *t = table_create(columns);
    if (!t)
        return tg_fail(TG_E_NOMEM, "out of memory for a table");
    table_fit(t, (size_t)console_out_columns());
    table_row(t);
    for (size_t i = 0; i < columns; i++)
        table_cell(t, titles[i]);
    fill_row(t, &r->without);
    for (size_t i = 0; i < r->counts; i++)
        fill_row(t, &r->count[i]);
    for (size_t i = 1; i < r->modes; i++)
        fill_row(t, &r->mode[i]);
    const tg_status status = output_table(t);
    table_destroy(t);
    return status;
}

/* What is recommended, and pays, has asynchronous steps. */
static bool costs_accuracy(const advice_answer_served *r)
{
    return r->pays && r->taken > 0;
}

static tg_status print_choice(const struct advise_answer *a)
{
    const advice_answer_served *r = &a->served;
    const advice_served *w = taken(a);
    char *command;
    if (!r->pays) {
        printf("\nServers do not pay: %s a step with %u, %s without (pays: more than 10 %% off "
               "it).\n",
               format_seconds(w->step_s).text, w->servers, format_seconds(r->without.step_s).text);
        return TG_OK;
    }
    printf("\n%u server%s, %s, with %s pay%s: %s a step, without servers %s with %s.%s\n\n",
           w->servers, w->servers > 1 ? "s" : "", mode_text(w), w->method_text,
           w->servers > 1 ? "" : "s", format_seconds(w->step_s).text,
           format_seconds(r->without.step_s).text, r->without.method_text,
           r->taken > 0 ? " Each gradient is a step of\nthe optimizer: use a rate that is smaller "
                          "by the number of workers."
                        : "");
    if (costs_accuracy(r))
        printf("%s\n\n", advise_known_async);
    TG_TRY(advise_served_command(a, &command));
    puts(command);
    free(command);
    return TG_OK;
}

tg_status advise_served_print(const struct advise_answer *a)
{
    printf("\nWith parameter servers, link %s, and plain SGD in step or async:\n",
           a->server_link_text ? a->server_link_text : "none (as fast as memory)");
    TG_TRY(print_table(a));
    return print_choice(a);
}

static json_t *way_json(const advice_served *w)
{
    return json_pack("{s:i, s:s, s:s, s:f, s:f}", "servers", (int)w->servers, "mode", w->mode,
                     "method", w->method_text, "step_ms", 1e3 * w->step_s, "bytes_per_step",
                     w->bytes);
}

json_t *advise_served_json(const struct advise_answer *a)
{
    const advice_answer_served *r = &a->served;
    json_t *counts = json_array(), *modes = json_array();
    char *command;
    if (advise_served_command(a, &command) != TG_OK)
        return NULL;
    for (size_t i = 0; i < r->counts; i++)
        json_array_append_new(counts, way_json(&r->count[i]));
    for (size_t i = 0; i < r->modes; i++)
        json_array_append_new(modes, way_json(&r->mode[i]));
    json_t *all = json_pack("{s:o, s:o, s:o, s:o, s:b, s:s, s:s?}", "without",
                            way_json(&r->without), "counts", counts, "modes", modes, "recommended",
                            way_json(taken(a)), "pays", (int)r->pays, "command", command,
                            "accuracy", costs_accuracy(r) ? advise_known_async : NULL);
    free(command);
    return all;
}

/* The findings as tables, or as a JSON line. */
#include "command/doctor/doctor_findings.h"
#include "telegrad/tools.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/jsonl.h"
#include "command/output/output.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAIRS_SHOWN = 45 }; /* of many, the slowest */

static tg_status no_memory(void)
{
    return tg_fail(TG_E_NOMEM, "out of memory: the report");
}

static void cell(struct table *t, const char *format, double v) TG_PRINTF(2, 0);
static void cell(struct table *t, const char *format, double v)
{
    char text[48];
    snprintf(text, sizeof text, format, v);
    table_cell(t, text);
}

static tg_status print_machines(const struct doctor_findings *f)
{
    static const char *const heads[] = {"rank", "telegrad", "congestion", "buffers", "clock"};
    struct table *t = table_create(6);
    if (!t)
        return no_memory();
    table_fit(t, (size_t)console_out_columns());
    table_row(t);
    for (size_t i = 0; i < TG_COUNT(heads); i++)
        table_cell(t, heads[i]);
    table_rest(t, "machine");
    for (int r = 0; r < f->size; r++) {
        const struct doctor_machine *m = &f->machine[r];
        char text[160];
        table_row(t);
        cell(t, "%.0f", r);
        table_cell(t, m->version);
        table_cell(t, m->congestion);
        table_cell(t, format_bytes(fmin(m->receive_bytes, m->send_bytes)).text);
        const double ahead = r ? f->way[r].link.ahead_s * 1e3 : 0;
        cell(t, "%+.1f ms", fabs(ahead) < 0.05 ? 0.0 : ahead); /* never -0.0 */
        snprintf(text, sizeof text, "%s, %s", m->host, m->system);
        table_rest(t, text);
    }
    const tg_status status = output_table(t);
    table_destroy(t);
    return status;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

struct pair {
    int low, high;
    double rate; /* of the slower direction */
};

static int slowest_first(const void *a, const void *b)
{
    const struct pair *x = a, *y = b;
    return x->rate != y->rate ? (x->rate > y->rate) - (x->rate < y->rate)
           : x->low != y->low ? x->low - y->low
                              : x->high - y->high;
}

static void rate_cell(struct table *t, const struct doctor_way *w)
{
    const double mbit = w->link.rate_bps / 1e6;
    cell(t, mbit < 1e4 ? "%.4g" : "%.0f", mbit);
}

static void loss_cell(struct table *t, const struct doctor_way *w)
{
    if (w->sent > 0)
        cell(t, "%.2f %%", 100 * w->resent / w->sent);
    else
        table_cell(t, "-");
}

static void pair_row(const struct doctor_findings *f, struct table *t, const struct pair *p)
{
    const struct doctor_way *out = &f->way[p->low * f->size + p->high],
                            *back = &f->way[p->high * f->size + p->low];
    char text[48];
    table_row(t);
    snprintf(text, sizeof text, "%d, %d", p->low, p->high);
    table_cell(t, text);
    table_cell(t, out->relayed ? "relayed" : out->local ? "memory" : "direct");
    cell(t, "%.3f ms", out->link.delay_s * 1e3);
    cell(t, "%.3f ms", out->link.jitter_s * 1e3);
    rate_cell(t, out);
    rate_cell(t, back);
    loss_cell(t, out);
    loss_cell(t, back);
}

static tg_status print_pairs(const struct doctor_findings *f)
{
    static const char *const heads[] = {"ranks",        "way",      "delay",  "jitter",
                                        "Mbit/s there", "and back", "resent", "and back"};
    const size_t n = (size_t)f->size, count = n * (n - 1) / 2;
    struct table *t = table_create(TG_COUNT(heads));
    struct pair *pairs = calloc(count + 1, sizeof *pairs);
    tg_status status = t && pairs ? TG_OK : no_memory();
    size_t at = 0;
    for (int low = 0; pairs && low < f->size; low++)
        for (int high = low + 1; high < f->size; high++)
            pairs[at++] = (struct pair){low, high,
                                        fmin(f->way[low * f->size + high].link.rate_bps,
                                             f->way[high * f->size + low].link.rate_bps)};
    if (status == TG_OK) {
        if (count > PAIRS_SHOWN)
            qsort(pairs, count, sizeof *pairs, slowest_first);
        table_fit(t, (size_t)console_out_columns());
        table_row(t);
        for (size_t i = 0; i < TG_COUNT(heads); i++)
            table_cell(t, heads[i]);
        for (size_t i = 0; i < count && i < PAIRS_SHOWN; i++)
            pair_row(f, t, &pairs[i]);
        status = output_table(t);
    }
    if (status == TG_OK && count > PAIRS_SHOWN)
        printf("(the slowest %d of %zu pairs; --json has all)\n", PAIRS_SHOWN, count);
    free(pairs);
    table_destroy(t);
    return status;
}

/* ---- everything ------------------------------------------------------------------------------ */

static void print_sentence(void *arg, const char *sentence)
{
    int *count = arg;
    if ((*count)++ == 0)
        printf("\n");
    printf("- %s\n", sentence);
}

static void add_sentence(void *arg, const char *sentence)
{
    (void)json_array_append_new(arg, json_string(sentence));
}

static tg_status print_json(const struct doctor_findings *f)
{
    json_t *ranks = json_array(), *advice = json_array();
    for (int r = 0; ranks && r < f->size; r++)
        (void)json_array_append_new(ranks, doctor_findings_of(f, r));
    if (advice)
        doctor_advise(f, add_sentence, advice);
    return jsonl_print_new(json_pack("{s:o, s:o}", "ranks", ranks, "advice", advice));
}

tg_status doctor_report(const struct doctor_findings *f, bool json)
{
    int count = 0;
    if (json)
        return print_json(f);
    TG_TRY(print_machines(f));
    if (f->size > 1) {
        printf("\n");
        TG_TRY(print_pairs(f));
    }
    doctor_advise(f, print_sentence, &count);
    return output_flush();
}

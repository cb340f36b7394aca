/* Prints the answer of telegrad advise as text or as JSON. */
#include "command/advise/advise.h"
#include "command/advise/advise_known.h"
#include "command/job/spec_words.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/output.h"
#include "command/output/jsonl.h"
#include "command/output/table.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 2 }; /* rows per strategy in the table; --json has all */

static format_text scaled_text(double value, const char *const units[4])
{
    format_text t;
    size_t u = 0;
    while (u < 3 && value >= 999.5) {
        value /= 1e3;
        u++;
    }
    snprintf(t.text, sizeof t.text, "%.3g %s", value, units[u]);
    return t;
}

static format_text rate_text(double bps)
{
    static const char *const units[] = {"kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};
    format_text t;
    if (bps >= 999.5)
        return scaled_text(bps / 1e3, units);
    snprintf(t.text, sizeof t.text, "%.3g bit/s", bps);
    return t;
}

static format_text delay_text(double seconds)
{
    static const char *const units[] = {"us", "ms", "s", "ks"};
    return scaled_text(1e6 * seconds, units);
}

static const char *measured_or(const struct advise_answer *a, const char *otherwise)
{
    return a->measured ? "measured over the transport" : otherwise;
}

/* Seconds for which a byte occupies a link; 0: unlimited rate. */
static double beta_of(const tg_link *l)
{
    const double rate = advice_rate(l);
    return rate > 0 ? 8 / rate : 0;
}

static void print_times(const struct advise_answer *a)
{
    const struct run_options *o = a->options;
    const advice_times *t = &a->times;
    const char *method = advice_methods[a->coded];
    char text[64];
    printf("model     %s, %s parameters; %d workers, batch %llu, %s\n", o->model,
           format_count(advice_params(a->advice)).text, a->workers, (unsigned long long)o->batch,
           train_precision_names[o->precision]);
    printf("link      %s\n", a->link_text);
    printf("tau    %9s  computing of a step: %s\n", format_seconds(t->tau).text,
           a->measured ? "measured: a step without exchange, all workers at once"
           : o->tau    ? "--tau"
                       : "measured here, on one core");
    printf("phi    %9s  dense exchange: %s\n", format_seconds(t->phi).text,
           measured_or(a, "its delays and bytes on the link"));
    printf("psi    %9s  %s exchange: %s\n", format_seconds(t->psi).text, method,
           measured_or(a, "its delays and bytes on the link"));
    printf("delta  %9s  %s encoding and decoding: measured, %s\n", format_seconds(t->delta).text,
           method, t->spare ? "on a core of its own" : "on the computing core");
    printf("alpha  %9s  one-way delay: %s\n", format_seconds((double)a->link.delay_ns / 1e9).text,
           measured_or(a, "--link"));
    snprintf(text, sizeof text, "%.3g ns", 1e9 * beta_of(&a->link));
    printf("beta   %9s  a byte on the wire: %s\n\n", text, measured_or(a, "--link"));
}

static double in_ms(double seconds)
{
    return 1e3 * seconds;
}

static void print_equations(const struct advise_answer *a)
{
    const advice_times *t = &a->times;
    const double tau = in_ms(t->tau), phi = in_ms(t->phi), psi = in_ms(t->psi),
                 delta = in_ms(t->delta);
    printf("CD-SGD's time model, without overlap within a step, in ms (%s):\n",
           advice_methods[a->coded]);
    printf("  T_ssgd = tau + phi         = %.4g + %.4g = %.4g\n", tau, phi, in_ms(advice_ssgd(t)));
    printf("  T_od   = max(tau, phi)     = max(%.4g, %.4g) = %.4g\n", tau, phi,
           in_ms(advice_od(t)));
    printf("  T_bit  = tau + delta + psi = %.4g + %.4g + %.4g = %.4g\n", tau, delta, psi,
           in_ms(advice_bit(t)));
    if (a->k == 1)
        printf("  T_cd   = T_od with k = 1: cd gains nothing here: it is od\n\n");
    else if (t->spare)
        printf("  T_cd   = ((k-1) max(tau, delta + psi) + max(tau, phi)) / k\n"
               "         = (%u max(%.4g, %.4g + %.4g) + max(%.4g, %.4g)) / %u = %.4g\n\n",
               a->k - 1, tau, delta, psi, tau, phi, a->k, in_ms(advice_cd(t, a->k)));
    else
        printf("  T_cd   = ((k-1) (max(tau, psi) + delta) + max(tau, phi)) / k\n"
               "         = (%u (max(%.4g, %.4g) + %.4g) + max(%.4g, %.4g)) / %u = %.4g\n\n",
               a->k - 1, tau, psi, delta, tau, phi, a->k, in_ms(advice_cd(t, a->k)));
}

static bool is_plain(const advice_way *w)
{
    return w->family == ADVICE_SSGD && w->method == 0;
}

/* The table shows the recommended way, plain SGD, and the fastest ways of each strategy. */
static bool is_shown(const struct advise_answer *a, size_t i)
{
    size_t faster = 0; /* faster ways of the same strategy */
    for (size_t k = 0; k < a->ways; k++)
        faster += a->way[k].family == a->way[i].family && a->way[k].step_s < a->way[i].step_s;
    return i == 0 || is_plain(&a->way[i]) || faster < ROWS;
}

static void fill_row(struct table *t, const struct advise_answer *a, const advice_way *w)
{
    char ms[32], far[32];
    snprintf(ms, sizeof ms, "%.4g", in_ms(w->step_s));
    snprintf(far, sizeof far, "%.1f", w->distance);
    table_row(t);
    table_cell(t, w->strategy);
    table_cell(t, w->method_text);
    table_cell(t, ms);
    table_cell(t, format_ratio(w->step_s / advice_tau(a->advice), "").text);
    table_cell(t, format_bytes(w->bytes).text);
    table_cell(t, far);
}

static tg_status print_table(const struct advise_answer *a)
{
    static const char *const titles[] = {"strategy", "method",      "ms a step",
                                         "/ tau",    "sent a step", "distance"};
    const size_t columns = sizeof titles / sizeof titles[0];
    struct table *t = table_create(columns);
    size_t shown = 0;
    if (!t)
        return tg_fail(TG_E_NOMEM, "out of memory for a table");
    table_fit(t, (size_t)console_out_columns());
    table_row(t);
    for (size_t i = 0; i < columns; i++)
        table_cell(t, titles[i]);
    for (size_t i = 0; i < a->ways; i++)
        if (is_shown(a, i)) {
            fill_row(t, a, &a->way[i]);
            shown++;
        }
    const tg_status status = output_table(t);
    table_destroy(t);
    TG_TRY(status);
    printf(
        "The %d fastest of each strategy, the one recommended and plain SGD; --json lists %zu "
        "others.\nDistance is from plain SGD: od and cd 2, dga 3, local 4, streaming 5; 1 more for "
        "each doubling of\nk, delay or every, 1 for a coded method, 0.1 for fp16.\n",
        ROWS, a->ways - shown);
    return TG_OK;
}

static void print_ranges(const advice_ranges *r, format_text text(double value))
{
    for (size_t i = 0; i < r->count; i++) {
        const bool first = r->range[i].from <= r->low, last = r->range[i].to >= r->high;
        const format_text from = text(r->range[i].from), to = text(r->range[i].to);
        printf("%s", i > 0 ? " and " : "");
        if (first == last)
            printf("between %s and %s", from.text, to.text);
        else
            printf("%s %s", first ? "below" : "above", first ? to.text : from.text);
    }
    if (r->count == 0)
        printf("nowhere between %s and %s", text(r->low).text, text(r->high).text);
}

static void print_crossings(const struct advise_answer *a)
{
    printf("\nCompression pays ");
    print_ranges(&a->compression, rate_text);
    printf(" at this delay; delayed averages (od, dga with delay=%d) pay ", ADVICE_MOST_D);
    print_ranges(&a->delay, delay_text);
    printf(" at this rate\n");
    printf("(pays: more than 10 %% off the step). k, delay and every above are the smallest that "
           "come within\n10 %% of what larger ones bring, as accuracy falls with them.\n");
}

static void print_residuals(const struct advise_answer *a)
{
    const struct advise_measured *m = a->measured;
    if (!m)
        return;
    printf(
        "\nShort runs: T_ssgd %.4g ms, so phi is %.4g ms in effect (%+.0f %%); T_bit %.4g ms, so "
        "delta + psi is %.4g ms (%+.0f %%)\n",
        in_ms(m->ssgd), in_ms(m->ssgd - m->tau), 100 * ((m->ssgd - m->tau) / m->phi - 1),
        in_ms(m->bit), in_ms(m->bit - m->tau), 100 * ((m->bit - m->tau) / (m->delta + m->psi) - 1));
}

/* Print what docs/results says about the accuracy of the choice, and what it does not say. */
static void print_accuracy(const struct advise_answer *a)
{
    const advice_way *w = &a->way[0];
    const char *model = a->options->model, *method = w->method_text;
    const int name = (int)strcspn(model, ":");
    const struct known_row *row[ADVISE_KNOWN_MOST];
    if (advise_costs_nothing(w)) {
        printf("\nIn accuracy it costs nothing: every step is that of dense training.\n");
        return;
    }
    const size_t count = advise_known(model, w, row);
    const bool strategy_known = w->family == ADVICE_SSGD || advise_is_known(model, w, false);
    const bool method_known = spec_same_name(method, "dense") || advise_is_known(model, w, true);
    if (count > 0)
        printf("\nWhat it costs in accuracy, by the nearest runs of docs/results (your data, "
               "rates and epochs will differ):\n");
    for (size_t i = 0; i < count; i++)
        printf("  %s with %s: %s, dense training %s (%s; %s; %s)\n", row[i]->strategy,
               row[i]->method, row[i]->result, row[i]->runs->dense, row[i]->runs->what,
               row[i]->runs->about, row[i]->runs->document);
    if (!strategy_known || !method_known)
        printf(
            "%sWhat %.*s%s%.*s costs %.*s in accuracy is not known: nothing of it is in "
            "docs/results. Compare a short run of each\nwith dense training: docs/strategies.md, "
            "docs/methods.md.\n",
            count > 0 ? "" : "\n", strategy_known ? 0 : (int)strcspn(w->strategy, ":"), w->strategy,
            !strategy_known && !method_known ? " or " : "",
            method_known ? 0 : (int)strcspn(method, ":"), method, name, model);
}

static tg_status print_command(const struct advise_answer *a)
{
    char *command;
    TG_TRY(advise_command(a, &command));
    if (a->workers > TG_RANKS_MAX)
        printf("\nTraining takes up to %d workers. To simulate these, without training:\n\n%s\n",
               TG_RANKS_MAX, command);
    else
        printf("\nTo train this way, for %d epochs%s:\n\n%s\n", ADVISE_EPOCHS,
               strstr(command, "warmup=1ep") ? " (a warm-up takes the first of them)" : "",
               command);
    free(command);
    return TG_OK;
}

tg_status advise_print(const struct advise_answer *a)
{
    char why[ADVISE_WHY];
    print_times(a);
    print_equations(a);
    TG_TRY(print_table(a));
    advise_why(a, why, sizeof why);
    if (a->way[0].family == ADVICE_SSGD)
        printf("\nUse --method %s: %s.\n", a->way[0].method_text, why);
    else
        printf("\nUse --strategy %s --method %s: %s.\n", a->way[0].strategy, a->way[0].method_text,
               why);
    print_crossings(a);
    print_residuals(a);
    print_accuracy(a);
    TG_TRY(print_command(a));
    if (a->options->servers > 0)
        TG_TRY(advise_served_print(a));
    return output_flush();
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *way_json(const advice_way *w)
{
    return json_pack("{s:s, s:s, s:f, s:f, s:f}", "strategy", w->strategy, "method", w->method_text,
                     "step_ms", in_ms(w->step_s), "bytes_per_step", w->bytes, "distance",
                     w->distance);
}

/* An end of a range is null if it is the end of what was examined. */
static json_t *ranges_json(const advice_ranges *r, const char *unit)
{
    json_t *all = json_array();
    for (size_t i = 0; i < r->count; i++)
        json_array_append_new(
            all, json_pack("[o, o]",
                           r->range[i].from > r->low ? json_real(r->range[i].from) : json_null(),
                           r->range[i].to < r->high ? json_real(r->range[i].to) : json_null()));
    return json_pack("{s:s, s:[f, f], s:o}", "unit", unit, "looked_at", r->low, r->high, "pays",
                     all);
}

static json_t *times_json(const struct advise_answer *a)
{
    const advice_times *t = &a->times;
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:i, s:f, s:f, s:f, s:f}", /**/
                     "method", advice_methods[a->coded], "tau_ms", in_ms(t->tau), "phi_ms",
                     in_ms(t->phi), "psi_ms", in_ms(t->psi), "delta_ms", in_ms(t->delta),
                     "alpha_ms", (double)a->link.delay_ns / 1e6, "beta_ns", 1e9 * beta_of(&a->link),
                     "spare_core", (int)t->spare, "k", (int)a->k, "ssgd_ms", in_ms(advice_ssgd(t)),
                     "od_ms", in_ms(advice_od(t)), "bit_ms", in_ms(advice_bit(t)), "cd_ms",
                     in_ms(advice_cd(t, a->k)));
}

static json_t *measured_json(const struct advise_measured *m)
{
    if (!m)
        return json_null();
    return json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "tau_ms", in_ms(m->tau),
                     "phi_ms", in_ms(m->phi), "psi_ms", in_ms(m->psi), "delta_ms", in_ms(m->delta),
                     "alpha_ms", in_ms(m->alpha), "beta_ns", 1e9 * m->beta, "ssgd_ms",
                     in_ms(m->ssgd), "bit_ms", in_ms(m->bit), "phi_effective_ms",
                     in_ms(m->ssgd - m->tau), "delta_psi_effective_ms", in_ms(m->bit - m->tau));
}

static json_t *accuracy_json(const struct advise_answer *a)
{
    const struct known_row *row[ADVISE_KNOWN_MOST];
    const size_t count = advise_known(a->options->model, &a->way[0], row);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "strategy",
                                              row[i]->strategy, "method", row[i]->method, "what",
                                              row[i]->runs->what, "result", row[i]->result, "dense",
                                              row[i]->runs->dense, "about", row[i]->runs->about,
                                              "document", row[i]->runs->document));
    return list;
}

tg_status advise_print_json(const struct advise_answer *a)
{
    const struct run_options *o = a->options;
    char why[ADVISE_WHY], *command;
    TG_TRY(advise_command(a, &command));
    json_t *ways = json_array();
    advise_why(a, why, sizeof why);
    for (size_t i = 0; i < a->ways; i++)
        json_array_append_new(ways, way_json(&a->way[i]));
    json_t *all = json_pack(
        "{s:o, s:I, s:i, s:I, s:s, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o}", /**/
        "model", jsonl_text(o->model), "params", (json_int_t)advice_params(a->advice), "workers",
        a->workers, "batch", (json_int_t)o->batch, "precision", train_precision_names[o->precision],
        "link", jsonl_text(a->link_text), "recommended", way_json(&a->way[0]), "why", why,
        "time_model", times_json(a), "ways", ways, "compression",
        ranges_json(&a->compression, "bit/s"), "delay", ranges_json(&a->delay, "s"), "measured",
        measured_json(a->measured), "accuracy", accuracy_json(a), "command", command, "servers",
        a->options->servers > 0 ? advise_served_json(a) : json_null());
    free(command);
    return jsonl_print_new(all);
}

#include "command/advise/advise.h"
#include "command/advise/advise_measure.h"
#include "command/output/format.h"
#include "command/train/cli_run.h"
#include <stdio.h>
#include <string.h>

/* The method for the equations: that of the fastest way that uses a coded method; the recommended
 * way comes first. */
static size_t coded_method(const struct advise_answer *a)
{
    for (size_t i = 0; i < a->ways; i++)
        if (a->way[i].method >= ADVICE_CODED)
            return a->way[i].method;
    return ADVICE_CODED;
}

static size_t method_number(const char *name)
{
    size_t i = 0;
    while (i + 1 < advice_method_count && strcmp(advice_methods[i], name) != 0)
        i++;
    return i;
}

static const advice_way *find(const struct advise_answer *a, advice_family family, size_t method)
{
    for (size_t i = 0; i < a->ways; i++)
        if (a->way[i].family == family && a->way[i].method == method)
            return &a->way[i];
    return NULL;
}

tg_status advise_answer_make(struct advise_answer *a)
{
    TG_TRY(advice_list(a->advice, &a->link, a->way, &a->ways));
    a->coded = coded_method(a);
    if (a->measured)
        a->coded = method_number(ADVISE_CODED);
    TG_TRY(advice_take_times(a->advice, a->coded, &a->link, &a->times));
    if (a->measured) {
        a->times.phi = a->measured->phi;
        a->times.psi = a->measured->psi;
        a->times.delta = a->measured->delta;
    }
    const advice_way *cd = find(a, ADVICE_CD, a->coded);
    a->k = cd ? cd->number : 1; /* without a cd way k is 1, where cd is the same as od */
    TG_TRY(advice_crossings(a->advice, &a->link, &a->compression, &a->delay));
    if (a->options->servers == 0)
        return TG_OK;
    const train_job job = run_job_of(a->options, NULL);
    const advice_network net = {.link = a->link, .server = a->server_link, .job = &job};
    return advice_serve(a->advice, &net, (unsigned)a->options->servers, &a->served);
}

void advise_why(const struct advise_answer *a, char *text, size_t room)
{
    const advice_way *w = &a->way[0], *fastest = w, *plain = find(a, ADVICE_SSGD, 0);
    const double tau = advice_tau(a->advice);
    char than[80] = "", more[160] = "";
    bool least = false;
    for (size_t i = 1; i < a->ways; i++)
        if (a->way[i].step_s < fastest->step_s)
            fastest = &a->way[i];
    for (size_t i = 1; i < a->ways; i++)
        least = least ||
                (advice_as_far(&a->way[i], w) && a->way[i].step_s <= ADVICE_NEAR * fastest->step_s);
    if (w != plain)
        snprintf(than, sizeof than, ", where plain SGD takes %s",
                 format_seconds(plain->step_s).text);
    if (fastest->step_s < 0.99 * w->step_s)
        snprintf(more, sizeof more, "; %s with %s would take %s, but %s", fastest->strategy,
                 fastest->method_text, format_seconds(fastest->step_s).text,
                 advice_as_far(fastest, w) ? "sends more" : "is further away");
    snprintf(text, room,
             "%s%s a step, of which computing %s%s; of all ways within %.0f %% of the fastest it "
             "is the nearest to plain SGD%s%s",
             w == plain ? "plain SGD takes " : "", format_seconds(w->step_s).text,
             format_seconds(tau).text, than, 100 * (ADVICE_NEAR - 1),
             least ? ", and of those as near the one that sends least" : "", more);
}

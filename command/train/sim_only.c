#include "command/train/sim_only.h"
#include "command/train/cli_run.h"
#include "command/train/late_averages.h"
#include "command/train/ratio_line.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/outfile.h"
#include "command/output/output.h"
#include "command/job/step_times.h"
#include "command/output/stop.h"
#include "telegrad/tools.h"
#include "trainer/loop/advice.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct watch {
    const struct run_about *about;
    struct records *records;
    struct run_result result;
    const struct sim_only_data *data;
    double epoch_steps, tau_ns;
    const char *slowest; /* the link used for all, if links differ; else NULL */
};

/* ---- the network ----------------------------------------------------------------------------- */

/* The links of the ranks. */
struct links {
    tg_link worst; /* the slowest link so far */
    const char *text;
    bool any, differ;
};

/* Whether nothing takes longer over b than over a, in rate, delay and jitter: all that a simulation
 * knows of a link. */
static bool no_better(const tg_link *a, const tg_link *b)
{
    const double rate = advice_rate(a), other = advice_rate(b);
    return (rate > 0 ? other <= 0 || rate <= other : other <= 0) && a->delay_ns >= b->delay_ns &&
           a->jitter_ns >= b->jitter_ns;
}

/* Add a rank's link; NULL: none, without delay or limit of rate. One network stands for all
 * (simulate.h), so one rank must have the slowest link in every respect. */
static tg_status add_link(struct links *all, const char *text)
{
    tg_link one = {.struct_size = sizeof one};
    if (text)
        TG_TRY(tg_link_parse(text, &one));
    if (!all->any || no_better(&one, &all->worst)) {
        all->differ = all->differ || (all->any && !no_better(&all->worst, &one));
        all->worst = one;
        all->text = text;
        all->any = true;
        return TG_OK;
    }
    all->differ = true;
    return no_better(&all->worst, &one)
               ? TG_OK
               : tg_fail(
                     TG_E_SPEC,
                     "--sim-only with links \"%.64s\" and \"%.64s\": every exchange is simulated "
                     "over the slowest link, and neither has both the lower rate and the longer "
                     "delay and jitter: use links of which one has, or run without --sim-only",
                     all->text ? all->text : "none", text ? text : "none");
}

/* The slowest link of the ranks from..to-1, of which those without a link of their own have
 * `common`. *text_p: NULL if all links are alike. */
static tg_status slowest_link(const struct run_options *o, uint64_t from, uint64_t to,
                              const char *common, tg_link *link_p, const char **text_p)
{
    struct links all = {.any = false};
    uint64_t others = to - from;
    for (size_t i = 0; i < o->links_of_count; i++) {
        if (o->links_of[i].rank < from || o->links_of[i].rank >= to)
            continue;
        others--;
        TG_TRY(add_link(&all, o->links_of[i].link));
    }
    if (others > 0)
        TG_TRY(add_link(&all, common));
    *link_p = all.worst;
    *text_p = all.differ ? all.text : NULL;
    return TG_OK;
}

/* With servers each worker has its own link. *links_p: (workers), to free; NULL: all are alike. */
static tg_status read_links(const struct run_options *o, tg_link *link_p, tg_link **links_p)
{
    bool own = false;
    *link_p = (tg_link){.struct_size = sizeof *link_p};
    *links_p = NULL;
    if (o->link)
        TG_TRY(tg_link_parse(o->link, link_p));
    for (size_t i = 0; i < o->links_of_count; i++)
        own = own || o->links_of[i].rank < o->workers;
    if (!own)
        return TG_OK;
    TG_TRY(tg_alloc((size_t)o->workers, sizeof **links_p, links_p));
    for (uint64_t r = 0; r < o->workers; r++)
        (*links_p)[r] = *link_p;
    for (size_t i = 0; i < o->links_of_count; i++) {
        const struct run_link_of *one = &o->links_of[i];
        if (one->rank >= o->workers)
            continue;
        tg_link *link = &(*links_p)[one->rank];
        *link = (tg_link){.struct_size = sizeof *link};
        if (one->link)
            TG_TRY(tg_link_parse(one->link, link));
    }
    return TG_OK;
}

/* ---- what is printed ------------------------------------------------------------------------- */

static tg_status on_start(void *arg, const train_start_info *info)
{
    struct watch *w = arg;
    TG_TRY(run_result_start(&w->result, info));
    late_averages_warn(&(late_run){.strategy = info->strategy,
                                   .world = info->world,
                                   .steps = info->steps,
                                   .steps_per_epoch = info->steps_per_epoch},
                       w->about->name ? w->about->name : "");
    return records_start(w->records, w->about, info);
}

static tg_status on_step(void *arg, const train_step_info *info)
{
    const struct watch *w = arg;
    return records_step(w->records, info);
}

static tg_status print(const struct watch *w)
{
    const struct run_options *o = w->about->options;
    const train_end_info *end = &w->result.end;
    const double step = end->seconds / (double)end->steps;
    const bool idle = end->compute_ms_median == 0 && w->tau_ns > 0; /* rank 0, in most steps */
    printf("model          %s, %s parameters\n", o->model, format_count(w->result.params).text);
    printf("workers        %d (simulated), link %s\n", end->world, o->link ? o->link : "none");
    if (o->servers > 0)
        printf("servers        %" PRIu64 " (simulated)%s%s\n", o->servers,
               o->server_mode ? ", " : "", o->server_mode ? o->server_mode : "");
    for (size_t i = 0; i < o->links_of_count; i++)
        printf("link of %-6" PRIu64 " %s\n", o->links_of[i].rank,
               o->links_of[i].link ? o->links_of[i].link : "none");
    if (w->slowest)
        printf("links          differ: every exchange is simulated over the slowest, %s\n",
               w->slowest);
    printf("clock          virtual, nothing was computed: tau %s, computing takes %s a step\n",
           o->tau ? o->tau : "measured",
           format_seconds(idle ? w->tau_ns / 1e9 : end->compute_ms_median / 1e3).text);
    printf("method         %s\n", w->result.method);
    for (size_t i = 0; i < o->rule_count; i++)
        printf("rule           %s\n", o->rules[i]);
    printf("strategy       %s\n", w->result.strategy);
    printf("optimizer      %s, %s\n", w->result.optimizer, w->result.lr_schedule);
    printf("steps          %" PRIu64 " of %" PRIu64 "%s\n", end->steps, w->result.steps_planned,
           end->interrupted ? ", interrupted" : "");
    printf("time           %s; mean step %s, ", format_seconds(end->seconds).text,
           format_seconds(step).text);
    if (idle)
        printf("worker 0 is not drawn for most\n");
    else
        printf("median %s\n", format_seconds(end->step_ms_median / 1e3).text);
    if (w->epoch_steps > 0)
        printf("epoch          %s, of %.4g steps\n", format_seconds(step * w->epoch_steps).text,
               w->epoch_steps);
    if (w->epoch_steps > 0 && w->epoch_steps < 1)
        printf("samples        a step takes more than the data have: without --sim-only the run "
               "is refused\n");
    printf("sent           %s in all, %s a step and worker\n",
           format_bytes((double)end->bytes_sent).text, format_bytes(end->bytes_per_step).text);
    ratio_line_print(end->ratio, end->ratio_wire, "nothing is sent");
    return output_flush();
}

/* ---- running --------------------------------------------------------------------------------- */

/* Samples per epoch; 0: unknown. */
static size_t samples_of(const struct watch *w, const train_sim *s)
{
    const size_t context = train_sim_about(s).context;
    return context > 0 ? w->data->samples / context : w->data->samples;
}

static tg_status run(struct watch *w, const train_sim *s, const train_job *job, const tg_link *link,
                     const train_sim_servers *servers)
{
    const train_events events = {.arg = w, .start = on_start, .step = on_step};
    const size_t samples = samples_of(w, s);
    w->epoch_steps = (double)samples /
                     ((double)job->batch * job->accumulate * (double)w->about->options->workers);
    const tg_status status = train_simulate(s, job, samples, (int)w->about->options->workers, link,
                                            servers, &events, &w->result.end);
    if (status == TG_E_SPEC && samples == 0)
        return tg_fail(status, "%s, or with the data (%s is not here)", tg_error(), w->data->name);
    TG_TRY(status);
    const verdict_run ended = {.end = &w->result.end,
                               .method = w->result.method,
                               .strategy = w->result.strategy,
                               .lr_schedule = w->result.lr_schedule,
                               .steps_per_epoch = w->result.steps_per_epoch};
    w->result.verdict = verdict_of(&ended);
    verdict_say(&w->result.verdict, w->about->name ? w->about->name : "");
    return records_end(w->records, &w->result);
}

static tg_status simulate(struct watch *w)
{
    const struct run_options *o = w->about->options;
    train_job job = run_job_of(o, NULL);
    train_times given = {0};
    train_sim *s = NULL;
    train_sim_servers servers = {.count = (int64_t)o->servers, .mode = o->server_mode};
    tg_link link, *links = NULL;
    const char *differ;
    if (o->tau && o->tau_ns == 0)
        TG_TRY(step_times_read(o, &given));
    job.times = &given;
    tg_status status = o->servers > 0 ? read_links(o, &link, &links)
                                      : slowest_link(o, 0, o->workers, o->link, &link, &w->slowest);
    if (status == TG_OK && o->servers > 0)
        status = slowest_link(o, o->workers, o->workers + o->servers, NULL, &servers.link, &differ);
    servers.links = links;
    if (status == TG_OK)
        status = train_sim_create(&job, w->data->name, &s);
    if (status == TG_OK) {
        w->tau_ns = (double)train_sim_about(s).tau_ns;
        status = run(w, s, &job, &link, o->servers > 0 ? &servers : NULL);
    }
    free(links);
    train_sim_destroy(s);
    train_times_free(&given);
    return step_times_explain(o, status);
}

tg_status sim_only_run(const struct run_about *about, const struct sim_only_data *data,
                       struct records *records, struct run_result *result_p)
{
    struct watch w = {.about = about, .records = records, .data = data};
    const tg_status status = simulate(&w);
    if (status != TG_OK) {
        run_result_free(&w.result);
        return status;
    }
    *result_p = w.result;
    return TG_OK;
}

tg_status sim_only_find(const struct run_options *o, struct sim_only_data *data_p)
{
    struct sim_only_data data = {.name = run_data_name(o)};
    const tg_status status = train_data_samples(data.name, (size_t)o->holdout, &data.samples);
    if (status == TG_E_IO && o->steps > 0) /* only its number of samples is missing */
        console_remark("telegrad: data: %s is not here; how long an epoch takes is not known",
                       data.name);
    else
        TG_TRY(status);
    *data_p = data;
    return TG_OK;
}

tg_status sim_only(const struct launch *l, const struct run_options *o, int *exit_status_p)
{
    struct records *records = NULL;
    struct sim_only_data data;
    TG_TRY(sim_only_find(o, &data));
    if (o->out)
        TG_TRY(records_open(o->out, false, &records));
    const struct run_about about = {.launch = l, .options = o, .data = NULL};
    struct watch w = {.about = &about, .records = records, .data = &data};
    tg_status status = simulate(&w);
    if (status == TG_OK) {
        status = records_commit(records);
        records = NULL;
    }
    if (status == TG_OK && !outfile_is_stdout(o->out))
        status = print(&w);
    if (status == TG_OK && w.result.end.interrupted) {
        console_note("interrupted by %s", stop_signal_name());
        *exit_status_p = stop_exit_status();
    }
    run_result_free(&w.result);
    records_abandon(records);
    return status;
}

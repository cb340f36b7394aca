/* telegrad report */
#include "command/output/cli.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/job/launch.h"
#include "command/output/outfile.h"
#include "command/output/output.h"
#include "command/output/stop.h"
#include "command/report_servers.h"
#include "report/report.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct report_options {
    struct cli_words paths;
    const char *out, *steps;
    char *timeline; /* the traces of a timeline; NULL: a page of runs */
    const char *titles[REPORT_TRACES_MAX];
    size_t ntitles;
};

/* ---- settings -------------------------------------------------------------------------------- */

static tg_status check_page(const struct report_options *o)
{
    if (o->paths.count == 0)
        return tg_fail(TG_E_SPEC,
                       "no records: give files of telegrad train --out, or --timeline TRACE.json");
    if (o->steps)
        return tg_fail(TG_E_SPEC, "--steps requires --timeline");
    if (o->ntitles > 1)
        return tg_fail(TG_E_SPEC, "--title is given %zu times: one page has one title", o->ntitles);
    return TG_OK;
}

static tg_status split_traces(struct report_options *o, report_timeline_job *job)
{
    char *rest = o->timeline;
    while (rest) {
        char *path = strsep(&rest, ",");
        if (!*path || job->count == REPORT_TRACES_MAX)
            return tg_fail(TG_E_SPEC, "--timeline: %s: allowed: 1 to %d files, FILE,FILE",
                           *path ? "too many" : "a file without a name", REPORT_TRACES_MAX);
        job->path[job->count++] = path;
    }
    if (o->ntitles > job->count)
        return tg_fail(TG_E_SPEC,
                       "--title is given %zu times: allowed: one for each of the %zu traces",
                       o->ntitles, job->count);
    memcpy(job->title, o->titles, sizeof job->title);
    return TG_OK;
}

/* "A-B" or "A" */
static tg_status read_steps(const char *text, report_timeline_job *job)
{
    char *end = NULL;
    const char *second = text;
    errno = 0;
    job->first = job->last = strtoull(text, &end, 10);
    if (*end == '-') {
        second = end + 1;
        job->last = strtoull(second, &end, 10);
    }
    if (*text < '0' || *text > '9' || *second < '0' || *second > '9' || *end || errno ||
        job->last < job->first || job->last - job->first >= 1000)
        return tg_fail(TG_E_SPEC, "--steps \"%.64s\": allowed: A-B, at most 1000 steps", text);
    job->steps_given = true;
    return TG_OK;
}

static tg_status check_out(const struct report_options *o)
{
    if (!o->out && o->timeline)
        return tg_fail(TG_E_SPEC, "no -o: allowed: -o report.html or -o picture.svg");
    return !o->out ? TG_OK : outfile_check_ending("-o", o->out, ".html", ".svg");
}

static tg_status check_apart(const char *out, const char *in)
{
    if (!out || !outfile_same(out, in))
        return TG_OK;
    return tg_fail(TG_E_SPEC, "-o \"%.64s\" is \"%.64s\", which is read: choose another file", out,
                   in);
}

static tg_status check_once(const char *before, const char *path)
{
    if (!outfile_same(before, path))
        return TG_OK;
    return tg_fail(TG_E_SPEC, "\"%.64s\" is given twice", path);
}

static tg_status make_timeline(struct report_options *o, report_timeline_job *job)
{
    if (o->paths.count > 0)
        return tg_fail(TG_E_SPEC,
                       "\"%.64s\" with --timeline: traces belong to that option (--timeline "
                       "FILE,FILE), and records make a page without it",
                       o->paths.word[0]);
    TG_TRY(split_traces(o, job));
    if (o->steps)
        TG_TRY(read_steps(o->steps, job));
    for (size_t i = 0; i < job->count; i++)
        TG_TRY(check_apart(o->out, job->path[i]));
    job->html = outfile_ends_in(o->out, ".html");
    return TG_OK;
}

/* ---- work ------------------------------------------------------------------------------------ */

static tg_status write_report(const struct report_options *o, const report_timeline_job *job,
                              FILE *out)
{
    if (o->timeline)
        return report_timeline(job, out);
    return (outfile_ends_in(o->out, ".svg") ? report_chart : report_page)(
        o->paths.word, o->paths.count, o->titles[0], out);
}

static tg_status check(const struct report_options *o)
{
    for (size_t i = 0; i < o->ntitles; i++)
        if (!format_is_utf8(o->titles[i]))
            return tg_fail(TG_E_SPEC, "--title: allowed: UTF-8");
    TG_TRY(check_out(o));
    for (size_t i = 0; i < o->paths.count; i++) {
        TG_TRY(check_apart(o->out, o->paths.word[i]));
        for (size_t k = 0; k < i; k++)
            TG_TRY(check_once(o->paths.word[k], o->paths.word[i]));
    }
    return o->timeline ? TG_OK : check_page(o);
}

static tg_status report(struct report_options *o)
{
    tg_newfile *file;
    report_timeline_job job = {0};
    TG_TRY(launch_check_one("report"));
    TG_TRY(check(o));
    if (!o->out) {
        TG_TRY(report_servers(o->paths.word, o->paths.count));
        return output_flush();
    }
    if (o->timeline)
        TG_TRY(make_timeline(o, &job));
    TG_TRY(outfile_check("-o", o->out, false));
    TG_TRY(outfile_check_old("-o", o->out, 0,
                             outfile_ends_in(o->out, ".svg") ? REPORT_PICTURE_BEGINS
                                                             : REPORT_PAGE_BEGINS,
                             "what telegrad report drew"));
    TG_TRY(outfile_open("-o", o->out, &file));
    tg_status status = write_report(o, &job, tg_newfile_stream(file));
    if (status != TG_OK) {
        outfile_abandon(file);
        return status;
    }
    const bool alone = tg_newfile_aside(file) != NULL; /* otherwise it may be standard output */
    const long size = alone ? ftell(tg_newfile_stream(file)) : 0;
    TG_TRY(outfile_commit(file, "-o"));
    if (alone)
        printf("%s: %s\n", o->out, format_bytes((double)size).text);
    return output_flush();
}

/* ---- arguments ------------------------------------------------------------------------------- */

enum { OUT = 'o', TIMELINE = OPTIONS_KEY, STEPS, TITLE };

static tg_status set(void *input, int key, char *arg)
{
    struct report_options *o = input;
    switch (key) {
    case OUT:
        o->out = arg;
        return TG_OK;
    case TIMELINE:
        o->timeline = arg;
        return TG_OK;
    case STEPS:
        o->steps = arg;
        return TG_OK;
    }
    if (o->ntitles == REPORT_TRACES_MAX)
        return tg_fail(TG_E_SPEC, "--title: allowed: at most %d times", REPORT_TRACES_MAX);
    o->titles[o->ntitles++] = arg;
    return TG_OK;
}

static struct cli_words *words_of(void *input)
{
    return &((struct report_options *)input)->paths;
}

static const struct cli_option options[] = {
    {.help = "Options"},
    {"out", OUT, "FILE", NULL, NULL,
     "what to write: a page (.html) or a picture (.svg); required, but for records of servers, "
     "which are then shown as a table"},
    {"timeline", TIMELINE, "FILE,..", NULL, NULL,
     "draw up to 4 traces of train --trace, one below the other on a common time axis: what each "
     "rank did when"},
    {"steps", STEPS, "A-B", "five after the first", NULL,
     "steps of the traces to draw, counted from 0"},
    {"title", TITLE, "TEXT", NULL, NULL,
     "title of the page or picture; with --timeline of a trace, repeatable, in their order"},
    {0}};

static int cmd_report(int argc, char **argv)
{
    struct report_options o = {0};
    const int parsed = options_parse(&command_report, argc, argv, &o);
    if (parsed >= 0)
        return parsed;
    int rank, size;
    (void)launch_under_mpi(&rank, &size);
    stop_install_at_once(rank == 0);
    tg_status status = report(&o);
    if (status == TG_OK)
        return CLI_OK;
    console_error("%s", tg_error());
    return cli_exit_status(status);
}

const struct cli_command command_report = {
    .name = "report",
    .run = cmd_report,
    .summary = "draw a page of charts from records, or a picture from traces",
    .usage = "RECORDS... -o PAGE.html\nRECORDS... -o PICTURE.svg\n--timeline TRACE[,TRACE]... -o "
             "PICTURE.svg",
    .about = "Draw what runs wrote; the files may be compressed (.gz). RECORDS are the files of "
             "train --out and compare --out, or, for a page of servers, of serve --out. The page "
             "has a sortable table, and charts of accuracy, loss, density, ratio and residuals "
             "over steps, samples, time and bytes; it needs no network. The picture has one chart: "
             "test accuracy over time, or the loss if there is no accuracy. Runs that differ only "
             "in their seed share a color. Long runs are thinned; extremes are kept. An incomplete "
             "last line is ignored.",
    .operands = "FILE",
    .options = options,
    .set = set,
    .words_of = words_of,
    .examples = "telegrad train --workers 2 --steps 40 --out run.jsonl --trace trace.json\n"
                "telegrad report run.jsonl -o report.html\n"
                "telegrad report run.jsonl -o accuracy.svg\n"
                "telegrad report --timeline trace.json --steps 10-14 -o timeline.svg"};

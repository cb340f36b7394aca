#include "report/run_file.h"
#include "report/epoch_waits.h"
#include "report/lines.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const run_step_names[STEP_COLUMNS] = {
    [STEP_STEP] = "step",
    [STEP_SECONDS] = "seconds",
    [STEP_SENT] = "bytes_sent",
    [STEP_LOSS] = "loss",
    [STEP_LR] = "lr",
    [STEP_DENSITY] = "density",
    [STEP_DENSITY_KEPT] = "density_kept",
    [STEP_GRAD_NORM] = "grad_norm",
    [STEP_RESIDUAL_NORM] = "residual_norm",
    [STEP_RESIDUAL_RATIO] = "residual_ratio",
    [STEP_COMPUTE] = "compute_ms",
    [STEP_ENCODE] = "encode_ms",
    [STEP_EXCHANGE] = "exchange_ms",
    [STEP_DECODE] = "decode_ms",
    [STEP_APPLY] = "apply_ms",
    [STEP_WAIT] = "wait_ms",
    [STEP_TIME] = "step_ms",
    [STEP_CODED_BYTES] = "coded_bytes",
    [STEP_RATIO] = "ratio",
};

const char *const run_epoch_names[EPOCH_COLUMNS] = {
    [EPOCH_STEP] = "step",
    [EPOCH_SECONDS] = "seconds",
    [EPOCH_SENT] = "bytes_sent",
    [EPOCH_TRAIN_LOSS] = "train_loss",
    [EPOCH_TEST_ACCURACY] = "test_accuracy",
    [EPOCH_TEST_LOSS] = "test_loss",
    [EPOCH_PERPLEXITY] = "perplexity",
};

/* The position of a record, for messages. */
typedef struct place {
    run_files *files;
    const char *path;
    size_t line;
    bool any; /* whether the file has had a run so far */
} place;

/* ---- rows ------------------------------------------------------------------------------------ */

static double number(const json_t *record, const char *name)
{
    const json_t *value = json_object_get(record, name);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* The largest value that is drawn: axes of differences stay finite. */
#define MOST 1e300

/* Check that every value to be drawn is a number, or null. */
static tg_status check_numbers(const place *at, const json_t *record, const char *const *names,
                               size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_object_get(record, names[i]);
        if (value && !json_is_number(value) && !json_is_null(value))
            return tg_fail(TG_E_CORRUPT,
                           "%s:%zu: \"%s\" is not a number: allowed: a number or null", at->path,
                           at->line, names[i]);
        if (fabs(json_number_value(value)) > MOST)
            return tg_fail(TG_E_CORRUPT, "%s:%zu: \"%s\" is %g: allowed: -%g to %g", at->path,
                           at->line, names[i], json_number_value(value), MOST, MOST);
    }
    return TG_OK;
}

/* Add a row with the values of the record; steps must not descend. */
static tg_status add_row(const place *at, run_rows *rows, const json_t *record,
                         const char *const *names, double **row_p)
{
    TG_TRY(check_numbers(at, record, names, rows->columns));
    double *row;
    TG_TRY(run_rows_next(rows, at->path, &row));
    for (size_t c = 0; c < rows->columns; c++)
        row[c] = number(record, names[c]);
    const double before = rows->count ? (row - rows->columns)[0] : 0;
    if (isnan(row[0]))
        return tg_fail(TG_E_CORRUPT, "%s:%zu: no step", at->path, at->line);
    if (!(row[0] >= before && row[0] <= 9e15))
        return tg_fail(TG_E_CORRUPT,
                       "%s:%zu: step %.17g: allowed: %.17g, that of the record before, to 9e15",
                       at->path, at->line, row[0], before);
    rows->count++;
    *row_p = row;
    return TG_OK;
}

/* The elements behind the record's coded bytes. They are fewer than the parameters if a step
 * exchanges only a part. Records of a simulation do not say; then the parameters count. */
static double delivered(const run_file_run *run, const json_t *record)
{
    size_t i;
    const json_t *method;
    double sum = 0;
    json_array_foreach(json_object_get(record, "methods"), i, method)
    {
        const double n = number(method, "n");
        sum += n > 0 ? n : 0;
    }
    return sum > 0 ? sum : number(run->start, "params");
}

static tg_status add_step(const place *at, run_file_run *run, const json_t *record)
{
    double *row;
    TG_TRY(add_row(at, &run->steps, record, run_step_names, &row));
    row[STEP_SECONDS] += run->seconds_before;
    const bool coded = json_is_true(json_object_get(record, "coded"));
    row[STEP_RATIO] = coded && row[STEP_CODED_BYTES] > 0
                          ? 4 * delivered(run, record) / row[STEP_CODED_BYTES]
                          : (double)NAN;
    return TG_OK;
}

static tg_status add_epoch(const place *at, run_file_run *run, const json_t *record)
{
    double *row;
    TG_TRY(add_row(at, &run->epochs, record, run_epoch_names, &row));
    epoch_waits_add(&run->waits, record);
    row[EPOCH_SECONDS] += run->seconds_before;
    row[EPOCH_SENT] += run->sent_before;
    /* The outputs of a test were not finite, and none of them counts; older records say 0. */
    if (isfinite(row[EPOCH_TEST_ACCURACY]) &&
        json_is_null(json_object_get(record, run_epoch_names[EPOCH_TEST_LOSS]))) {
        row[EPOCH_TEST_ACCURACY] = NAN;
        row[EPOCH_TEST_LOSS] = INFINITY;
    }
    if (!isfinite(row[EPOCH_PERPLEXITY]) && number(run->start, "context") > 0)
        row[EPOCH_PERPLEXITY] = exp(row[EPOCH_TEST_LOSS]);
    return TG_OK;
}

/* Remove the rows after `step`. */
static void drop_after(run_rows *rows, double step)
{
    while (rows->count && rows->v[(rows->count - 1) * rows->columns] > step)
        rows->count--;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static const char *text(const json_t *record, const char *name)
{
    return json_string_value(json_object_get(record, name));
}

/* The last run of that name in the file; NULL: none. */
static run_file_run *find(const place *at, const char *name)
{
    for (size_t i = at->files->count; i-- > 0;) {
        const char *other = text(at->files->runs[i].start, "run");
        if (at->files->runs[i].last_path != at->path)
            continue;
        if (name == other || (name && other && strcmp(name, other) == 0))
            return &at->files->runs[i];
    }
    return NULL;
}

static char *name_of(const char *path, const json_t *start)
{
    const char *run = text(start, "run");
    return run ? strdup(run) : lines_name(path);
}

static bool same(const json_t *a, const json_t *b, const char *name)
{
    const json_t *x = json_object_get(a, name), *y = json_object_get(b, name);
    return x == y || json_equal(x, y);
}

/* Whether the run that `start` begins resumes `run` from a checkpoint, which one that has joined
 * others at servers does not. */
static bool continues(const run_file_run *run, const json_t *start)
{
    return run && number(start, "first_step") > 0 && isnan(number(start, "joined_step")) &&
           same(run->start, start, "method") && same(run->start, start, "strategy") &&
           same(run->start, start, "model") && same(run->start, start, "seed") &&
           same(run->start, start, "world");
}

/* Whether `run`, from another file, ended at the step where `start` begins, with the same
 * settings. */
static bool ended_before(const run_file_run *run, const json_t *start)
{
    static const char *const settings[] = {
        "data",     "batch",    "accumulate", "rules",           "optimizer",
        "link",     "links_of", "clock",      "transport",       "precision",
        "lr_scale", "shard",    "nodes",      "steps_per_epoch", "overlap"};
    bool equal = run->end && continues(run, start) &&
                 number(run->end, "steps") == number(start, "first_step");
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        equal = equal && same(run->start, start, settings[i]);
    return equal;
}

static run_file_run *find_ended_before(const place *at, const json_t *start)
{
    for (size_t i = at->files->count; i-- > 0;)
        if (ended_before(&at->files->runs[i], start))
            return &at->files->runs[i];
    return NULL;
}

static double last_of(const run_rows *rows, size_t column)
{
    const double v = rows->count ? rows->v[(rows->count - 1) * rows->columns + column] : 0;
    return v > 0 ? v : 0;
}

/* Bytes count from zero after each start. So does time, unless it is simulated. */
static void go_on(run_file_run *run, const json_t *start)
{
    const char *clock = text(start, "clock");
    const bool whole = run->end && number(run->end, "steps") == number(start, "first_step");
    const double seconds = run->seconds_before + number(run->end, "seconds");
    const double sent = run->sent_before + number(run->end, "bytes_sent");
    drop_after(&run->steps, number(start, "first_step"));
    drop_after(&run->epochs, number(start, "first_step"));
    epoch_waits_drop_after(run->waits, number(start, "first_step"));
    json_decref(run->end);
    run->end = NULL;
    run->failed = false;
    run->sent_before = whole && isfinite(sent) ? sent : last_of(&run->epochs, EPOCH_SENT);
    if (!clock || strcmp(clock, "virtual") != 0)
        run->seconds_before =
            whole && isfinite(seconds)
                ? seconds
                : fmax(last_of(&run->steps, STEP_SECONDS), last_of(&run->epochs, EPOCH_SECONDS));
}

/* Words for the page, which the log has, too. */
static void note(run_files *f, tg_log_level level, json_t *words)
{
    if (words)
        tg_log(level, "%s", json_string_value(words));
    if (!f->notes)
        f->notes = json_array();
    if (words)
        json_array_append_new(f->notes, words);
}

static tg_status add_start(const place *at, json_t *start)
{
    run_files *f = at->files;
    run_file_run *before = find(at, text(start, "run"));
    if (!continues(before, start)) {
        before = find_ended_before(at, start);
        if (before)
            note(f, TG_LOG_INFO,
                 json_sprintf("%s goes on from %s at step %.0f.", at->path, before->last_path,
                              number(start, "first_step")));
    }
    if (before) {
        before->last_path = at->path;
        go_on(before, start);
        return TG_OK;
    }
    if (f->count == f->room) {
        const size_t room = f->room ? 2 * f->room : 8;
        run_file_run *runs = realloc(f->runs, room * sizeof *runs);
        if (!runs)
            return tg_fail(TG_E_NOMEM, "out of memory: runs of %s", at->path);
        f->runs = runs;
        f->room = room;
    }
    char *name = name_of(at->path, start);
    if (!name)
        return tg_fail(TG_E_NOMEM, "out of memory: runs of %s", at->path);
    f->runs[f->count++] = (run_file_run){.path = at->path,
                                         .last_path = at->path,
                                         .name = name,
                                         .start = json_incref(start),
                                         .steps.columns = STEP_COLUMNS,
                                         .epochs.columns = EPOCH_COLUMNS};
    return TG_OK;
}

/* Note the runs that a table reports as failed. */
static void note_failures(const place *at, const json_t *table)
{
    size_t i;
    const json_t *row;
    json_array_foreach(json_object_get(table, "rows"), i, row)
    {
        const char *name = text(row, "run"), *why = text(row, "failed");
        if (why)
            note(at->files, TG_LOG_INFO,
                 json_sprintf("Run \"%s\" failed: %s", name ? name : "?", why));
    }
}

static tg_status add_record(place *at, json_t *record)
{
    static const char *const types[] = {"start",        "step",      "epoch",        "end",
                                        "failed",       "table",     "server_start", "server",
                                        "server_event", "server_end"};
    enum { START, STEP, EPOCH, END, FAILED, TABLE, SERVER_START, TYPES = SERVER_START + 4 };
    const char *type = text(record, "type");
    size_t t = 0;
    while (t < TYPES && (!type || strcmp(type, types[t]) != 0))
        t++;
    if (t == TYPES)
        return tg_fail(TG_E_CORRUPT,
                       "%s:%zu: %s%.64s%s: allowed: the records of telegrad train --out or "
                       "telegrad serve --out",
                       at->path, at->line, type ? "type \"" : "no \"type\"", type ? type : "",
                       type ? "\"" : "");
    if (t == TABLE) {
        note_failures(at, record);
        return TG_OK;
    }
    at->any = at->any || t == START || t == SERVER_START;
    if (t >= SERVER_START)
        return server_files_add(&at->files->servers, at->path, at->line, record);
    if (t == START)
        return add_start(at, record);
    run_file_run *run = find(at, text(record, "run"));
    if (!run)
        return tg_fail(TG_E_CORRUPT, "%s:%zu: \"%s\" of a run without \"start\" before it",
                       at->path, at->line, type);
    if (t == STEP)
        return add_step(at, run, record);
    if (t == EPOCH)
        return add_epoch(at, run, record);
    if (t == FAILED) {
        const char *why = text(record, "error");
        note(at->files, TG_LOG_INFO,
             json_sprintf("%s: the run failed: %s", at->path, why ? why : "?"));
        run->failed = true;
        return TG_OK;
    }
    json_decref(run->end);
    run->end = json_incref(record);
    run->failed = json_is_true(json_object_get(record, "diverged"));
    return TG_OK;
}

/* Whether the line is the first line of a trace. */
static bool is_trace(const char *line, size_t len)
{
    return memmem(line, len, "\"traceEvents\"", 13) || memmem(line, len, "\"displayTimeUnit\"", 17);
}

static tg_status add_line(place *at, const char *line, size_t len, bool whole)
{
    json_error_t error;
    json_t *record = json_loadb(line, len, 0, &error);
    if (!record && !whole && at->any) {
        note(at->files, TG_LOG_WARN,
             json_sprintf("%s: the last line (%d) is cut, and left out: the run was "
                          "stopped while it was written.",
                          at->path, (int)at->line));
        return TG_OK;
    }
    if (!at->any && is_trace(line, len)) {
        json_decref(record);
        return tg_fail(TG_E_CORRUPT,
                       "%s is a trace, and records of telegrad train --out are needed; draw a "
                       "trace with telegrad report --timeline %s -o timeline.svg",
                       at->path, at->path);
    }
    if (!at->any && !record && json_error_code(&error) == json_error_premature_end_of_input)
        return tg_fail(TG_E_CORRUPT,
                       "%s holds no run: its %s line is cut off: allowed: the records of telegrad "
                       "train --out or telegrad serve --out",
                       at->path, at->line == 1 ? "only" : "last");
    if (!json_is_object(record)) {
        tg_status status = tg_fail(
            TG_E_CORRUPT,
            "%s:%zu: %s: allowed: the records of telegrad train --out or telegrad serve --out",
            at->path, at->line, record ? "no JSON object" : error.text);
        json_decref(record);
        return status;
    }
    tg_status status = add_record(at, record);
    json_decref(record);
    return status;
}

static tg_status add_lines(place *at, lines *l)
{
    for (;;) {
        const char *line;
        size_t len;
        bool whole;
        TG_TRY(lines_next(l, &line, &len, &whole));
        if (!line)
            return at->any ? TG_OK
                           : tg_fail(TG_E_CORRUPT,
                                     "%s holds no run: it has no records: allowed: the records of "
                                     "telegrad train --out",
                                     at->path);
        at->line = lines_number(l);
        if (len > 0)
            TG_TRY(add_line(at, line, len, whole));
    }
}

/* The time of the start tells runs of the same settings apart. */
static bool is_same(const run_file_run *a, const run_file_run *b)
{
    return json_object_get(a->start, "time") && json_equal(a->start, b->start) &&
           (a->end == b->end || json_equal(a->end, b->end));
}

/* Refuse a run from `first` on that an earlier file holds, too. */
static tg_status check_again(const run_files *f, size_t first)
{
    for (size_t i = first; i < f->count; i++)
        for (size_t k = 0; k < first; k++)
            if (is_same(&f->runs[k], &f->runs[i]))
                return tg_fail(TG_E_SPEC, "%s holds a run that %s holds, too: give one of them",
                               f->runs[i].path, f->runs[k].path);
    return TG_OK;
}

tg_status run_files_add(run_files *f, const char *path)
{
    lines *l;
    const size_t before = f->count;
    place at = {.files = f, .path = strcmp(path, "-") == 0 ? "standard input" : path};
    TG_TRY(lines_open(path, &l));
    tg_status status = add_lines(&at, l);
    lines_close(l);
    if (status == TG_OK && f->count > 0 && f->servers.count > 0)
        return tg_fail(TG_E_SPEC,
                       "%s: records of servers and of runs: make a page of each kind: allowed: "
                       "files of telegrad serve --out, or of telegrad train --out",
                       at.path);
    return status == TG_OK ? check_again(f, before) : status;
}

void run_files_free(run_files *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->runs[i].name);
        json_decref(f->runs[i].start);
        json_decref(f->runs[i].end);
        json_decref(f->runs[i].waits);
        free(f->runs[i].steps.v);
        free(f->runs[i].epochs.v);
    }
    server_files_free(&f->servers);
    free(f->runs);
    json_decref(f->notes);
    *f = (run_files){0};
}

tg_status run_files_draw(char *const *paths, size_t count, run_files_drawing *draw,
                         const char *title, FILE *out)
{
    run_files files = {0};
    tg_status status = TG_OK;
    for (size_t i = 0; i < count && status == TG_OK; i++)
        status = run_files_add(&files, paths[i]);
    if (status == TG_OK)
        status = draw(&files, title, out);
    run_files_free(&files);
    return status;
}

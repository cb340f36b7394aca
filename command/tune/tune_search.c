/* Successive halving: all runs to a third of the search, the better half to its end, and the winner
 * at full length. Every training has a record once it is done, so an interrupted sweep continues
 * with the one that was cut off, from its last checkpoint.
 * Source  Jamieson and Talwalkar 2016, arXiv:1502.07943, with two rungs */
#include "command/tune/tune.h"
#include "command/output/console.h"
#include "command/output/format.h"
#include "command/output/stop.h"
#include "command/train/cli_run.h"
#include "telegrad/tools.h"
#include "telegrad/weights.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct search {
    struct tune *t;
    struct tune_folder *folder;
    train_data *all; /* without samples held out; NULL: not needed yet */
    int64_t begin_ns;
    double steps; /* since then, in this process */
};

/* ---- records --------------------------------------------------------------------------------- */

/* v as a record keeps it, so that a continued sweep ranks and prints the same numbers. */
static double recorded(double v)
{
    char text[40];
    snprintf(text, sizeof text, "%.10g", v);
    return isfinite(v) ? strtod(text, NULL) : (double)NAN;
}

static json_t *result_json(const struct tune_result *r)
{
    return json_pack("{s:o, s:o, s:b, s:o}", "accuracy", jsonl_real(r->accuracy), "loss",
                     jsonl_real(r->loss), "diverged", (int)r->diverged, "params_hash",
                     json_sprintf("%016" PRIx64, r->hash));
}

static bool read_result(const json_t *record, struct tune_result *r_p)
{
    const json_t *accuracy = json_object_get(record, "accuracy");
    const json_t *loss = json_object_get(record, "loss");
    const json_t *diverged = json_object_get(record, "diverged");
    const char *hash = json_string_value(json_object_get(record, "params_hash"));
    if (!accuracy || !loss || !json_is_boolean(diverged) || !hash)
        return false;
    *r_p = (struct tune_result){
        .known = true,
        .accuracy = json_is_number(accuracy) ? json_number_value(accuracy) : (double)NAN,
        .loss = json_is_number(loss) ? json_number_value(loss) : (double)NAN,
        .diverged = json_is_true(diverged),
        .hash = strtoull(hash, NULL, 16)};
    return true;
}

/* Where the result of a record belongs; NULL: nowhere. */
static struct tune_result *place_of(struct tune *t, const json_t *record)
{
    const char *type = json_string_value(json_object_get(record, "type"));
    const json_int_t run = json_integer_value(json_object_get(record, "run"));
    const json_int_t rung = json_integer_value(json_object_get(record, "rung"));
    const json_int_t nth = json_integer_value(json_object_get(record, "nth"));
    if (strcmp(type, "rung") == 0 && run >= 1 && (size_t)run <= t->runs && rung >= 1 &&
        rung <= TUNE_RUNGS)
        return &t->run[run - 1].result[rung - 1];
    if (strcmp(type, "final") == 0 && nth >= 1 && nth <= TUNE_SEEDS)
        return &t->final[nth - 1];
    return NULL;
}

static tg_status take_past(struct tune *t, const json_t *past)
{
    size_t i;
    const json_t *record;
    json_array_foreach(past, i, record)
    {
        struct tune_result *place = place_of(t, record);
        if (!place || !read_result(record, place))
            return tg_fail(TG_E_CORRUPT, "--out %s: tune.jsonl:%zu: not a record of this sweep",
                           t->o->dir, i + 2);
    }
    return TG_OK;
}

/* Add the members of a result to the record, which is taken over. */
static tg_status add_record(struct search *s, json_t *record, const struct tune_result *r)
{
    json_t *more = result_json(r);
    if (!record || !more || json_object_update(record, more) != 0) {
        json_decref(record);
        record = NULL;
    }
    json_decref(more);
    return tune_folder_add(s->folder, record);
}

/* ---- one training ---------------------------------------------------------------------------- */

static bool has_checkpoint(const char *dir)
{
    tg_weights *w;
    if (tg_weights_open_saved(dir, &w) != TG_OK)
        return false;
    tg_weights_close(w);
    return true;
}

/* Train, with records. Errors those of run_job and of the records */
static tg_status train(const struct run_about *about, const char *title,
                       struct run_result *result_p)
{
    const struct run_options *o = about->options;
    struct records *records;
    char why[1024];
    TG_TRY(records_open(o->out, o->resume_dir != NULL, &records));
    tg_status status = run_job(about, title, records, NULL, result_p);
    if (status == TG_OK)
        status = run_result_written(result_p);
    if (status == TG_OK)
        return records_commit(records);
    snprintf(why, sizeof why, "%s", tg_error());
    if (status == TG_E_NONFINITE && records_status(records) == TG_OK &&
        records_failed(records, why) != TG_OK)
        snprintf(why, sizeof why, "%s", tg_error());
    records_abandon(records);
    return tg_fail(status, "%s", why);
}

static const char *reason(const verdict *v)
{
    size_t i = 0;
    while (i < v->count && !v->remark[i].fails)
        i++;
    return i < v->count ? v->remark[i].text : "its loss is not finite";
}

/* Train a run as far as its options say, from its last checkpoint if it has one.
 * name  of its files. Sets t->interrupted; otherwise *r_p is known, unless this fails */
static tg_status do_one(struct search *s, struct run_about *about, struct run_options *o,
                        const char *name, const char *title, struct tune_result *r_p)
{
    struct tune *t = s->t;
    char records[PATH_MAX], checkpoint[PATH_MAX];
    struct run_result result;
    TG_TRY(tune_path_records(t->o->dir, name, records));
    TG_TRY(tune_path_checkpoint(t->o->dir, name, checkpoint));
    o->out = records;
    o->save_dir = checkpoint;
    o->resume_dir = has_checkpoint(checkpoint) ? checkpoint : NULL;
    if (o->resume_dir)
        o->settled.notes = 0; /* they have been said */
    about->options = o;
    tg_status status = train(about, title, &result);
    if (status == TG_E_STOPPED) {
        t->interrupted = true;
        return TG_OK;
    }
    if (status == TG_E_NONFINITE) {
        console_warning("%s: diverged: %s", title, tg_error());
        *r_p = (struct tune_result){.known = true, .accuracy = NAN, .loss = NAN, .diverged = true};
        return TG_OK;
    }
    if (status != TG_OK)
        return tg_fail(status, "%s: %s", title, tg_error());
    if (result.end.unsaved[0]) {
        status = tg_fail(TG_E_IO, "%s: %s", title, result.end.unsaved);
        run_result_free(&result);
        return status;
    }
    t->interrupted = result.end.interrupted;
    *r_p = (struct tune_result){.known = !t->interrupted,
                                .accuracy = recorded(result.end.test_accuracy),
                                .loss = recorded(result.end.test_loss),
                                .hash = result.end.params_hash};
    r_p->diverged = result.verdict.failed || !isfinite(r_p->loss);
    if (r_p->known && r_p->diverged)
        console_warning("%s: diverged: %s", title, reason(&result.verdict));
    s->steps += (double)(result.end.steps - result.first_step);
    run_result_free(&result);
    return TG_OK;
}

/* ---- how far it is --------------------------------------------------------------------------- */

static size_t going_on(const struct tune *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->runs; i++)
        n += t->run[i].goes_on;
    return n > 0 ? n : (t->runs + 1) / 2; /* not known yet */
}

void tune_count(const struct tune *t, size_t *done_p, size_t *all_p)
{
    *done_p = 0;
    *all_p = t->runs + going_on(t) + (size_t)t->o->seeds;
    for (size_t i = 0; i < t->runs; i++)
        *done_p += (size_t)tune_reached(&t->run[i]);
    for (size_t i = 0; i < t->o->seeds; i++)
        *done_p += t->final[i].known;
}

/* Steps that are left, with runs of mean length for those that are not known yet. */
static double steps_left(const struct tune *t)
{
    double first = 0, whole = 0, all = 0;
    size_t known = 0, finals = 0;
    for (size_t i = 0; i < t->runs; i++) {
        const struct tune_run *run = &t->run[i];
        first += run->result[0].known ? 0 : (double)run->at[0];
        all += (double)(run->at[1] - run->at[0]);
        whole += (double)run->at[1];
        known += run->result[1].known;
    }
    const double second = all / (double)t->runs * ((double)going_on(t) - (double)known);
    for (size_t i = 0; i < t->o->seeds; i++)
        finals += t->final[i].known;
    return first + fmax(second, 0) +
           TUNE_SHARE * whole / (double)t->runs * (double)(t->o->seeds - finals);
}

static void tell_progress(const struct search *s)
{
    size_t done, all;
    const double seconds = (double)(tg_now_ns(tg_clock_monotonic()) - s->begin_ns) / 1e9;
    tune_count(s->t, &done, &all);
    if (s->steps > 0 && done < all)
        console_remark("%zu of %zu runs done, about %s left", done, all,
                       format_seconds(steps_left(s->t) * seconds / s->steps).text);
}

static void make_title(const struct search *s, const char *name, const char *more,
                       char title[TUNE_NAME])
{
    size_t done, all;
    tune_count(s->t, &done, &all);
    snprintf(title, TUNE_NAME, "%zu/%zu %.200s%s", done + 1, all, name, more);
}

/* ---- the rungs ------------------------------------------------------------------------------- */

static tg_status judge(struct search *s, size_t i, int rung)
{
    struct tune_run *run = &s->t->run[i];
    struct tune_result *r = &run->result[rung];
    struct run_options o = run->options;
    struct run_about about = {.launch = s->t->launch, .data = s->t->held, .trial = true};
    char title[TUNE_NAME], name[32];
    tune_run_file(i, name);
    make_title(s, run->name, "", title);
    o.steps = run->at[TUNE_RUNGS - 1];
    o.until = run->at[rung];
    o.save_every = run->epoch;
    TG_TRY(do_one(s, &about, &o, name, title, r));
    if (s->t->interrupted)
        return TG_OK;
    TG_TRY(add_record(s,
                      json_pack("{s:s, s:I, s:s, s:i, s:I}", "type", "rung", "run",
                                (json_int_t)i + 1, "values", run->name, "rung", rung + 1, "step",
                                (json_int_t)run->at[rung]),
                      r));
    tell_progress(s);
    return TG_OK;
}

static tg_status climb(struct search *s, int rung)
{
    struct tune *t = s->t;
    for (size_t i = 0; i < t->runs && !t->interrupted; i++)
        if (!t->run[i].result[rung].known && (rung == 0 || t->run[i].goes_on))
            TG_TRY(judge(s, i, rung));
    return TG_OK;
}

/* Remove the checkpoints of the runs that go no further. */
static void forget(const struct tune *t, bool all)
{
    char name[32];
    for (size_t i = 0; i < t->runs; i++) {
        tune_run_file(i, name);
        if (all || !t->run[i].goes_on)
            tune_forget(t->o->dir, name);
    }
}

/* ---- the winner ------------------------------------------------------------------------------ */

static tg_status train_winner(struct search *s, uint64_t nth)
{
    struct tune *t = s->t;
    const struct tune_run *run = &t->run[t->order[0]];
    struct run_options o = run->options;
    struct run_about about = {.launch = t->launch};
    char title[TUNE_NAME], name[32], more[48];
    o.seed += nth;
    o.holdout = 0;
    o.save_every = run->epoch;
    o.settled.notes = 0; /* said by the search */
    snprintf(name, sizeof name, "winner-seed-%" PRIu64, o.seed);
    snprintf(more, sizeof more, ", seed %" PRIu64, o.seed);
    make_title(s, run->name, more, title);
    if (!s->all)
        TG_TRY(run_open_data(&o, &s->all));
    about.data = s->all;
    TG_TRY(do_one(s, &about, &o, name, title, &t->final[nth]));
    if (t->interrupted)
        return TG_OK;
    TG_TRY(add_record(s,
                      json_pack("{s:s, s:I, s:I}", "type", "final", "nth", (json_int_t)nth + 1,
                                "seed", (json_int_t)o.seed),
                      &t->final[nth]));
    tell_progress(s);
    return TG_OK;
}

static tg_status nothing_left(const struct tune *t, const char *which, size_t count)
{
    return tg_fail(
        TG_E_NONFINITE,
        "all %zu runs %sdiverged: lower rates would help; their records are in %.200s/runs", count,
        which, t->o->dir);
}

static tg_status search(struct search *s)
{
    struct tune *t = s->t;
    TG_TRY(climb(s, 0));
    if (t->interrupted)
        return TG_OK;
    const size_t going = tune_halve(t);
    if (going == 0)
        return nothing_left(t, "", t->runs);
    forget(t, false);
    TG_TRY(climb(s, 1));
    if (t->interrupted)
        return TG_OK;
    tune_sort(t);
    if (tune_reached(&t->run[t->order[0]]) < TUNE_RUNGS)
        return nothing_left(t, "that went on ", going);
    forget(t, true);
    for (uint64_t i = 0; i < t->o->seeds && !t->interrupted; i++)
        if (!t->final[i].known)
            TG_TRY(train_winner(s, i));
    return TG_OK;
}

tg_status tune_search(struct tune *t, struct tune_folder *f, const json_t *past)
{
    struct search s = {.t = t, .folder = f, .begin_ns = tg_now_ns(tg_clock_monotonic())};
    TG_TRY(take_past(t, past));
    const tg_status status = search(&s);
    train_data_close(s.all);
    return status;
}

#include "command/train/records.h"
#include "command/train/data_text.h"
#include "command/output/console.h"
#include "command/output/outfile.h"
#include "command/output/output.h"
#include "command/train/run_notes.h"
#include "command/train/save_folder.h"
#include "command/job/step_times.h"
#include "command/train/window.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct records {
    tg_newfile *file; /* opened for the first record; NULL: standard output */
    const char *path;
    bool to_stdout;
    const char *save_dir; /* of the current run, or NULL */
    bool append;
    char *run; /* name of the current run, or NULL */
    uint64_t log_every, last_step;
    bool tokens;      /* the loss is per token */
    tg_status status; /* status of the first record that failed */
    const char *clock;
    bool sim_only; /* a simulation, without parameters */
    struct window window;
    uint64_t clipped; /* clipped steps since the last record */
};

/* ---- the file -------------------------------------------------------------------------------- */

static void release(struct records *r)
{
    free(r->run);
    free(r);
}

tg_status records_open(const char *path, bool append, struct records **r_p)
{
    const bool to_stdout = outfile_is_stdout(path);
    if (!to_stdout)
        TG_TRY(outfile_check_growing("--out", path));
    struct records *r = calloc(1, sizeof *r);
    if (!r)
        return tg_fail(TG_E_NOMEM, "out of memory: records");
    r->path = path;
    r->to_stdout = to_stdout;
    r->append = append;
    *r_p = r;
    return TG_OK;
}

tg_status records_commit(struct records *r)
{
    if (!r)
        return TG_OK;
    tg_status status = r->file ? outfile_commit(r->file, "--out") : TG_OK;
    release(r);
    return status;
}

void records_abandon(struct records *r)
{
    if (!r)
        return;
    outfile_abandon(r->file);
    release(r);
}

tg_status records_status(const struct records *r)
{
    return r ? r->status : TG_OK;
}

static tg_status put(struct records *r, const json_t *record)
{
    if (r->to_stdout) {
        console_status(""); /* both may be the same terminal */
        return jsonl_print(record);
    }
    if (!r->file)
        TG_TRY(outfile_open_growing("--out", r->path, r->append, &r->file));
    return jsonl_write(record, tg_newfile_stream(r->file), tg_newfile_path(r->file));
}

tg_status records_add(struct records *r, json_t *record)
{
    const tg_status status = r ? put(r, record) : TG_OK;
    json_decref(record);
    if (r && r->status == TG_OK)
        r->status = status;
    return status;
}

/* ---- the records ----------------------------------------------------------------------------- */

static json_t *hex64(uint64_t v)
{
    return json_sprintf("%016" PRIx64, v);
}

static json_t *integer(uint64_t v)
{
    return json_integer((json_int_t)v);
}

/* Start an object with the members type and run. */
static json_t *begin(const struct records *r, const char *type)
{
    json_t *record = json_pack("{s:s}", "type", type);
    if (record && r->run && json_object_set_new(record, "run", jsonl_text(r->run)) != 0) {
        json_decref(record);
        record = NULL;
    }
    return record;
}

/* Add the members of `more`, which is taken over. Returns NULL if either argument is NULL. */
static json_t *join(json_t *record, json_t *more)
{
    if (!record || !more || json_object_update(record, more) != 0) {
        json_decref(record);
        record = NULL;
    }
    json_decref(more);
    return record;
}

static json_t *time_now(void)
{
    char text[32];
    time_t now = time(NULL);
    struct tm utc;
    gmtime_r(&now, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_string(text);
}

static json_t *faults(const struct run_options *o)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < o->fault_count; i++) {
        json_t *fault = json_sprintf("%d=%s", (int)o->faults[i].rank, o->faults[i].spec);
        if (json_array_append_new(list, fault) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* Computing time of a step. */
static double tau_ms(const train_times *times)
{
    double ns = 0;
    for (size_t i = 0; i < 3 * times->layers; i++)
        ns += (double)times->layer_ns[i];
    return ns / 1e6;
}

static json_t *links_of(const struct run_options *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < o->links_of_count; i++)
        json_array_append_new(list,
                              json_sprintf("%d=%s", (int)o->links_of[i].rank,
                                           o->links_of[i].link ? o->links_of[i].link : "none"));
    return list;
}

static json_t *slow(const struct run_options *o)
{
    json_t *list = json_array();
    for (size_t i = 0; i < o->slow_count; i++) {
        const train_slow *s = &o->slow[i];
        const bool always = s->from == 1 && s->to == UINT64_MAX;
        json_array_append_new(list, always ? json_sprintf("%d:%gx", s->rank, s->times)
                                           : json_sprintf("%d:%gx@%" PRIu64 "-%" PRIu64, s->rank,
                                                          s->times, s->from, s->to));
    }
    return list;
}

static const char *clock_name(const struct run_options *o)
{
    return o->virtual_clock ? "virtual" : "real";
}

/* Which clock the times come from. */
static json_t *about_clock(const struct run_options *o, const train_start_info *info)
{
    return json_pack(
        "{s:s, s:b, s:o, s:o, s:o, s:o, s:f, s:o}",                                       /**/
        "clock", clock_name(o), "sim_only", (int)o->sim_only, "links_of", links_of(o),    /**/
        "tau", o->virtual_clock ? jsonl_text(o->tau ? o->tau : "measured") : json_null(), /**/
        "times", step_times_record(info->times), "slow", slow(o), "jitter", o->jitter, "tau_ms",
        info->times ? jsonl_real(tau_ms(info->times)) : json_null());
}

/* The machine, the program and the data. */
static json_t *about_surroundings(const struct run_about *a)
{
    if (!a->data) /* a simulation */
        return json_pack("{s:s, s:s, s:o, s:o}", "version", tg_version(), "cpu", tg_cpu_level(),
                         "time", time_now(), "data_spec", jsonl_text(a->options->data));
    return json_pack("{s:s, s:s, s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:s}",     /**/
                     "version", tg_version(), "cpu", tg_cpu_level(), "time", time_now(), /**/
                     "host_threads", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN),          /**/
                     "data", jsonl_text(train_data_name(a->data)),                       /**/
                     "data_spec", jsonl_text(a->options->data),                          /**/
                     "data_origin", jsonl_text(train_data_origin(a->data)),              /**/
                     "data_hash", hex64(train_data_hash(a->data)),                       /**/
                     "train_samples", (json_int_t)train_data_train(a->data),             /**/
                     "test_samples", (json_int_t)train_data_test(a->data),               /**/
                     "holdout", (json_int_t)a->options->holdout,                         /**/
                     "transport", launch_transport_name(a->launch));
}

/* Training images by rank and class; null if all ranks draw from all of them, and for text. */
static json_t *shards(const struct run_about *a, const train_start_info *info)
{
    const size_t world = (size_t)info->world, classes = train_data_classes(a->data);
    if (train_data_unit(a->data) != TRAIN_IMAGES || strcmp(info->shard, "iid") == 0)
        return json_null();
    uint64_t *counts = calloc(world * classes, sizeof *counts);
    json_t *all = NULL;
    if (counts && train_data_shards(a->data, a->options->shard, a->options->seed, info->world,
                                    counts) == TG_OK)
        all = jsonl_counts(counts, world, classes);
    free(counts);
    return all;
}

static json_t *about_samples(const struct run_about *a, const train_start_info *info)
{
    if (!a->data)
        return json_pack("{s:I, s:s}", "context", (json_int_t)info->context, "shard", info->shard);
    return json_pack("{s:s, s:I, s:I, s:s, s:o}",                                /**/
                     "data_unit", data_text_unit(train_data_unit(a->data)),      /**/
                     "data_classes", (json_int_t)train_data_classes(a->data),    /**/
                     "context", (json_int_t)info->context, "shard", info->shard, /**/
                     "shards", shards(a, info));
}

json_t *records_rules(const struct run_options *o)
{
    json_t *rules = json_array();
    for (size_t i = 0; i < o->rule_count; i++)
        json_array_append_new(rules, jsonl_text(o->rules[i]));
    return rules;
}

/* The settings that were asked for. */
static json_t *about_settings(const struct run_options *o, const train_start_info *info)
{
    return json_pack("{s:o, s:s, s:o, s:s, s:s, s:s, s:o, s:i, s:i, s:I, s:I, s:I, s:o}",     /**/
                     "model", jsonl_text(o->model), "method", info->method,                   /**/
                     "rules", records_rules(o),                                               /**/
                     "strategy", info->strategy, "optimizer", info->optimizer, "lr_schedule", /**/
                     info->lr_schedule, "link", jsonl_text(o->link), "world", info->world,    /**/
                     "workers", info->world, "batch", (json_int_t)o->batch,                   /**/
                     "epochs", (json_int_t)o->epochs, "log_every", (json_int_t)o->log_every,  /**/
                     "seed", integer(o->seed));
}

static json_t *fusion(const struct run_options *o)
{
    return o->fusion == 0                 ? json_null()
           : o->fusion == OPT_FUSION_AUTO ? json_string("auto")
                                          : json_integer((json_int_t)o->fusion);
}

static json_t *nodes(const struct run_options *o)
{
    return o->nodes == 0                ? json_null()
           : o->nodes == OPT_NODES_AUTO ? json_string("auto")
                                        : json_integer((json_int_t)o->nodes);
}

static json_t *known(uint64_t number)
{
    return number == 0 ? json_null() : json_integer((json_int_t)number);
}

static json_t *about_run(const struct run_options *o, const train_start_info *info)
{
    return json_pack(
        "{s:s, s:I, s:s, s:I, s:o, s:I, s:o, s:o, s:I, s:I, s:f, s:s, s:s, s:o, s:o, s:I, s:b}",
        /**/
        "lr_scale", train_lr_scale_names[o->lr_scale],                               /**/
        "accumulate", (json_int_t)o->accumulate,                                     /**/
        "precision", train_precision_names[o->precision],                            /**/
        "steps", (json_int_t)info->steps,                                            /**/
        "steps_per_epoch", known(info->steps_per_epoch),                             /**/
        "first_step", (json_int_t)info->first_step,                                  /**/
        "resumed_workers", known((uint64_t)info->resumed),                           /**/
        "started_anew", jsonl_text(info->anew && info->anew[0] ? info->anew : NULL), /**/
        "params", (json_int_t)info->params, "tensors", (json_int_t)info->tensors,    /**/
        "timeout", options_timeout(o), "driver", options_driver_name(o->driver),     /**/
        "overlap", options_overlap_name(o->overlap),                                 /**/
        "fusion", fusion(o), "nodes", nodes(o),                                      /**/
        "codec_threads", (json_int_t)o->codec_threads,                               /**/
        "evaluate", (int)o->evaluate);
}

static json_t *about_files(const struct run_options *o)
{
    return json_pack("{s:o, s:o, s:I, s:o, s:o, s:o, s:I, s:o, s:o}",            /**/
                     "out", jsonl_text(o->out), "save", jsonl_text(o->save_dir), /**/
                     "save_every", (json_int_t)o->save_every,                    /**/
                     "resume", jsonl_text(o->resume_dir), "init", jsonl_text(o->init),
                     "dump_gradients", /**/
                     jsonl_text(o->dump_gradients), "dump_every", (json_int_t)o->dump_every,
                     "trace", jsonl_text(o->trace), "faults", faults(o));
}

tg_status records_start(struct records *r, const struct run_about *about,
                        const train_start_info *info)
{
    if (!r)
        return TG_OK;
    free(r->run);
    r->run = about->name ? strdup(about->name) : NULL;
    if (about->name && !r->run)
        return tg_fail(TG_E_NOMEM, "out of memory: name of a run");
    r->log_every = about->options->log_every;
    r->last_step = info->steps;
    r->tokens = info->context > 0;
    window_clear(&r->window);
    r->clipped = 0;
    r->clock = clock_name(about->options);
    r->sim_only = about->options->sim_only;
    r->save_dir = about->options->save_dir;
    json_t *record = begin(r, "start");
    record = join(record, about_settings(about->options, info));
    record = join(record, about_run(about->options, info));
    record = join(record, json_pack("{s:o}", "note", run_notes_record(about->options)));
    record = join(record, about_clock(about->options, info));
    record = join(record, about_files(about->options));
    record = join(record, about_surroundings(about));
    record = join(record, about_samples(about, info));
    return records_add(r, record);
}

static json_t *step_times(const struct window *w)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}",                        /**/
                     "compute_ms", jsonl_real(window_median(w, WINDOW_COMPUTE)),   /**/
                     "encode_ms", jsonl_real(window_median(w, WINDOW_ENCODE)),     /**/
                     "exchange_ms", jsonl_real(window_median(w, WINDOW_EXCHANGE)), /**/
                     "decode_ms", jsonl_real(window_median(w, WINDOW_DECODE)),     /**/
                     "apply_ms", jsonl_real(window_median(w, WINDOW_APPLY)),       /**/
                     "wait_ms", jsonl_real(window_median(w, WINDOW_WAIT)),         /**/
                     "step_ms", jsonl_real(window_median(w, WINDOW_STEP)));
}

static double per(double part, uint64_t whole)
{
    return part / (double)whole; /* 0 / 0 is NAN, which is written as null */
}

/* The exchanges delivered in this step, by method. */
static json_t *step_methods(const tg_step_info *tg)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < tg->nmethods; i++) {
        const tg_method_info *m = tg->methods[i];
        double ratio = tg->want_residual_norm && m->norm > 0 ? m->residual_norm / m->norm : NAN;
        json_t *one =
            json_pack("{s:s, s:I, s:I, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", /**/
                      "method", m->method, "n", (json_int_t)m->n, "kept", (json_int_t)m->kept,
                      "density_kept", jsonl_real(per((double)m->kept, m->n)), /**/
                      "bytes", (json_int_t)m->bytes, "bytes_sent", (json_int_t)m->bytes_sent,
                      "fell_back", (json_int_t)m->fell_back, "norm", jsonl_real(m->norm),
                      "residual_ratio", jsonl_real(ratio), /**/
                      "encode_ns_element", jsonl_real(per((double)m->encode_ns, m->n)),
                      "decode_ns_element", jsonl_real(per((double)m->decode_ns, m->n)));
        if (json_array_append_new(list, one) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    return list;
}

/* The results of encoding: over all methods, then by method. */
static json_t *step_coding(const tg_step_info *tg)
{
    double ratio = tg->want_residual_norm && tg->grad_norm > 0 ? tg->residual_norm / tg->grad_norm
                                                               : (double)NAN;
    return json_pack("{s:o, s:o, s:o, s:I, s:o}",                                      /**/
                     "density_kept", jsonl_real(per((double)tg->kept, tg->elements)),  /**/
                     "residual_ratio", jsonl_real(ratio),                              /**/
                     "mean_norm", jsonl_real(tg->mean_norm > 0 ? tg->mean_norm : NAN), /**/
                     "fell_back", (json_int_t)tg->fell_back, "methods", step_methods(tg));
}

tg_status records_step(struct records *r, const train_step_info *info)
{
    if (!r)
        return TG_OK;
    window_add(&r->window, info);
    r->clipped += info->tg.clipped;
    bool due = info->step % r->log_every == 0 || info->step == r->last_step || info->tg.stop;
    if (!due)
        return TG_OK;
    const tg_step_info *tg = &info->tg;
    json_t *record = json_pack(
        "{s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:I, s:b, s:b, s:I, s:o}",      /**/
        "step", (json_int_t)info->step, "epoch", (json_int_t)info->epoch,                   /**/
        "loss", jsonl_real(info->loss), "lr", jsonl_real(info->lr),                         /**/
        "density", jsonl_real(tg->density), "bytes_sent", (json_int_t)tg->bytes_sent,       /**/
        "bytes_near", (json_int_t)tg->bytes_near,                                           /**/
        "bytes_dense", (json_int_t)tg->bytes_dense,                                         /**/
        "residual_norm", jsonl_real(tg->want_residual_norm ? tg->residual_norm : NAN),      /**/
        "grad_norm", jsonl_real(tg->grad_norm), "coded_bytes", (json_int_t)tg->coded_bytes, /**/
        "coded", (int)tg->coded, "skipped", (int)tg->skipped,                               /**/
        "clipped", (json_int_t)r->clipped,                                                  /**/
        "seconds", jsonl_real(info->seconds));
    record = join(begin(r, "step"), record);
    record = join(record, step_coding(tg));
    record = join(record, step_times(&r->window));
    window_clear(&r->window);
    r->clipped = 0;
    return records_add(r, record);
}

/* seconds (count), or null for NULL. NULL: out of memory */
static json_t *by_rank_json(const double *seconds, int count)
{
    json_t *list = seconds ? json_array() : json_null();
    for (int i = 0; list && seconds && i < count; i++)
        if (json_array_append_new(list, jsonl_real(seconds[i])) != 0) {
            json_decref(list);
            list = NULL;
        }
    return list;
}

static json_t *waits(const double *for_rank, const double *by_rank, int world)
{
    return json_pack("{s:o, s:o}", "waited_for_s", by_rank_json(for_rank, world), /**/
                     "waited_by_s", by_rank_json(by_rank, world));
}

tg_status records_epoch(struct records *r, const train_epoch_info *info)
{
    if (!r)
        return TG_OK;
    json_t *record =
        json_pack("{s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:I}",                       /**/
                  "epoch", (json_int_t)info->epoch, "step", (json_int_t)info->step, /**/
                  "train_loss", jsonl_real(info->train_loss),                       /**/
                  "test_accuracy", jsonl_real(info->test_accuracy),                 /**/
                  "test_loss", jsonl_real(info->test_loss),                         /**/
                  "perplexity", jsonl_perplexity(r->tokens, info->test_loss),       /**/
                  "seconds", jsonl_real(info->seconds),                             /**/
                  "bytes_sent", (json_int_t)info->bytes_sent);
    record = join(record, waits(info->waits.for_rank, info->waits.by_rank, info->waits.world));
    return records_add(r, join(begin(r, "epoch"), record));
}

static json_t *end_quality(const struct records *r, const struct run_result *result)
{
    const bool tokens = r->tokens;
    const train_end_info *end = &result->end;
    return json_pack("{s:s, s:s, s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:b}", /**/
                     "method", result->method, "strategy", result->strategy, "world",
                     end->world,                                                         /**/
                     "steps", (json_int_t)end->steps, "epochs", (json_int_t)end->epochs, /**/
                     "test_accuracy", jsonl_real(end->test_accuracy),                    /**/
                     "test_loss", jsonl_real(end->test_loss),                            /**/
                     "perplexity", jsonl_perplexity(tokens, end->test_loss),             /**/
                     "train_loss", jsonl_real(end->train_loss),                          /**/
                     "skipped_nonfinite", (json_int_t)end->skipped_nonfinite,            /**/
                     "clipped", (json_int_t)end->clipped,                                /**/
                     "params_hash", r->sim_only ? json_null() : hex64(end->params_hash),
                     "interrupted", (int)end->interrupted);
}

static json_t *end_cost(const struct run_result *result)
{
    const train_end_info *end = &result->end;
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:o, s:o, s:o}", /**/
                     "seconds", jsonl_real(end->seconds),                                 /**/
                     "step_ms_median", jsonl_real(end->step_ms_median),                   /**/
                     "compute_ms_median", jsonl_real(end->compute_ms_median),             /**/
                     "step_coded_ms_median", jsonl_real(end->step_coded_ms_median),       /**/
                     "exchange_ms_median", jsonl_real(end->exchange_ms_median),           /**/
                     "density_kept", jsonl_real(end->kept),                               /**/
                     "encode_ns_element", jsonl_real(end->encode_ns_element),             /**/
                     "decode_ns_element", jsonl_real(end->decode_ns_element),             /**/
                     "bytes_sent", (json_int_t)end->bytes_sent,                           /**/
                     "bytes_near", (json_int_t)end->bytes_near,                           /**/
                     "bytes_per_step", jsonl_real(end->bytes_per_step),                   /**/
                     "ratio", jsonl_real(end->ratio),                                     /**/
                     "ratio_wire", jsonl_real(end->ratio_wire));
}

tg_status records_failed(struct records *r, const char *why)
{
    return r ? records_add(r,
                           join(begin(r, "failed"), json_pack("{s:o}", "error", jsonl_text(why))))
             : TG_OK;
}

static json_t *end_means(const train_end_info *end)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}",                 /**/
                     "step_ms_mean", jsonl_real(end->step_ms_mean),         /**/
                     "compute_ms_mean", jsonl_real(end->compute_ms_mean),   /**/
                     "encode_ms_mean", jsonl_real(end->encode_ms_mean),     /**/
                     "exchange_ms_mean", jsonl_real(end->exchange_ms_mean), /**/
                     "decode_ms_mean", jsonl_real(end->decode_ms_mean),     /**/
                     "apply_ms_mean", jsonl_real(end->apply_ms_mean),       /**/
                     "wait_ms_mean", jsonl_real(end->wait_ms_mean));
}

/* The final checkpoint; null: none. */
static json_t *saved(const struct records *r, const struct run_result *result)
{
    char path[PATH_MAX];
    if (!r->save_dir)
        return json_null();
    save_folder_checkpoint(r->save_dir, result->end.steps, path);
    return jsonl_text(path);
}

tg_status records_end(struct records *r, const struct run_result *result)
{
    if (!r)
        return TG_OK;
    json_t *record = join(begin(r, "end"), end_quality(r, result));
    record = join(record, end_cost(result));
    record = join(record, end_means(&result->end));
    record = join(record, waits(result->waited_for, result->waited_by, result->end.world));
    record = join(record, json_pack("{s:s, s:o, s:b, s:o}", "clock", r->clock, "remarks",
                                    verdict_json(&result->verdict), "diverged",
                                    (int)result->verdict.failed, "saved", saved(r, result)));
    return records_add(r, record);
}

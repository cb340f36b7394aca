/* The start record: the settings of a run, and its machine, program and data. */
#include "command/train/records_impl.h"
#include "command/job/step_times.h"
#include "command/train/data_text.h"
#include "command/train/run_notes.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static json_t *integer(uint64_t v)
{
    return json_integer((json_int_t)v);
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
                     "data_hash", records_hex64(train_data_hash(a->data)),               /**/
                     "train_samples", (json_int_t)train_data_train(a->data),             /**/
                     "test_samples", (json_int_t)train_data_test(a->data),               /**/
                     "holdout", (json_int_t)a->options->holdout,                         /**/
                     "transport", a->launch->transport->name);
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
           : o->fusion == OPT_FUSION_LAGS ? json_string("lags")
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
        "{s:s, s:I, s:s, s:I, s:o, s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:f, s:s, s:s, s:o, s:o, "
        "s:I, s:b}",
        /**/
        "lr_scale", train_lr_scale_names[o->lr_scale],                               /**/
        "accumulate", (json_int_t)o->accumulate,                                     /**/
        "precision", train_precision_names[o->precision],                            /**/
        "steps", (json_int_t)info->steps,                                            /**/
        "steps_per_epoch", known(info->steps_per_epoch),                             /**/
        "first_step", (json_int_t)info->first_step,                                  /**/
        "first_epoch", (json_int_t)info->first_epoch,                                /**/
        "joined_step", info->joined ? integer(info->first_step) : json_null(),       /**/
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
    return json_pack("{s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:o, s:o}",       /**/
                     "out", jsonl_text(o->out), "save", jsonl_text(o->save_dir), /**/
                     "save_every", (json_int_t)o->save_every,                    /**/
                     "save_weights", jsonl_text(o->save_weights),                /**/
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
    r->last_step = info->until;
    r->tokens = info->context > 0;
    window_clear(&r->window);
    r->clipped = r->late = 0;
    r->clock = clock_name(about->options);
    r->sim_only = about->options->sim_only;
    r->save_dir = about->options->save_dir;
    json_t *record = records_begin(r, "start");
    record = records_join(record, about_settings(about->options, info));
    record = records_join(record, about_run(about->options, info));
    record = records_join(record, json_pack("{s:o}", "note", run_notes_record(about->options)));
    record = records_join(record, about_clock(about->options, info));
    record = records_join(record, about_files(about->options));
    record = records_join(record, about_surroundings(about));
    record = records_join(record, about_samples(about, info));
    return records_add(r, record);
}

/* The records of steps, of epochs, of the end and of a failure. */
#include "command/train/records_impl.h"
#include "command/train/save_folder.h"
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file -------------------------------------------------------------------------------- */

tg_status records_open(const char *path, bool append, struct records **r_p)
{
    struct records *r = calloc(1, sizeof *r);
    if (!r)
        return tg_fail(TG_E_NOMEM, "out of memory: records");
    const tg_status status = record_file_open(path, "start", "records of runs", append, &r->file);
    if (status == TG_OK)
        *r_p = r;
    else
        free(r);
    return status;
}

tg_status records_commit(struct records *r)
{
    if (!r)
        return TG_OK;
    const tg_status status = record_file_commit(r->file);
    free(r->run);
    free(r);
    return status;
}

void records_abandon(struct records *r)
{
    if (!r)
        return;
    record_file_abandon(r->file);
    free(r->run);
    free(r);
}

tg_status records_status(const struct records *r)
{
    return r ? record_file_status(r->file) : TG_OK;
}

tg_status records_add(struct records *r, json_t *record)
{
    return record_file_add(r ? r->file : NULL, record);
}

/* ---- parts of records ------------------------------------------------------------------------ */

json_t *records_hex64(uint64_t v)
{
    return json_sprintf("%016" PRIx64, v);
}

json_t *records_begin(const struct records *r, const char *type)
{
    json_t *record = json_pack("{s:s}", "type", type);
    if (record && r->run && json_object_set_new(record, "run", jsonl_text(r->run)) != 0) {
        json_decref(record);
        record = NULL;
    }
    return record;
}

json_t *records_join(json_t *record, json_t *more)
{
    if (!record || !more || json_object_update(record, more) != 0) {
        json_decref(record);
        record = NULL;
    }
    json_decref(more);
    return record;
}

/* ---- the records ----------------------------------------------------------------------------- */

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
    r->late += info->tg.late > 0;
    bool due = info->step % r->log_every == 0 || info->step == r->last_step || info->tg.stop;
    if (!due)
        return TG_OK;
    const tg_step_info *tg = &info->tg;
    json_t *record = json_pack(
        "{s:I, s:I, s:o, s:o, s:o, s:I, s:I, s:I, s:o, s:o, s:I, s:b, s:b, s:I, s:I, s:o}", /**/
        "step", (json_int_t)info->step, "epoch", (json_int_t)info->epoch,                   /**/
        "loss", jsonl_real(info->loss), "lr", jsonl_real(info->lr),                         /**/
        "density", jsonl_real(tg->density), "bytes_sent", (json_int_t)tg->bytes_sent,       /**/
        "bytes_near", (json_int_t)tg->bytes_near,                                           /**/
        "bytes_dense", (json_int_t)tg->bytes_dense,                                         /**/
        "residual_norm", jsonl_real(tg->want_residual_norm ? tg->residual_norm : NAN),      /**/
        "grad_norm", jsonl_real(tg->grad_norm), "coded_bytes", (json_int_t)tg->coded_bytes, /**/
        "coded", (int)tg->coded, "skipped", (int)tg->skipped,                               /**/
        "clipped", (json_int_t)r->clipped, "late", (json_int_t)r->late,                     /**/
        "seconds", jsonl_real(info->seconds));
    record = records_join(records_begin(r, "step"), record);
    record = records_join(record, step_coding(tg));
    record = records_join(record, step_times(&r->window));
    window_clear(&r->window);
    r->clipped = r->late = 0;
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
    record =
        records_join(record, waits(info->waits.for_rank, info->waits.by_rank, info->waits.world));
    return records_add(r, records_join(records_begin(r, "epoch"), record));
}

static json_t *end_quality(const struct records *r, const struct run_result *result)
{
    const bool tokens = r->tokens;
    const train_end_info *end = &result->end;
    return json_pack("{s:s, s:s, s:i, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:I, s:I, s:I, s:o, "
                     "s:b}",
                     "method", result->method, "strategy", result->strategy, "world",
                     end->world,                                                         /**/
                     "steps", (json_int_t)end->steps, "epochs", (json_int_t)end->epochs, /**/
                     "first_step", (json_int_t)result->first_step,                       /**/
                     "first_epoch", (json_int_t)result->first_epoch,                     /**/
                     "test_accuracy", jsonl_real(end->test_accuracy),                    /**/
                     "test_loss", jsonl_real(end->test_loss),                            /**/
                     "perplexity", jsonl_perplexity(tokens, end->test_loss),             /**/
                     "train_loss", jsonl_real(end->train_loss),                          /**/
                     "skipped_nonfinite", (json_int_t)end->skipped_nonfinite,            /**/
                     "clipped", (json_int_t)end->clipped, "late", (json_int_t)end->late, /**/
                     "params_hash", r->sim_only ? json_null() : records_hex64(end->params_hash),
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
    return r ? records_add(r, records_join(records_begin(r, "failed"),
                                           json_pack("{s:o}", "error", jsonl_text(why))))
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
    if (!r->save_dir || result->end.unsaved[0])
        return json_null();
    save_folder_checkpoint(r->save_dir, result->end.steps, path);
    return jsonl_text(path);
}

tg_status records_end(struct records *r, const struct run_result *result)
{
    if (!r)
        return TG_OK;
    json_t *record = records_join(records_begin(r, "end"), end_quality(r, result));
    record = records_join(record, end_cost(result));
    record = records_join(record, end_means(&result->end));
    record = records_join(record, waits(result->waited_for, result->waited_by, result->end.world));
    record =
        records_join(record, json_pack("{s:s, s:o, s:b, s:o}", "clock", r->clock, "remarks",
                                       verdict_json(&result->verdict), "diverged",
                                       (int)result->verdict.failed, "saved", saved(r, result)));
    return records_add(r, record);
}

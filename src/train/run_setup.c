#include "train/run.h"
#include "train/train_util.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *either(const char *text, const char *otherwise)
{
    return text ? text : otherwise;
}

static tg_status plan_steps(run *r)
{
    const train_job *job = r->job;
    TG_TRY(order_create(job->seed, train_data_train(r->data), r->transport->size,
                        r->transport->rank, job->batch, &r->order));
    r->steps_per_epoch = order_steps_per_epoch(r->order);
    if (job->steps == 0 && (job->epochs == 0 || job->epochs > UINT64_MAX / r->steps_per_epoch))
        return tg_fail(TG_E_ARG, "epochs=%" PRIu64 ": allowed: 1 and more, or give steps",
                       job->epochs);
    r->steps = job->steps ? job->steps : job->epochs * r->steps_per_epoch;
    return TG_OK;
}

static tg_status parse_specs(run *r)
{
    const train_job *job = r->job;
    TG_TRY(tg_registry_parse(TG_KIND_METHOD, either(job->method, "dense"), &r->method));
    TG_TRY(tg_registry_parse(TG_KIND_STRATEGY, either(job->strategy, "ssgd"), &r->strategy));
    TG_TRY(tg_optimizer_create(either(job->optimizer, "sgd:lr=0.01"), &r->optimizer));
    return tg_lr_schedule_create(either(job->lr_schedule, "constant"),
                                 tg_spec_real(tg_optimizer_spec(r->optimizer), "lr"), r->steps,
                                 r->steps_per_epoch, &r->lr);
}

static tg_status make_model(run *r)
{
    const model_input in = {DATA_SIDE, DATA_SIDE, 1, 0, DATA_CLASSES};
    TG_TRY(model_create(r->job->model, &in, r->job->batch, r->job->seed, &r->model));
    TG_TRY(train_alloc(r->model->ntensors, sizeof *r->id, &r->id));
    TG_TRY(train_alloc(r->job->batch * DATA_PIXELS, sizeof *r->x, &r->x));
    return train_alloc(r->job->batch, sizeof *r->labels, &r->labels);
}

/* What must be equal on all ranks, and in a checkpoint, beside what the session compares itself.
 * Not the number of steps: a finished run may be extended. */
static tg_status job_text(const run *r, char *text, size_t room)
{
    tg_spec *spec;
    TG_TRY(model_parse(r->job->model, &spec));
    snprintf(text, room,
             "model=%s\ndata=%s:train=%zu,test=%zu,hash=%016" PRIx64 "\nbatch=%zu\nlr_schedule=%s",
             tg_spec_text(spec), train_data_name(r->data), train_data_train(r->data),
             train_data_test(r->data), train_data_hash(r->data), r->job->batch,
             tg_lr_schedule_text(r->lr));
    tg_spec_free(spec);
    return TG_OK;
}

static tg_status make_session(run *r)
{
    char text[1024];
    run_metadata about;
    TG_TRY(job_text(r, text, sizeof text));
    TG_TRY(run_describe(r, &about));
    const tg_session_config config = {
        .struct_size = sizeof config,
        /* As written, not in normal form: there a default would look like a wish, and a momentum
         * that nobody named contradict the method's. */
        .method = r->job->method,
        .rules = r->job->rules,
        .nrules = r->job->nrules,
        .strategy = r->job->strategy,
        .optimizer = r->job->optimizer,
        .seed = r->job->seed,
        .steps_per_epoch = r->steps_per_epoch,
        .timeout_ms = r->job->timeout_ms,
        .driver = r->job->driver,
        .job = text,
        .trace = r->job->trace,
        .codec_threads = r->job->codec_threads,
        .metadata = about.list,
        .nmetadata = RUN_METADATA,
    };
    TG_TRY(tg_session_create(&config, r->transport, &r->session));
    return run_register(r->session, r->model, r->id);
}

tg_status run_register(tg_session *s, const model *m, uint32_t *id)
{
    for (size_t i = 0; i < m->ntensors; i++) {
        const model_tensor *t = &m->tensors[i];
        const bool trained = t->kind == MODEL_TRAINED;
        const tg_tensor tensor = {.struct_size = sizeof tensor,
                                  .name = t->name,
                                  .shape = t->shape,
                                  .ndim = t->ndim,
                                  .kind = trained ? TG_TENSOR_TRAINED : TG_TENSOR_AVERAGED,
                                  .param = tg_array_f32(m->params + t->offset, t->n),
                                  .grad = trained ? tg_array_f32(m->grads + t->offset, t->n)
                                                  : (tg_array){0}};
        TG_TRY(tg_session_add(s, &tensor, &id[i]));
    }
    return TG_OK;
}

/* ---- checkpoints --------------------------------------------------------------------------------
 */

/* The caller's part of a checkpoint: four 64-bit words of this machine's byte order. */
typedef struct saved {
    uint64_t magic;
    uint64_t loss_steps, loss_count;
    double loss_sum;
} saved;

#define SAVED_MAGIC UINT64_C(0x32306e6961727467) /* "gtrain02" */

tg_status run_save(run *r)
{
    const saved extra = {SAVED_MAGIC, r->loss_steps, r->loss_count, r->loss_sum};
    const int64_t begin = run_now(r);
    const uint64_t sent = tg_session_bytes_sent(r->session);
    TG_TRY(tg_session_save(r->session, r->job->save_dir, &extra, sizeof extra));
    /* Strategies that delay may have exchanges in flight here, whose bytes cannot be told from the
     * save's own (a kilobyte or so a peer): with them all counts as training. */
    if (strcmp(tg_spec_name(r->strategy), "ssgd") == 0)
        r->traffic.apart += tg_session_bytes_sent(r->session) - sent;
    r->evaluation_ns += run_now(r) - begin;
    return TG_OK;
}

static tg_status begin(run *r)
{
    if (!r->job->resume_dir)
        return tg_session_begin(r->session);
    const void *extra;
    size_t len;
    saved s;
    TG_TRY(tg_session_load(r->session, r->job->resume_dir, &extra, &len));
    if (len == sizeof s)
        memcpy(&s, extra, sizeof s);
    if (len != sizeof s || s.magic != SAVED_MAGIC)
        return tg_fail(TG_E_MISMATCH, "%s: not a checkpoint of the trainer", r->job->resume_dir);
    r->loss_steps = s.loss_steps;
    r->loss_count = s.loss_count;
    r->loss_sum = s.loss_sum;
    r->step = r->first_step = tg_session_steps(r->session);
    if (r->step > r->steps)
        return tg_fail(TG_E_ARG, "%s: is at step %" PRIu64 ", but steps=%" PRIu64,
                       r->job->resume_dir, r->step, r->steps);
    return TG_OK;
}

tg_status run_setup(run *r)
{
    TG_TRY(plan_steps(r));
    TG_TRY(parse_specs(r));
    TG_TRY(make_model(r));
    TG_TRY(run_init_weights(r));
    TG_TRY(make_session(r));
    TG_TRY(begin(r));
    r->apart = r->transport->size > 1 && strcmp(tg_spec_word(r->method, "exchange"), "none") == 0;
    return run_agree(r);
}

void run_free(run *r)
{
    run_stats_free(&r->stats);
    free(r->x);
    free(r->labels);
    free(r->id);
    model_destroy(r->model);
    order_destroy(r->order);
    tg_lr_schedule_destroy(r->lr);
    tg_optimizer_destroy(r->optimizer);
    tg_spec_free(r->strategy);
    tg_spec_free(r->method);
}

#include "trainer/loop/run.h"
#include "trainer/loop/run_lags.h"
#include "trainer/loop/run_layers.h"
#include "trainer/loop/run_times.h"
#include "trainer/data/data.h"
#include "trainer/data/shard.h"
#include "trainer/model/memory.h"
#include "telegrad/tools.h"
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const train_lr_scale_names[TRAIN_LR_SCALES] = {[TRAIN_LR_SCALE_NONE] = "none",
                                                           [TRAIN_LR_SCALE_SQRT] = "sqrt",
                                                           [TRAIN_LR_SCALE_LINEAR] = "linear"};

const char *const train_precision_names[TRAIN_PRECISIONS] = {
    [TRAIN_FP32] = "fp32", [TRAIN_BF16] = "bf16"};

static const char *either(const char *text, const char *otherwise)
{
    return text ? text : otherwise;
}

/* Check that the model reads this kind of data: images, or texts. */
static tg_status check_unit(const char *model_spec, train_unit unit)
{
    const char *usual;
    model_input in;
    TG_TRY(model_usual_data(model_spec, &usual, &in));
    const bool texts = in.context > 0;
    if (texts != (unit == TRAIN_IMAGES))
        return TG_OK;
    char list[256] = "";
    size_t count, used = 0;
    const data_set *const *sets = data_sets(&count);
    for (size_t i = 0; i < count && used < sizeof list; i++) {
        if (texts != (sets[i]->unit == TRAIN_IMAGES))
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                     sets[i]->entry->name);
    }
    return tg_fail(TG_E_ARG, "model %s reads %s, the data are %s: allowed: --data %s", model_spec,
                   texts ? "texts" : "images", texts ? "images" : "a text", list);
}

#define CONTEXT 35

tg_status run_context(const char *model_spec, size_t context, train_unit unit, size_t *context_p)
{
    tg_spec *spec;
    if (unit == TRAIN_IMAGES && context > 0)
        return tg_fail(TG_E_ARG, "--context %zu: allowed with texts only", context);
    TG_TRY(check_unit(model_spec, unit));
    TG_TRY(model_parse(model_spec, &spec));
    const size_t own = tg_spec_has(spec, "context") ? (size_t)tg_spec_int(spec, "context") : 0;
    tg_spec_free(spec);
    const size_t wanted = context ? context : own ? own : CONTEXT;
    *context_p = unit == TRAIN_IMAGES ? 0 : wanted;
    return TG_OK;
}

loader_config run_loader_config(const run *r)
{
    const tg_transport *t = r->transport;
    const bool seated = run_is_seated(r);
    return (loader_config){.batch = r->job->batch,
                           .context = r->context,
                           .seed = r->job->seed,
                           .rank = seated ? t->seat : t->rank,
                           .world = seated ? t->seats : t->size,
                           .stream = r->model && r->model->nstate > 0,
                           .parts = r->parts,
                           .first_step = run_position(r),
                           .shard = r->job->shard};
}

/* Before anything is created: a batch that is too large for the data may also exceed the memory. */
static tg_status plan_steps(run *r)
{
    const train_job *job = r->job;
    r->parts = job->accumulate ? job->accumulate : 1;
    TG_TRY(run_context(job->model, job->context, train_data_unit(r->data), &r->context));
    const loader_config config = run_loader_config(r);
    TG_TRY(batcher_steps(r->data, &config, &r->steps_per_epoch));
    if (job->steps == 0 && (job->epochs == 0 || job->epochs > UINT64_MAX / r->steps_per_epoch))
        return tg_fail(TG_E_ARG, "epochs=%" PRIu64 ": allowed: 1 and more, or give steps",
                       job->epochs);
    r->steps = job->steps ? job->steps : job->epochs * r->steps_per_epoch;
    return TG_OK;
}

static tg_status parse_specs(run *r)
{
    const train_job *job = r->job;
    const char *usual =
        tg_registry_default_strategy(job->method, job->rules, job->nrules, job->optimizer);
    TG_TRY(tg_registry_parse(TG_KIND_STRATEGY, either(job->strategy, usual), &r->strategy));
    const char *own = tg_registry_strategy_method(tg_spec_text(r->strategy));
    TG_TRY(tg_registry_parse(TG_KIND_METHOD, either(job->method, own), &r->method));
    TG_TRY(shard_parse(either(job->shard, "iid"), &r->shard));
    TG_TRY(tg_optimizer_create(either(job->optimizer, "sgd:lr=0.01"), &r->optimizer));
    TG_TRY(tg_lr_schedule_create(either(job->lr_schedule, "constant"),
                                 tg_spec_real(tg_optimizer_spec(r->optimizer), "lr"), r->steps,
                                 r->steps_per_epoch, &r->lr));
    const double batches = (double)r->transport->size * r->parts;
    if (job->lr_scale == TRAIN_LR_SCALE_NONE)
        return TG_OK;
    return tg_lr_schedule_scale(r->lr,
                                job->lr_scale == TRAIN_LR_SCALE_SQRT ? sqrt(batches) : batches);
}

static tg_status make_model(run *r)
{
    model_input in = train_data_input(r->data, r->context);
    in.bf16 = r->job->precision == TRAIN_BF16;
    const bool shared = r->job->workers_here > 0;
    const model_room room = {.bytes = shared ? r->job->memory : memory_available(),
                             .networks = shared ? r->job->workers_here : 1,
                             .slots = tg_optimizer_slots(r->optimizer)};
    TG_TRY(model_create_within(r->job->model, &in, r->job->batch, r->job->seed, &room, &r->model));
    TG_TRY(tg_alloc(r->model->nstate, sizeof *r->state_aside, &r->state_aside));
    return tg_alloc(r->model->ntensors, sizeof *r->id, &r->id);
}

tg_status run_load_from_here(run *r)
{
    const loader_config config = run_loader_config(r);
    loader_destroy(r->train_loader);
    r->train_loader = NULL;
    return loader_create(r->data, DATA_TRAIN, &config, &r->train_loader);
}

/* Create the loaders at the step where training begins. */
static tg_status make_loaders(run *r)
{
    loader_config config = run_loader_config(r);
    const bool alone = r->job->share != NULL; /* rank 0 tests alone */
    TG_TRY(run_load_from_here(r));
    if (!r->job->evaluate || (alone && r->transport->rank > 0))
        return TG_OK;
    config.first_step = 0;
    config.parts = 1;
    config.rank = r->transport->rank; /* a worker among servers tests alone */
    config.world = alone ? 1 : r->transport->size;
    return loader_create(r->data, DATA_TEST, &config, &r->test_loader);
}

/* The settings that must be equal on all ranks and in a checkpoint, besides those that the session
 * compares itself. The number of steps is not among them: a finished run may be extended. */
static tg_status job_text(const run *r, char *text, size_t room)
{
    tg_spec *spec;
    TG_TRY(model_parse(r->job->model, &spec));
    const int len = snprintf(
        text, room,
        "model=%s\ndata=%s:train=%zu,test=%zu,hash=%016" PRIx64 ",augment=%s\nbatch=%zu\n"
        "context=%zu\nshard=%s\nlr_schedule=%s\nlr_scale=%s\naccumulate=%" PRIu32 "\nprecision=%s",
        tg_spec_text(spec), train_data_name(r->data), train_data_train(r->data),
        train_data_test(r->data), train_data_hash(r->data), r->data->augment ? "crop-flip" : "none",
        r->job->batch, r->context, tg_spec_text(r->shard), tg_lr_schedule_text(r->lr),
        train_lr_scale_names[r->job->lr_scale], r->parts, train_precision_names[r->job->precision]);
    tg_spec_free(spec);
    return len >= 0 && (size_t)len < room
               ? TG_OK
               : tg_fail(TG_E_ARG, "the job's settings have %d bytes: allowed: less than %zu", len,
                         room);
}

const char *run_rule_of(const train_job *job, const char *tensor)
{
    for (size_t i = 0; i < job->nrules; i++) {
        const size_t len = strcspn(job->rules[i], "=");
        char *pattern = strndup(job->rules[i], len);
        const bool matches = pattern != NULL && fnmatch(pattern, tensor, 0) == 0;
        free(pattern);
        if (matches)
            return job->rules[i] + len + 1;
    }
    return NULL;
}

tg_session_config run_session_config(const train_job *job, uint64_t steps_per_epoch, uint64_t steps)
{
    return (tg_session_config){.struct_size = sizeof(tg_session_config),
                               .method = job->method,
                               .rules = job->rules,
                               .nrules = job->nrules,
                               .strategy = job->strategy,
                               .optimizer = job->optimizer,
                               .seed = job->seed,
                               .steps_per_epoch = steps_per_epoch,
                               .total_steps = steps,
                               .bucket_bytes = job->bucket_bytes};
}

static tg_status make_session(run *r, const run_metadata *about)
{
    char text[4096]; /* a schedule alone may list 64 steps */
    TG_TRY(job_text(r, text, sizeof text));
    uint64_t samples;
    const loader_config own = run_loader_config(r);
    TG_TRY(batcher_samples(r->data, &own, &samples));
    tg_session_config config = run_session_config(r->job, r->steps_per_epoch, r->steps);
    config.timeout_ms = r->job->timeout_ms;
    config.driver = r->job->driver;
    config.job = text;
    config.count_anew = r->job->count_anew;
    config.trace = r->job->trace;
    config.codec_threads = r->job->codec_threads;
    config.metadata = about->list;
    config.nmetadata = about->count;
    config.overlap = r->job->overlap;
    config.buckets = r->buckets;
    config.nbuckets = r->nbuckets;
    if (r->rules != NULL) {
        config.rules = (const char *const *)r->rules;
        config.nrules = r->nrules;
    }
    config.nodes = r->job->nodes;
    config.samples = samples;
    if (r->all_events != NULL && r->all_events->wait != NULL)
        config.on_wait = run_on_wait;
    config.on_wait_arg = r;
    config.stop = r->job->stop;
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

/* ---- checkpoints ----------------------------------------------------------------------------- */

/* The caller's part of a checkpoint: six 64-bit words in this machine's byte order, followed by the
 * model's state (nstate floats). */
typedef struct saved {
    uint64_t magic;
    uint64_t loss_steps, loss_count, nstate;
    double loss_sum;
    double seconds; /* from run_seconds */
} saved;

#define SAVED_MAGIC UINT64_C(0x34306e6961727467) /* "gtrain04" */

tg_status run_save(run *r)
{
    const saved head = {SAVED_MAGIC,      r->loss_steps, r->loss_count,
                        r->model->nstate, r->loss_sum,   run_seconds(r)};
    const size_t len = sizeof head + r->model->nstate * sizeof(float);
    for (size_t i = 0; i < r->model->ntensors; i++) /* their exchanges belong to training */
        TG_TRY(tg_session_param_wait(r->session, r->id[i]));
    const int64_t begin = run_now(r);
    char *extra;
    TG_TRY(tg_alloc(len, 1, &extra));
    memcpy(extra, &head, sizeof head);
    if (r->model->nstate > 0)
        memcpy(extra + sizeof head, r->model->state, len - sizeof head);
    const tg_status status = tg_session_save(r->session, r->job->save_dir, extra, len);
    free(extra);
    TG_TRY(status);
    if (r->job->times == NULL) /* writing takes no simulated time; waiting belongs to training */
        r->evaluation_ns += run_now(r) - begin;
    return TG_OK;
}

tg_status run_save_final(run *r)
{
    const int64_t begin = run_now(r);
    TG_TRY(tg_session_save_final(r->session, r->job->save_dir));
    if (r->job->times == NULL)
        r->evaluation_ns += run_now(r) - begin;
    return TG_OK;
}

tg_status run_save_weights(run *r)
{
    const int64_t begin = run_now(r);
    TG_TRY(tg_session_save_weights(r->session, r->job->save_weights));
    if (r->job->times == NULL)
        r->evaluation_ns += run_now(r) - begin;
    return TG_OK;
}

static void add_anew(run *r, const char *what)
{
    const size_t used = strlen(r->anew);
    snprintf(r->anew + used, sizeof r->anew - used, "%s%s", used ? ", " : "", what);
}

/* Resume a checkpoint of another number of ranks: the current epoch has another number of steps
 * now, and the model's state belongs to texts that other ranks read now. */
static void take_over(run *r, const tg_resumed *from, const saved *s)
{
    const bool over = s->loss_steps == from->steps_per_epoch;
    r->loss_steps = over ? r->steps_per_epoch : run_position(r) % r->steps_per_epoch;
    if (r->model->nstate == 0 || r->loss_steps % r->steps_per_epoch == 0)
        return;
    run_clear_state(r);
    add_anew(r, "what the model carries from batch to batch");
    if (r->transport->rank == 0)
        tg_log(TG_LOG_WARN,
               "started again: what the model carries from batch to batch, because the "
               "text is divided differently now");
}

/* Restore this rank's part of a checkpoint. */
static tg_status restore(run *r, const char *extra, size_t len, const tg_resumed *from)
{
    const size_t nstate = r->model->nstate;
    saved s = {0};
    if (len >= sizeof s)
        memcpy(&s, extra, sizeof s);
    if (s.magic != SAVED_MAGIC || s.nstate != nstate || len != sizeof s + nstate * sizeof(float))
        return tg_fail(TG_E_MISMATCH, "%s: not a checkpoint of the trainer", r->job->resume_dir);
    r->loss_steps = s.loss_steps;
    r->loss_count = s.loss_count;
    r->loss_sum = s.loss_sum;
    r->before_s = s.seconds;
    if (nstate > 0)
        memcpy(r->model->state, extra + sizeof s, nstate * sizeof(float));
    if (from->ranks != r->transport->size)
        take_over(r, from, &s);
    return TG_OK;
}

/* After a mismatch: if the checkpoint tells of another model, that is the reason, and says more
 * than the first tensor that differs. */
static tg_status other_model(const run *r, tg_status why)
{
    char text[1024];
    tg_spec *spec;
    tg_weights *w;
    snprintf(text, sizeof text, "%s", tg_error());
    if (tg_weights_open_saved(r->job->resume_dir, &w) != TG_OK)
        return tg_fail(why, "%s", text);
    const char *theirs = tg_weights_metadata(w, "model");
    if (model_parse(r->job->model, &spec) == TG_OK) {
        if (theirs && strcmp(theirs, tg_spec_text(spec)) != 0)
            snprintf(text, sizeof text,
                     "%s: the checkpoint is of model %.300s; this run has %.300s",
                     r->job->resume_dir, theirs, tg_spec_text(spec));
        tg_spec_free(spec);
    }
    tg_weights_close(w);
    return tg_fail(why, "%s", text);
}

/* A worker that comes to servers begins at the step of those that are there. */
static void join(run *r)
{
    r->step = r->first_step = tg_session_steps(r->session);
    r->loss_steps = r->step < r->steps ? r->step % r->steps_per_epoch : 0;
}

static tg_status begin(run *r)
{
    if (!r->job->resume_dir) {
        TG_TRY(tg_session_begin(r->session));
        join(r);
        return TG_OK;
    }
    const void *extra;
    size_t len;
    tg_resumed from = {.struct_size = sizeof from};
    const tg_status loaded = tg_session_load(r->session, r->job->resume_dir, &extra, &len);
    if (loaded != TG_OK)
        return loaded == TG_E_MISMATCH ? other_model(r, loaded) : loaded;
    TG_TRY(tg_session_resumed(r->session, &from));
    r->step = r->first_step = tg_session_steps(r->session);
    r->resumed = from.ranks;
    r->epoch_shift = from.epoch_shift;
    if (r->job->steps == 0) {
        const uint64_t shift = (uint64_t)r->epoch_shift; /* modulo 2^64 */
        r->steps = r->epoch_shift >= 0 || r->steps > -shift ? r->steps + shift : 0;
    }
    add_anew(r, from.anew);
    TG_TRY(restore(r, extra, len, &from));
    if (r->step > r->steps)
        return tg_fail(TG_E_MISMATCH,
                       "%s: the checkpoint is of step %" PRIu64
                       ", but this run ends at step %" PRIu64 ": use more steps or epochs",
                       r->job->resume_dir, r->step, r->steps);
    return TG_OK;
}

tg_status run_setup(run *r)
{
    TG_TRY(plan_steps(r));
    TG_TRY(parse_specs(r));
    TG_TRY(make_model(r));
    TG_TRY(run_init_weights(r));
    TG_TRY(run_layers_make(r));
    TG_TRY(run_times_layers(r));
    TG_TRY(run_choose_buckets(r));
    run_metadata about;
    tg_status status = run_describe(r, &about);
    if (status == TG_OK)
        status = make_session(r, &about);
    run_metadata_free(&about);
    TG_TRY(status);
    TG_TRY(begin(r));
    r->until = r->job->until > 0 && r->job->until < r->steps ? r->job->until : r->steps;
    TG_TRY(run_times_buckets(r));
    TG_TRY(make_loaders(r));
    r->apart = r->transport->size > 1 && strcmp(tg_spec_word(r->method, "exchange"), "none") == 0;
    TG_TRY(run_agree(r));
    return run_times_take(r);
}

void run_free(run *r)
{
    run_stats_free(&r->stats);
    loader_destroy(r->train_loader);
    loader_destroy(r->test_loader);
    free(r->state_aside);
    free(r->id);
    lags_free(r);
    free(r->buckets);
    run_waits_free(r);
    run_layers_free(r);
    model_destroy(r->model);
    tg_spec_free(r->shard);
    tg_lr_schedule_destroy(r->lr);
    tg_optimizer_destroy(r->optimizer);
    tg_spec_free(r->strategy);
    tg_spec_free(r->method);
}

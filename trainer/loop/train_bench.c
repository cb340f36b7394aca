/* Training steps on a batch that stays in memory, for timing. */
#include "trainer/loop/run.h"
#include "telegrad/tools.h"
#include <stdlib.h>
#include <string.h>

/* So small that parameters stay where speed does not depend on them (no infinities or
 * denormals). */
#define LR 0.0001
#define OPTIMIZER "sgd:lr=0.0001,momentum=0.9"

struct train_bench {
    model *model;
    tg_spec *spec;
    float *x;
    int32_t *tokens, *labels;
    uint64_t step;
    tg_optimizer *optimizer; /* without a session */
    float *momentum;         /* (model->floats) */
    tg_session *session;     /* NULL: no transport */
    uint32_t *id;            /* numbers of the model's tensors in the session */
    uint32_t rank;
};

/* The batch sizes for which a model's speed is reported; the last entry is for images. */
static const struct known {
    const char *model;
    size_t batch[2]; /* 0: there is no second size */
} known[] = {{"lstm", {20}}, {"gpt", {32}}, {NULL, {32, 128}}};

static const struct known *known_of(const tg_spec *spec)
{
    const struct known *k = known;
    while (k->model && strcmp(k->model, tg_spec_name(spec)) != 0)
        k++;
    return k;
}

tg_status train_bench_batches(const char *spec, size_t room, size_t *batch, size_t *count_p)
{
    tg_spec *parsed;
    TG_TRY(model_parse(spec, &parsed));
    const struct known *k = known_of(parsed);
    tg_spec_free(parsed);
    *count_p = k->batch[1] ? 2 : 1;
    for (size_t i = 0; i < *count_p && i < room; i++)
        batch[i] = k->batch[i];
    return TG_OK;
}

/* ---- making ---------------------------------------------------------------------------------- */

static tg_status draw_batch(train_bench *b)
{
    const model_input *in = &b->model->input;
    const size_t places = b->model->batch * (in->context ? in->context : 1),
                 values = b->model->batch * in->height * in->width * in->channels;
    const tg_rng_key key = {.purpose = TG_PURPOSE_DATA, .rank = b->rank};
    TG_TRY(tg_alloc(places, sizeof *b->labels, &b->labels));
    if (in->context)
        TG_TRY(tg_alloc(places, sizeof *b->tokens, &b->tokens));
    else
        TG_TRY(tg_alloc(values, sizeof *b->x, &b->x));
    for (size_t i = 0; b->x && i < values; i++)
        b->x[i] = (float)tg_rng_normal(&key, 2 * places + i);
    for (size_t i = 0; i < places; i++) {
        b->labels[i] = (int32_t)(tg_rng_uniform(&key, i) * (double)in->classes);
        if (b->tokens)
            b->tokens[i] = (int32_t)(tg_rng_uniform(&key, places + i) * (double)in->classes);
    }
    return TG_OK;
}

static tg_status make_session(train_bench *b, tg_transport *transport)
{
    const tg_session_config config = {
        .struct_size = sizeof config,
        .method = "dense",
        .optimizer = OPTIMIZER,
        .job = tg_spec_text(b->spec),
        .overlap = TG_OVERLAP_FULL,
    };
    TG_TRY(tg_alloc(b->model->ntensors, sizeof *b->id, &b->id));
    TG_TRY(tg_session_create(&config, transport, &b->session));
    TG_TRY(run_register(b->session, b->model, b->id));
    return tg_session_begin(b->session);
}

static tg_status make(train_bench *b, const char *spec, size_t batch, train_precision precision,
                      tg_transport *transport)
{
    TG_TRY(model_parse(spec, &b->spec));
    b->rank = transport ? (uint32_t)transport->rank : 0;
    const char *data;
    model_input input;
    TG_TRY(model_usual_data(spec, &data, &input));
    input.bf16 = precision == TRAIN_BF16;
    TG_TRY(model_create(spec, &input, batch, 1, &b->model));
    TG_TRY(draw_batch(b));
    if (transport)
        return make_session(b, transport);
    TG_TRY(tg_alloc(b->model->floats, sizeof *b->momentum, &b->momentum));
    return tg_optimizer_create(OPTIMIZER, &b->optimizer);
}

tg_status train_bench_create(const char *spec, size_t batch, train_precision precision,
                             tg_transport *transport, train_bench **b_p)
{
    train_bench *b;
    TG_TRY(tg_alloc(1, sizeof *b, &b));
    const tg_status status = make(b, spec, batch, precision, transport);
    if (status != TG_OK) {
        train_bench_destroy(b);
        return status;
    }
    *b_p = b;
    return TG_OK;
}

void train_bench_destroy(train_bench *b)
{
    if (!b)
        return;
    tg_session_destroy(b->session);
    tg_optimizer_destroy(b->optimizer);
    model_destroy(b->model);
    tg_spec_free(b->spec);
    free(b->momentum);
    free(b->id);
    free(b->x);
    free(b->tokens);
    free(b->labels);
    free(b);
}

train_bench_info train_bench_about(const train_bench *b)
{
    const model *m = b->model;
    return (train_bench_info){.model = tg_spec_text(b->spec),
                              .batch = m->batch,
                              .height = m->input.height,
                              .width = m->input.width,
                              .channels = m->input.channels,
                              .context = m->input.context,
                              .classes = m->input.classes,
                              .params = m->params_total,
                              .flops = m->flops};
}

/* ---- a step ---------------------------------------------------------------------------------- */

static tg_status param_read(void *arg, size_t tensor)
{
    train_bench *b = arg;
    return tg_session_param_wait(b->session, b->id[tensor]);
}

static tg_status grad_write(void *arg, size_t tensor)
{
    train_bench *b = arg;
    return tg_session_grad_wait(b->session, b->id[tensor]);
}

static tg_status grad_ready(void *arg, size_t tensor)
{
    train_bench *b = arg;
    return tg_session_grad_ready(b->session, b->id[tensor]);
}

static tg_status layer_done(void *arg)
{
    train_bench *b = arg;
    return tg_session_progress(b->session);
}

tg_status train_bench_step(train_bench *b, double *loss_p)
{
    model *m = b->model;
    const model_hooks hooks = {b, param_read, grad_write, grad_ready, layer_done, NULL},
                      *h = b->session ? &hooks : NULL;
    const model_batch batch = {
        .x = b->x, .tokens = b->tokens, .labels = b->labels, .count = m->batch};
    const model_pass pass = {.training = true, .step = b->step++, .rank = b->rank};
    model_result result;
    TG_TRY(model_forward(m, &batch, &pass, h, &result));
    TG_TRY(model_backward(m, h));
    const tg_update update = {.struct_size = sizeof update, .lr = LR, .number = b->step, .ndim = 1};
    TG_TRY(b->session ? tg_session_step(b->session, NULL)
                      : tg_optimizer_step(b->optimizer, &update, m->params, m->grads, m->floats,
                                          &b->momentum));
    *loss_p = result.loss / (double)result.labels;
    return TG_OK;
}

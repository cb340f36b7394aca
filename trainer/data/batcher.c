#include "trainer/data/batcher.h"
#include "trainer/data/augment.h"
#include "trainer/data/order.h"
#include "trainer/data/shard.h"
#include "telegrad/tools.h"
#include "telegrad/random.h"
#include "telegrad/spec.h"

#define STREAM_WINDOW 5 /* tg_rng_key.tensor for the places of windows; lower ones are in use */

struct batcher {
    const train_data *data;
    data_split split;
    loader_config config;
    uint64_t per_epoch;
    /* Images in training: */
    order *order;
    uint32_t *own; /* this rank's samples; NULL: iid */
    uint32_t *index;
    uint64_t *pass; /* (batch) each */
    /* Testing: samples begin..end are this rank's. */
    size_t begin, end;
    size_t row; /* stream: labels in a row */
    /* Windows: where they begin, and the end of their labels. */
    size_t first, last;
};

static bool is_images(const train_data *d)
{
    return d->set->unit == TRAIN_IMAGES;
}

static size_t parts_of(const loader_config *c)
{
    return c->parts ? c->parts : 1;
}

/* Number of labels of a text: all tokens but the first. */
static size_t labels_of(const train_data *d, data_split split)
{
    return d->view[split].count - 1;
}

tg_status batcher_steps(const train_data *d, const loader_config *c, uint64_t *steps_p)
{
    const size_t each = is_images(d) ? 1 : c->context, world = (size_t)c->world;
    const size_t total = is_images(d) ? d->view[DATA_TRAIN].count : labels_of(d, DATA_TRAIN);
    if (each == 0)
        return tg_fail(TG_E_ARG, "--context 0: data set %s: allowed: 1 and more tokens",
                       d->set->entry->name);
    const size_t share = total / world / each, most = share / parts_of(c);
    if (total < world)
        return tg_fail(TG_E_ARG, "%zu training %s%s over %d ranks: allowed: at most %zu rank%s",
                       total, is_images(d) ? "sample" : "label", total == 1 ? "" : "s", c->world,
                       total, total == 1 ? "" : "s");
    if (share == 0)
        return tg_fail(TG_E_ARG,
                       "--context %zu: allowed: 1 to %zu (%zu training tokens over %d rank%s)",
                       each, total / world, total + 1, c->world, c->world == 1 ? "" : "s");
    if (parts_of(c) > 1 && c->batch > 0 && c->batch <= share && c->batch > most)
        return tg_fail(
            TG_E_ARG,
            "--accumulate %zu: allowed: 1 to %zu (%zu training samples a rank, in batches "
            "of %zu)",
            parts_of(c), share / c->batch, share, c->batch);
    if (c->batch < 1 || c->batch > most)
        return tg_fail(TG_E_ARG, "--batch %zu: allowed: 1 to %zu (%zu training %s over %d rank%s)",
                       c->batch, most, d->view[DATA_TRAIN].count,
                       is_images(d) ? "samples" : "tokens", c->world, c->world == 1 ? "" : "s");
    *steps_p = total / (world * c->batch * each * parts_of(c));
    return TG_OK;
}

/* ---- training -------------------------------------------------------------------------------- */

/* Fill own (samples): the first *n_p are the samples of this rank. */
static tg_status assign(const train_data *d, const loader_config *c, const tg_spec *shard,
                        uint32_t *own, size_t *n_p)
{
    const data_part *p = &d->view[DATA_TRAIN];
    size_t n = 0;
    TG_TRY(shard_assign(shard, p->labels, p->count, d->set->classes, c->seed, c->world, own));
    for (size_t i = 0; i < p->count; i++) /* owners become the samples of this one, in place */
        if (own[i] == (uint32_t)c->rank)
            own[n++] = (uint32_t)i;
    *n_p = n;
    return TG_OK;
}

static tg_status own_order(batcher *b, const tg_spec *shard)
{
    const loader_config *c = &b->config;
    size_t n;
    TG_TRY(tg_alloc(b->data->view[DATA_TRAIN].count, sizeof *b->own, &b->own));
    TG_TRY(assign(b->data, c, shard, b->own, &n));
    return order_create_own(c->seed, b->own, n, c->rank, c->batch, &b->order);
}

tg_status batcher_samples(const train_data *d, const loader_config *c, uint64_t *samples_p)
{
    tg_spec *shard;
    uint32_t *own = NULL;
    size_t n = 0;
    TG_TRY(shard_parse(c->shard ? c->shard : "iid", &shard));
    tg_status status = TG_OK;
    if (is_images(d) && !shard_is_iid(shard)) {
        status = tg_alloc(d->view[DATA_TRAIN].count, sizeof *own, &own);
        if (status == TG_OK)
            status = assign(d, c, shard, own, &n);
    }
    free(own);
    tg_spec_free(shard);
    if (status == TG_OK)
        *samples_p = n;
    return status;
}

static tg_status plan_images(batcher *b, const tg_spec *shard)
{
    const loader_config *c = &b->config;
    TG_TRY(tg_alloc(c->batch, sizeof *b->index, &b->index));
    TG_TRY(tg_alloc(c->batch, sizeof *b->pass, &b->pass));
    if (!shard_is_iid(shard))
        return own_order(b, shard);
    return order_create(c->seed, b->data->view[DATA_TRAIN].count, c->world, c->rank, c->batch,
                        parts_of(c), &b->order);
}

static tg_status plan_text(batcher *b, const tg_spec *shard)
{
    const loader_config *c = &b->config;
    const size_t labels = labels_of(b->data, DATA_TRAIN);
    bool contiguous;
    TG_TRY(shard_text(shard, b->data->set->entry->name, &contiguous));
    b->row = labels / (c->batch * (size_t)c->world);
    b->first = contiguous ? shard_begin(labels, c->world, c->rank) : 0;
    b->last = contiguous ? shard_begin(labels, c->world, c->rank + 1) : labels;
    return TG_OK;
}

static tg_status plan_training(batcher *b)
{
    const loader_config *c = &b->config;
    tg_spec *shard;
    uint64_t steps;
    TG_TRY(batcher_steps(b->data, c, &steps));
    b->per_epoch = steps * parts_of(c);
    TG_TRY(shard_parse(c->shard ? c->shard : "iid", &shard));
    const tg_status status = is_images(b->data) ? plan_images(b, shard) : plan_text(b, shard);
    tg_spec_free(shard);
    return status;
}

static model_batch fill_images(batcher *b, uint64_t number, batch_arrays *a)
{
    const size_t batch = b->config.batch;
    const model_input in = train_data_input(b->data, 0);
    const size_t pixels = in.height * in.width * in.channels;
    order_batch(b->order, number, b->index, b->pass);
    for (size_t i = 0; i < batch; i++) {
        float *x = a->x + i * pixels;
        if (b->data->augment)
            augment_crop_flip(b->data, b->config.seed, b->pass[i], b->index[i], x, &a->labels[i]);
        else
            data_sample(b->data, DATA_TRAIN, b->index[i], x, &a->labels[i]);
    }
    return (model_batch){.x = a->x, .labels = a->labels, .count = batch};
}

/* Fill row `row` of the batch with tokens from `at` on and labels below `end`, -1 after that. */
static void fill_row(const batcher *b, size_t row, size_t at, size_t end, batch_arrays *a)
{
    const size_t context = b->config.context;
    const int32_t *text = b->data->view[b->split].tokens;
    int32_t *tokens = a->tokens + row * context, *labels = a->labels + row * context;
    for (size_t i = 0; i < context; i++) {
        const bool there = at + i < end;
        tokens[i] = there ? text[at + i] : 0;
        labels[i] = there ? text[at + i + 1] : -1;
    }
}

static void fill_windows(const batcher *b, uint64_t number, batch_arrays *a)
{
    const loader_config *c = &b->config;
    const size_t places = b->last - b->first - c->context + 1;
    const tg_rng_key key = {
        .seed = c->seed, .purpose = TG_PURPOSE_SHUFFLE, .step = number, .tensor = STREAM_WINDOW};
    for (size_t i = 0; i < c->batch; i++) {
        const double u = tg_rng_uniform(&key, (size_t)c->rank * c->batch + i);
        fill_row(b, i, b->first + (size_t)(u * (double)places), b->last, a);
    }
}

/* ---- testing --------------------------------------------------------------------------------- */

static size_t ceil_div(size_t a, size_t b)
{
    return (a + b - 1) / b;
}

static tg_status plan_testing(batcher *b)
{
    const loader_config *c = &b->config;
    const size_t world = (size_t)c->world, rank = (size_t)c->rank;
    if (c->batch < 1 || (!is_images(b->data) && c->context < 1))
        return tg_fail(TG_E_ARG, "batch=%zu, context=%zu: allowed: 1 and more", c->batch,
                       c->context);
    if (!is_images(b->data) && c->stream) {
        const size_t labels = labels_of(b->data, DATA_TEST);
        b->row = ceil_div(labels, world * c->batch);
        const size_t begin = rank * c->batch * b->row, left = begin < labels ? labels - begin : 0;
        b->per_epoch = ceil_div(left < b->row ? left : b->row, c->context); /* of the first row */
        return TG_OK;
    }
    const size_t total = is_images(b->data) ? b->data->view[DATA_TEST].count
                                            : ceil_div(labels_of(b->data, DATA_TEST), c->context);
    b->begin = total * rank / world;
    b->end = total * (rank + 1) / world;
    b->per_epoch = ceil_div(b->end - b->begin, c->batch);
    return TG_OK;
}

static model_batch fill_test_samples(const batcher *b, uint64_t number, batch_arrays *a)
{
    const loader_config *c = &b->config;
    const size_t at = b->begin + (size_t)number * c->batch;
    const size_t count = b->end - at < c->batch ? b->end - at : c->batch;
    const model_input in = train_data_input(b->data, 0);
    for (size_t i = 0; i < count; i++) {
        if (is_images(b->data))
            data_sample(b->data, DATA_TEST, at + i, a->x + i * in.height * in.width * in.channels,
                        &a->labels[i]);
        else
            fill_row(b, i, (at + i) * c->context, labels_of(b->data, DATA_TEST), a);
    }
    return (model_batch){.x = a->x, .tokens = a->tokens, .labels = a->labels, .count = count};
}

/* ---- both ------------------------------------------------------------------------------------ */

static model_batch fill_stream(const batcher *b, uint64_t number, batch_arrays *a)
{
    const loader_config *c = &b->config;
    const size_t labels = labels_of(b->data, b->split), at = (size_t)number * c->context;
    for (size_t i = 0; i < c->batch; i++) {
        const size_t begin = ((size_t)c->rank * c->batch + i) * b->row, end = begin + b->row;
        fill_row(b, i, begin + at, end < labels ? end : labels, a);
    }
    return (model_batch){.tokens = a->tokens, .labels = a->labels, .count = c->batch};
}

model_batch batcher_fill(batcher *b, uint64_t number, batch_arrays *a)
{
    const uint64_t within = number % b->per_epoch;
    if (!is_images(b->data) && b->config.stream)
        return fill_stream(b, within, a);
    if (b->split == DATA_TEST)
        return fill_test_samples(b, within, a);
    if (is_images(b->data))
        return fill_images(b, number, a);
    fill_windows(b, number, a);
    return (model_batch){.tokens = a->tokens, .labels = a->labels, .count = b->config.batch};
}

uint64_t batcher_per_epoch(const batcher *b)
{
    return b->per_epoch;
}

tg_status batcher_create(const train_data *d, data_split split, const loader_config *config,
                         batcher **b_p)
{
    batcher *b;
    TG_TRY(tg_alloc(1, sizeof *b, &b));
    b->data = d;
    b->split = split;
    b->config = *config;
    const tg_status status = split == DATA_TRAIN ? plan_training(b) : plan_testing(b);
    b->config.shard = NULL; /* borrowed for the call only */
    if (status != TG_OK) {
        batcher_destroy(b);
        return status;
    }
    *b_p = b;
    return TG_OK;
}

void batcher_destroy(batcher *b)
{
    if (!b)
        return;
    order_destroy(b->order);
    free(b->own);
    free(b->index);
    free(b->pass);
    free(b);
}

tg_status batch_alloc(const batcher *b, batch_arrays *a_p)
{
    const size_t batch = b->config.batch, context = b->config.context;
    const model_input in = train_data_input(b->data, context);
    batch_arrays a = {NULL, NULL, NULL};
    tg_status status;
    if (is_images(b->data))
        status = tg_alloc(batch * in.height * in.width * in.channels, sizeof *a.x, &a.x);
    else
        status = tg_alloc(batch * context, sizeof *a.tokens, &a.tokens);
    if (status == TG_OK)
        status =
            tg_alloc(is_images(b->data) ? batch : batch * context, sizeof *a.labels, &a.labels);
    if (status != TG_OK) {
        batch_free(&a);
        return status;
    }
    *a_p = a;
    return TG_OK;
}

void batch_free(batch_arrays *a)
{
    free(a->x);
    free(a->tokens);
    free(a->labels);
    *a = (batch_arrays){NULL, NULL, NULL};
}

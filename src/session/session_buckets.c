/* From tensors to buckets: who is exchanged with whom, by which method, with which memory. */
#include "session/session_impl.h"
#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Consecutive trained tensors up to bucket_bytes; a larger tensor is alone. */
static size_t assign(tg_session *s)
{
    size_t bytes = 0, nbuckets = 0;
    for (size_t i = 0; i < s->ntrained; i++) {
        tensor *t = &s->tensor[s->trained[i]];
        size_t more = t->n * sizeof(float);
        if (nbuckets == 0 || bytes + more > s->config.bucket_bytes) {
            nbuckets++;
            bytes = 0;
        }
        t->bucket = (uint32_t)(nbuckets - 1);
        t->offset = bytes / sizeof(float);
        bytes += more;
    }
    return nbuckets;
}

static void size_buckets(tg_session *s)
{
    for (size_t i = 0; i < s->ntrained; i++) {
        const tensor *t = &s->tensor[s->trained[i]];
        bucket *b = &s->bucket[t->bucket];
        if (b->count++ == 0)
            b->first = (uint32_t)i;
        b->n += t->n;
        s->n += t->n;
    }
}

/* Gradients side by side need no copy, unless something is folded into them. */
static tg_status place_gradients(tg_session *s, bucket *b)
{
    const float *base = s->tensor[s->trained[b->first]].grad;
    bool adjacent = s->fold_decay == 0;
    for (uint32_t i = 0; i < b->count; i++) {
        const tensor *t = &s->tensor[s->trained[b->first + i]];
        adjacent = adjacent && t->grad == base + t->offset;
    }
    if (!adjacent)
        TG_TRY(tg__alloc(b->n, sizeof(float), &b->staging));
    b->g = adjacent ? base : b->staging;
    b->missing = b->count;
    return TG_OK;
}

double tg__session_momentum(const tg_session *s)
{
    const tg_spec *optimizer = tg_optimizer_spec(s->optimizer);
    return tg_spec_given(optimizer, "momentum") ? tg_spec_real(optimizer, "momentum") : (double)NAN;
}

int tg__session_nesterov(const tg_session *s)
{
    const tg_spec *optimizer = tg_optimizer_spec(s->optimizer);
    return tg_spec_given(optimizer, "nesterov") ? tg_spec_flag(optimizer, "nesterov") : -1;
}

static tg_status make_method(tg_session *s, uint32_t index)
{
    bucket *b = &s->bucket[index];
    tg__method_setup setup = {
        .rank = s->transport->rank,
        .size = s->transport->size,
        .seed = s->config.seed,
        .steps_per_epoch = s->config.steps_per_epoch,
        .bucket = index,
        .count = b->count,
        .lanes = s->lanes,
        .may_bypass = s->strategy->ops->bypasses,
        .momentum = tg__session_momentum(s),
        .nesterov = tg__session_nesterov(s),
        .state = s->state,
        .pool = s->pool,
    };
    const char **name;
    size_t *len;
    TG_TRY(tg__alloc(b->count, sizeof *name, &name));
    tg_status status = tg__alloc(3 * (size_t)b->count, sizeof *len, &len);
    if (status == TG_OK) {
        size_t *rows = len + b->count, *cols = rows + b->count;
        for (uint32_t i = 0; i < b->count; i++) {
            const tensor *t = &s->tensor[s->trained[b->first + i]];
            name[i] = t->name;
            len[i] = t->n;
            rows[i] = t->rows;
            cols[i] = t->cols;
        }
        setup.tensor = name;
        setup.len = len;
        setup.rows = rows;
        setup.cols = cols;
        status = tg__method_create(s->config.method, &setup, &b->method);
        free(len);
    }
    free(name);
    if (status == TG_OK && b->method->def->program->max_lanes != 0 &&
        s->lanes > b->method->def->program->max_lanes)
        status = tg_fail(TG_E_UNSUPPORTED,
                         "strategy \"%s\" has %zu exchanges in flight, method \"%s\" allows %u",
                         s->config.strategy, s->lanes, s->config.method,
                         b->method->def->program->max_lanes);
    return status;
}

/* The strategy's vectors: one block a name, sliced by tensor. */
static tg_status make_slots(tg_session *s)
{
    const char **name;
    size_t *len = NULL;
    TG_TRY(tg__alloc(s->ntrained, sizeof *name, &name));
    tg_status status = tg__alloc(s->ntrained, sizeof *len, &len);
    for (size_t i = 0; status == TG_OK && i < s->ntrained; i++) {
        name[i] = s->tensor[s->trained[i]].name;
        len[i] = s->tensor[s->trained[i]].n;
    }
    for (size_t r = 0; status == TG_OK && r < s->strategy->nslots; r++) {
        float *base;
        const tg__slot_request *q = &s->strategy->request[r];
        status =
            tg__state_block(s->state, q->role, q->rescale, q->name, name, len, s->ntrained, &base);
        for (size_t i = 0; status == TG_OK && i < s->ntrained; i++) {
            s->strategy->slot[r][i] = base;
            base += len[i];
        }
    }
    free(len);
    free(name);
    return status;
}

static tg_status list_trained(tg_session *s)
{
    TG_TRY(tg__alloc(s->ntensors, sizeof *s->trained, &s->trained));
    for (size_t i = 0; i < s->ntensors; i++)
        if (s->tensor[i].kind == TG_TENSOR_TRAINED) {
            s->tensor[i].trained = s->ntrained;
            s->trained[s->ntrained++] = (uint32_t)i;
        }
    return TG_OK;
}

static tg_status make_strategy(tg_session *s)
{
    TG_TRY(tg__alloc(s->ntrained, sizeof *s->wtensor, &s->wtensor));
    for (size_t i = 0; i < s->ntrained; i++) {
        const tensor *t = &s->tensor[s->trained[i]];
        s->wtensor[i] = (tg__wtensor){.w = t->param,
                                      .g = s->bucket[t->bucket].g + t->offset,
                                      .n = t->n,
                                      .offset = t->offset,
                                      .bucket = t->bucket};
    }
    TG_TRY(tg__strategy_create(s->config.strategy, s->applied, s->config.steps_per_epoch,
                               s->wtensor, s->ntrained, s->nbuckets, &s->strategy));
    s->lanes = s->strategy->in_flight;
    s->actions.cap = s->nbuckets;
    TG_TRY(tg__alloc(s->nbuckets, sizeof *s->actions.item, &s->actions.item));
    return make_slots(s);
}

tg_status tg__session_build(tg_session *s)
{
    TG_TRY(list_trained(s));
    s->nbuckets = assign(s);
    if (s->nbuckets > UINT16_MAX)
        return tg_fail(TG_E_ARG, "%zu buckets: allowed: at most %d; use a larger bucket_bytes",
                       s->nbuckets, UINT16_MAX);
    TG_TRY(tg__alloc(s->nbuckets, sizeof *s->bucket, &s->bucket));
    size_buckets(s);
    for (size_t b = 0; b < s->nbuckets; b++)
        TG_TRY(place_gradients(s, &s->bucket[b]));
    TG_TRY(make_strategy(s));
    for (uint32_t b = 0; b < s->nbuckets; b++) {
        TG_TRY(make_method(s, b));
        TG_TRY(tg__alloc(s->lanes, sizeof *s->bucket[b].lane, &s->bucket[b].lane));
    }
    s->next_ready = s->nbuckets;
    return TG_OK;
}

void tg__session_unbuild(tg_session *s)
{
    for (size_t b = 0; s->bucket != NULL && b < s->nbuckets; b++) {
        for (size_t l = 0; s->bucket[b].lane != NULL && l < s->lanes; l++) {
            tg__flight_fini(&s->bucket[b].lane[l].op.flight);
            free(s->bucket[b].lane[l].inbox);
        }
        free(s->bucket[b].lane);
        tg__method_destroy(s->bucket[b].method);
        free(s->bucket[b].staging);
    }
    free(s->bucket);
    tg__strategy_destroy(s->strategy);
    free(s->wtensor);
    free(s->actions.item);
    for (size_t i = 0; s->eval_kept != NULL && i < s->ntrained; i++)
        free(s->eval_kept[i]);
    free(s->eval_kept);
    tg__state_destroy(s->state);
}

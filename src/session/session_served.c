/* Strategies whose parameters servers keep. */
#include "session/session_ckpt.h"
#include "base/mem.h"
#include "base/memstream.h"
#include "exchange/star.h"
#include "transport/endpoint.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A threshold for gradients is none for parameters. */
static tg_status takes_coded(const tg_session *s, const tg__rule *rule)
{
    const tg_key *key = tg_spec_entry(rule->spec)->keys;
    while (key->name != NULL && !(strcmp(key->name, "threshold") == 0 && key->choices != NULL &&
                                  strstr(key->choices, "auto") != NULL))
        key++;
    if (key->name == NULL || strcmp(tg_spec_word(rule->spec, "threshold"), "auto") == 0)
        return TG_OK;
    return tg_fail(
        TG_E_UNSUPPORTED,
        "strategy \"%s\" with method \"%s\": its threshold is for gradients, but servers "
        "would code parameters by it: allowed: threshold=auto, or exchange=star",
        tg_spec_name(s->strategy->spec), rule->method);
}

tg_status tg__session_takes_served(const tg_session *s, const tg__rule *rule)
{
    if (!s->strategy->ops->served)
        return TG_OK;
    if (tg__servers_of(s->transport) == 0)
        return tg_fail(TG_E_UNSUPPORTED,
                       "strategy \"%s\": servers keep the parameters, but this job has none",
                       tg_spec_name(s->strategy->spec));
    const tg__exchange_ops *x = tg_spec_has(rule->spec, "exchange")
                                    ? tg__exchange_find(tg_spec_word(rule->spec, "exchange"))
                                    : NULL;
    if (x == NULL || !x->served || rule->def->program != &tg__default_program)
        return tg_fail(
            TG_E_UNSUPPORTED,
            "strategy \"%s\" with method \"%s\": servers update parameters by whole "
            "gradients: allowed: methods of one round with exchange=star or twoway, such as "
            "dense, topk, dgc, 2bit",
            tg_spec_name(s->strategy->spec), rule->method);
    return x->codes_means ? takes_coded(s, rule) : TG_OK;
}

/* A worker makes its second step when all servers have its first gradient. So while one has none,
 * the others have made few steps: each ended with a worker that died on the way. A server
 * without a journal is more likely to have been started again. */
static tg_status check_ages(const tg__exchange *x)
{
    if (x->youngest == 0 || x->youngest > TG__STAR_EMPTY ||
        x->oldest < (x->youngest == TG__STAR_NEW ? TG__STAR_YOUNG : TG__STAR_OLD))
        return TG_OK;
    return tg_fail(TG_E_MISMATCH,
                   "server %u begins anew, but server %u has made steps: it would train other "
                   "parameters than those: start it with its journal, or start all servers anew",
                   x->youngest_server, x->oldest_server);
}

/* As many whole lines of a text as servers take. */
static tg__settings cut(const char *text)
{
    tg__settings settings = {text, strlen(text)};
    if (settings.len > TG__STAR_SETTINGS_MOST)
        settings.len = TG__STAR_SETTINGS_MOST;
    while (settings.len > 0 && text[settings.len - 1] != '\n')
        settings.len--;
    return settings;
}

/* What the servers' parameters are of, a line for each tensor. NULL: out of memory */
static char *describe_tensors(const tg_session *s)
{
    enum { TAIL = 32 };
    char *text = NULL;
    size_t len;
    FILE *f = tg__memstream_open(&text, &len);
    if (f == NULL)
        return NULL;
    for (size_t i = 0; i < s->ntrained; i++) {
        const tensor *t = &s->tensor[s->trained[i]];
        fprintf(f, "%u %s ", t->bucket, t->name);
        for (size_t d = 0; d < t->ndim; d++)
            fprintf(f, "%s%zu", d == 0 ? "" : "x", t->shape[d]);
        fputs(t->ndim == 0 ? "scalar\n" : "\n", f);
    }
    if (tg__memstream_close(f, &text) != TG_OK)
        return NULL;
    if (len <= TG__STAR_TENSORS_MOST)
        return text;
    char *tail = text + TG__STAR_TENSORS_MOST - TAIL;
    const uint64_t rest =
        tg_hash(TG_HASH_START, tail, len - (size_t)(TG__STAR_TENSORS_MOST - TAIL));
    snprintf(tail, TAIL, "\n" TG__STAR_TENSORS_REST "%016llx\n", (unsigned long long)rest);
    return text;
}

/* Offer a bucket's parameters to the servers, and get theirs.
 * values  [out] (n of the bucket)
 * told    of this session */
static tg_status share(tg_session *s, uint32_t index, tg_codec *codec, float *values,
                       const tg__star_texts *told, tg__op *op, uint64_t *step_p)
{
    const bucket *b = &s->bucket[index];
    for (uint32_t k = 0; k < b->count; k++) {
        const tg__wtensor *x = &s->wtensor[b->member[k]];
        memcpy(values + x->offset, x->w, x->n * sizeof *values);
    }
    TG_TRY(tg__exchange_create_served(tg__exchange_find("star"), s->transport->rank,
                                      s->transport->size, tg__servers_of(s->transport), b->n, codec,
                                      &tg__combine_parameters, &op->x));
    op->x->anew = s->config.count_anew != 0;
    op->x->tensors = told->tensors;
    op->x->settings = told->settings;
    op->task.step = s->t;
    op->flight.bucket = (uint16_t)index;
    TG_TRY(tg__codec_encode(codec, NULL, values, b->n, op->x->parts, op->x->nparts, NULL));
    TG_TRY(tg__engine_submit(s->engine, op));
    TG_TRY(tg__engine_wait(s->engine, op));
    op->x->ops->result(op->x, values);
    *step_p = TG__MAX(*step_p, op->x->step);
    s->leaves_out = s->leaves_out || op->x->oldest == TG__STAR_LEAVES_OUT;
    return check_ages(op->x);
}

/* Send a bucket's parameters from a node's leader, which has them in `values`, to its ranks. */
static tg_status spread(tg_session *s, uint32_t index, tg_codec *codec, float *values, tg__op *op)
{
    const tg__nodes *nodes = s->nodes;
    const size_t n = s->bucket[index].n;
    s->members =
        (tg__group){.rank = nodes->member, .patience = 2}; /* the leader waits for servers */
    TG_TRY(tg__exchange_create(tg__exchange_find("broadcast"), nodes->index, nodes->members, n,
                               codec, &tg__combine_mean, &op->x));
    op->task.step = s->t;
    op->task.group = &s->members;
    op->flight.bucket = (uint16_t)index;
    if (nodes->index == 0)
        TG_TRY(tg__codec_encode(codec, NULL, values, n, op->x->parts, op->x->nparts, NULL));
    TG_TRY(tg__engine_submit(s->engine, op));
    TG_TRY(tg__engine_wait(s->engine, op));
    if (nodes->index > 0)
        op->x->ops->result(op->x, values);
    return TG_OK;
}

/* With nodes, the leaders talk to the servers, and pass on what these have. */
static tg_status share_bucket(tg_session *s, uint32_t index, tg_codec *codec, float *values,
                              const tg__star_texts *told, tg__op *op, uint64_t *step_p)
{
    const bucket *b = &s->bucket[index];
    if (s->nodes == NULL || s->nodes->index == 0)
        TG_TRY(share(s, index, codec, values, told, op, step_p));
    else
        tg__engine_skip(s->engine, 1);
    if (s->nodes != NULL) {
        tg__op *down;
        TG_TRY(tg_alloc(1, sizeof *down, &down));
        const tg_status status = spread(s, index, codec, values, down);
        tg__op_release(s->engine, down);
        TG_TRY(status);
    }
    for (uint32_t k = 0; k < b->count; k++) {
        const tg__wtensor *x = &s->wtensor[b->member[k]];
        memcpy(x->w, values + x->offset, x->n * sizeof *values);
    }
    if (b->method->def->program->have != NULL)
        b->method->def->program->have(b->method, values);
    return TG_OK;
}

/* The latest step is that of all servers to begin with: in no server this worker then counts as one
 * that has made more steps than it has. */
static tg_status share_all(tg_session *s, tg_codec *codec, float *values)
{
    TG__FREED char *text = tg__session_describe(s, "begin");
    TG__FREED char *tensors = describe_tensors(s);
    uint64_t step = 0;
    if (text == NULL || tensors == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory: settings");
    const tg__star_texts told = {{tensors, strlen(tensors)}, cut(text)};
    for (uint32_t index = 0; index < s->nbuckets; index++) {
        tg__op *op;
        TG_TRY(tg_alloc(1, sizeof *op, &op));
        const tg_status status = share_bucket(s, index, codec, values, &told, op, &step);
        tg__op_release(s->engine, op);
        TG_TRY(status);
    }
    s->t = TG__MAX(s->t, step); /* servers of ranks that stay tell none */
    return TG_OK;
}

tg_status tg__session_share_parameters(tg_session *s)
{
    TG__FREED float *values = NULL;
    tg_codec *codec;
    size_t most = 1;
    if (!s->strategy->ops->served)
        return TG_OK;
    for (size_t i = 0; i < s->nbuckets; i++)
        most = TG__MAX(most, s->bucket[i].n);
    TG_TRY(tg_alloc(most, sizeof *values, &values));
    TG_TRY(tg_codec_create("f32", &codec));
    const tg_status status = share_all(s, codec, values);
    tg_codec_destroy(codec);
    return status;
}

tg_status tg__session_can_save(const tg_session *s, const char *call)
{
    if (s->leaves_out)
        return tg_fail(TG_E_UNSUPPORTED,
                       "%s: servers with a deadline cannot be saved: ranks that are late leave out "
                       "steps, and do not meet: allowed: tg_server_config.deadline_ms=0, or "
                       "tg_session_save_weights",
                       call);
    if (!s->strategy->ops->served || !tg__has_seat(s->transport))
        return TG_OK;
    return tg_fail(TG_E_UNSUPPORTED,
                   "%s: strategy \"%s\" where workers come and go: the servers have the "
                   "optimizer's memory, and their journals keep it",
                   call, tg_spec_name(s->strategy->spec));
}

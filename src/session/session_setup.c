/* Creating a session, and its handshake. */
#include "session/session_impl.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "base/memstream.h"
#include "base/sized.h"
#include "engine/handshake.h"
#include "session/default_strategy.h"
#include "session/session_ckpt.h"
#include "transport/endpoint.h"
#include "kernel/kernel.h"
#include "kernel/parallel.h"
#include "telegrad/spec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_BUCKET_BYTES ((size_t)25 << 20)
#define DEFAULT_TIMEOUT_MS 60000
#define AT_ONCE 512 /* exchanges in flight; further ones wait */

tg_status tg__session_failed(tg_session *s, tg_status status)
{
    if (tg__latch_set(&s->failure, status) && status == TG_E_NOMEM)
        /* only this rank fails: the others would wait for it */
        tg__engine_give_up(s->engine, status, s->transport->rank);
    return status;
}

tg_status tg__session_check(tg_session *s)
{
    return tg__latch_get(&s->failure);
}

static tg_status copy_string(tg_session *s, const char *text, const char *otherwise,
                             const char **copy_p)
{
    char *copy;
    TG_TRY(tg__owned_text(&s->owned, text == NULL ? otherwise : text, &copy));
    *copy_p = copy;
    return TG_OK;
}

static tg_status check_buckets(const uint32_t *buckets, size_t count)
{
    if (buckets == NULL && count > 0)
        return tg_fail(TG_E_ARG,
                       "tg_session_create: config->buckets is NULL with nbuckets=%zu: allowed: "
                       "nbuckets=0",
                       count);
    if (buckets != NULL && count == 0)
        return tg_fail(TG_E_ARG, "tg_session_create: config->nbuckets=0: allowed: at least 1, or "
                                 "buckets NULL");
    for (size_t i = 0; i < count; i++)
        if (buckets[i] == 0)
            return tg_fail(TG_E_ARG,
                           "tg_session_create: config->buckets[%zu]=0: allowed: at least "
                           "1 tensor",
                           i);
    return TG_OK;
}

static tg_status copy_buckets(tg_session *s, const tg_session_config *config)
{
    uint32_t *copy;
    TG_TRY(check_buckets(config->buckets, config->nbuckets));
    if (config->buckets == NULL)
        return TG_OK;
    TG_TRY(tg__owned_alloc(&s->owned, config->nbuckets, sizeof *copy, &copy));
    memcpy(copy, config->buckets, config->nbuckets * sizeof *copy);
    s->config.buckets = copy;
    return TG_OK;
}

static tg_status check_choice(const char *name, int value, int last)
{
    return value >= 0 && value <= last
               ? TG_OK
               : tg_fail(TG_E_ARG, "tg_session_create: config->%s=%d: allowed: 0 to %d", name,
                         value, last);
}

static tg_status copy_config(tg_session *s, const tg_session_config *config)
{
    s->config = *config;
    s->config.buckets = NULL;
    s->config.method = s->config.strategy = s->config.optimizer = s->config.job = NULL;
    const char *optimizer = config->optimizer;
    const bool own = optimizer != NULL && strcmp(optimizer, TG__EXTERNAL) != 0;
    const char *strategy = "ssgd";
    if (own)
        TG_TRY(tg__default_strategy(config->method, config->rules, config->nrules, optimizer,
                                    &strategy));
    TG_TRY(copy_string(s, config->strategy, strategy, &s->config.strategy));
    TG_TRY(copy_string(s, config->method, tg_registry_strategy_method(s->config.strategy),
                       &s->config.method));
    if (own)
        TG_TRY(tg__default_strategy(s->config.method, config->rules, config->nrules, optimizer,
                                    &strategy));
    s->prefers_updates = strcmp(strategy, "updates") == 0;
    TG_TRY(copy_string(s, config->optimizer, "sgd:lr=0.01", &s->config.optimizer));
    TG_TRY(copy_string(s, config->job, "", &s->config.job));
    TG_TRY(copy_buckets(s, config));
    if (config->timeout_ms < 0 || config->timeout_ms > TG__TIMEOUT_MS_MAX)
        return tg_fail(
            TG_E_ARG, "tg_session_create: config->timeout_ms=%lld: allowed: 1 to %lld, or 0 for %d",
            (long long)config->timeout_ms, (long long)TG__TIMEOUT_MS_MAX, DEFAULT_TIMEOUT_MS);
    if (config->codec_threads > TG__POOL_MAX)
        return tg_fail(TG_E_ARG, "tg_session_create: config->codec_threads=%u: allowed: 0 to %u",
                       config->codec_threads, TG__POOL_MAX);
    if (config->count_anew > 1)
        return tg_fail(TG_E_ARG, "tg_session_create: config->count_anew=%llu: allowed: 0, 1",
                       (unsigned long long)config->count_anew);
    TG_TRY(check_choice("driver", (int)config->driver, TG_DRIVER_INLINE));
    TG_TRY(check_choice("on_nonfinite", (int)config->on_nonfinite, TG_NONFINITE_FAIL));
    TG_TRY(check_choice("on_unready", (int)config->on_unready, TG_UNREADY_ZERO));
    TG_TRY(check_choice("overlap", (int)config->overlap, TG_OVERLAP_NONE));
    if (config->timeout_ms == 0)
        s->config.timeout_ms = DEFAULT_TIMEOUT_MS;
    if (config->bucket_bytes == 0)
        s->config.bucket_bytes = DEFAULT_BUCKET_BYTES;
    return TG_OK;
}

static bool owns_momentum(const tg__rule *rule)
{
    return (rule->def->properties & TG__OWNS_MOMENTUM) != 0;
}

/* A method that owns the momentum exchanges velocities. Adaptive optimizers and clipping need
 * averaged gradients. */
static tg_status check_owned(const tg_session *s, const char *method)
{
    const char *optimizer =
        s->external ? TG__EXTERNAL : tg_spec_name(tg_optimizer_spec(s->optimizer));
    if (s->optimizer->ops->adaptive || s->external)
        return tg_fail(
            TG_E_SPEC,
            "method \"%s\" accumulates SGD's momentum itself, and optimizer \"%s\" would treat its "
            "velocities as gradients: use optimizer sgd, or a method without momentum (topk)",
            method, optimizer);
    if (s->optimizer->clip > 0)
        return tg_fail(
            TG_E_SPEC,
            "optimizer \"%s\": clip=%g with method \"%s\", which accumulates gradients before they "
            "are averaged: remove clip here; dgc has a key clip of its own, for the local gradient",
            optimizer, s->optimizer->clip, method);
    return TG_OK;
}

/* If velocity feedback owns the momentum, the optimizer applies neither momentum nor coupled weight
 * decay; the decay is added to the local gradient before it is accumulated (Lin et al. 2018). */
static tg_status split_optimizer(tg_session *s)
{
    bool owned = false;
    for (size_t i = 0; i < s->rules.count; i++) {
        const tg__rule *rule = &s->rules.rule[i];
        if (owns_momentum(rule))
            TG_TRY(check_owned(s, tg_spec_name(rule->spec)));
        TG_TRY(tg__method_check_momentum(rule->def, rule->spec, tg__session_momentum(s),
                                         tg__session_nesterov(s)));
        if (!owned && owns_momentum(rule) &&
            tg_spec_given(tg_optimizer_spec(s->optimizer), "momentum"))
            tg_log(TG_LOG_INFO, "%s takes over the optimizer's momentum", tg_spec_name(rule->spec));
        owned = owned || owns_momentum(rule);
    }
    if (!owned)
        return TG_OK;
    TG_TRY(tg__optimizer_without_momentum(s->optimizer, &s->plain));
    if (!s->plain->decoupled)
        s->plain->weight_decay = 0;
    return TG_OK;
}

static tg_status check_list(const char *name, const char *const *list, size_t count)
{
    if (list == NULL && count > 0)
        return tg_fail(TG_E_ARG,
                       "tg_session_create: config->%s is NULL with n%s=%zu: allowed: "
                       "n%s=0",
                       name, name, count, name);
    for (size_t i = 0; i < count; i++)
        if (list[i] == NULL)
            return tg_fail(TG_E_ARG, "tg_session_create: config->%s[%zu] is NULL", name, i);
    return TG_OK;
}

static tg_status create(tg_session *s, const tg_session_config *config, tg_transport *transport)
{
    s->transport = transport;
    TG_TRY(tg__kernel_check());
    TG_TRY(copy_config(s, config));
    TG_TRY(check_list("rules", config->rules, config->nrules));
    TG_TRY(check_list("metadata", config->metadata, config->nmetadata));
    TG_TRY(tg__rules_init(&s->rules, config->rules, config->nrules, s->config.method));
    TG_TRY(tg__session_copy_metadata(s, config));
    TG_TRY(tg__transport_check("tg_session_create", "transport", transport));
    TG_TRY(tg__nodes_create("tg_session_create", config->nodes, transport->rank, transport->size,
                            &s->nodes));
    s->config.rules = s->config.metadata = NULL; /* the caller may free its arrays */
    s->config.nodes = NULL;
    s->external = strcmp(s->config.optimizer, TG__EXTERNAL) == 0;
    TG_TRY(tg_optimizer_create(s->external ? "sgd:lr=1" : s->config.optimizer, &s->optimizer));
    TG_TRY(split_optimizer(s));
    TG_TRY(tg__session_parse_strategy(s));
    s->lr = tg_spec_real(tg_optimizer_spec(s->optimizer), "lr");
    TG_TRY(tg__state_create(&s->state));
    TG_TRY(tg__pool_create(TG__MAX(config->codec_threads, 1u), &s->pool));
    TG_TRY(tg__engine_create(transport, s->config.driver, s->config.timeout_ms * INT64_C(1000000),
                             s->config.trace, &s->engine));
    tg__engine_on_wait(s->engine, config->on_wait, config->on_wait_arg);
    if (s->nodes != NULL)
        tg__engine_set_nodes(s->engine, s->nodes);
    return TG_OK;
}

tg_status tg__session_take_config(const char *what, const tg_session_config *from,
                                  tg_session_config *own)
{
    return tg__sized_in(what, own, sizeof *own, TG__FIRST_SIZE(tg_session_config, on_wait_arg),
                        from);
}

tg_status tg_session_create(const tg_session_config *config, tg_transport *transport,
                            tg_session **s_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(config, transport, s_p);
    tg_session_config own;
    TG_TRY(tg__session_take_config("tg_session_create: config", config, &own));
    tg_session *s = NULL;
    tg_status status = tg_alloc(1, sizeof *s, &s);
    if (status == TG_OK)
        status = create(s, &own, transport);
    if (status == TG_E_NOMEM)
        tg__leave_transport(transport, status);
    if (status != TG_OK) {
        tg_session_destroy(s);
        return status;
    }
    *s_p = s;
    return TG_OK;
}

void tg_session_destroy(tg_session *s)
{
    TG__OWN_FLOATS;
    if (s == NULL)
        return;
    tg__session_unbuild(s, tg__engine_destroy(s->engine));
    tg__nodes_destroy(s->nodes);
    tg__pool_destroy(s->pool);
    free(s->tensor);
    tg_optimizer_destroy(s->optimizer);
    tg_optimizer_destroy(s->plain);
    tg__rules_free(&s->rules);
    tg_spec_free(s->strategy_spec);
    tg__ckpt_close(s->from.own);
    free(s->saved);
    tg__session_drop_states(s);
    free(s);
}

void tg__session_print_rules(const tg_session *s, FILE *f)
{
    for (size_t i = 0; i + 1 < s->rules.count; i++)
        fprintf(f, "rule=%s=%s\n", s->rules.rule[i].pattern, tg_spec_text(s->rules.rule[i].spec));
}

void tg__session_print_buckets(const tg_session *s, FILE *f)
{
    fprintf(f, "bucket_bytes=%zu", s->config.bucket_bytes);
    for (size_t i = 0; i < s->config.nbuckets; i++)
        fprintf(f, "%s%u", i == 0 ? "\nbuckets=" : ",", s->config.buckets[i]);
    fputc('\n', f);
}

char *tg__session_describe(const tg_session *s, const char *start)
{
    static const char *const kinds[] = {[TG_TENSOR_TRAINED] = "trained",
                                        [TG_TENSOR_AVERAGED] = "averaged",
                                        [TG_TENSOR_RANK0] = "of rank 0"};
    char *text = NULL;
    size_t len;
    FILE *f = tg__memstream_open(&text, &len);
    if (f == NULL)
        return NULL;
    fprintf(f, "session=world %d\nstart=%s\n%s%s\n", s->transport->size, start,
            strchr(s->config.job, '=') == NULL ? "job=" : "", s->config.job);
    fprintf(f, "method=%s\nstrategy=%s\noptimizer=%s\nseed=%llu\nsteps_per_epoch=%llu\n",
            tg_spec_text(tg__rules_default(&s->rules)->spec), tg_spec_text(s->strategy_spec),
            tg__session_optimizer(s), (unsigned long long)s->config.seed,
            (unsigned long long)s->config.steps_per_epoch);
    tg__nodes_print(s->nodes, true, f);
    tg__session_print_buckets(s, f);
    fprintf(f, "on_nonfinite=%s\non_unready=%s\nhash_every=%llu\n",
            s->config.on_nonfinite == TG_NONFINITE_SKIP ? "skip" : "fail",
            s->config.on_unready == TG_UNREADY_ERROR ? "error" : "zero",
            (unsigned long long)s->config.hash_every);
    tg__session_print_rules(s, f);
    for (size_t i = 0; i < s->ntensors; i++) {
        const tensor *t = &s->tensor[i];
        fprintf(f, "tensor %s=%s, shape", t->name, kinds[t->kind]);
        for (size_t d = 0; d < t->ndim; d++)
            fprintf(f, " %zu", t->shape[d]);
        fputc('\n', f);
    }
    return tg__memstream_close(f, &text) == TG_OK ? text : NULL;
}

static tg_status gather_samples(tg_session *s)
{
    bool any = false;
    TG_TRY(tg__owned_alloc(&s->owned, (size_t)s->transport->size, sizeof *s->samples, &s->samples));
    TG_TRY(tg__gather_all(s->engine, "the numbers of samples", &s->config.samples,
                          sizeof *s->samples, s->samples));
    for (int rank = 0; rank < s->transport->size; rank++)
        any = any || s->samples[rank] > 0;
    s->strategy->samples = any ? s->samples : NULL;
    for (int rank = 0; any && s->strategy->weighted && rank < s->transport->size; rank++)
        s->strategy->some_absent = s->strategy->some_absent || s->samples[rank] == 0;
    return TG_OK;
}

tg_status tg__session_handshake(tg_session *s, const char *start, const char *dir)
{
    tg__latch looked = {0};
    const bool resumes = dir != NULL || s->from.image != NULL;
    if (resumes)
        tg__latch_set(&looked, dir != NULL ? tg__session_look(s, dir) : tg__session_look_memory(s));
    /* What a checkpoint settles is compared later: a rank that cannot read its own lacks it. */
    TG__FREED char *given = resumes ? tg__session_describe(s, start) : NULL;
    TG_TRY(tg__session_settle(s));
    TG_TRY(tg__session_build(s));
    s->begun = true;
    TG__FREED char *settled = resumes ? NULL : tg__session_describe(s, start);
    const char *text = resumes ? given : settled;
    if (text == NULL)
        return tg_fail(TG_E_NOMEM, "out of memory in the handshake");
    TG_TRY(tg__handshake(s->engine, text, AT_ONCE));
    if (resumes)
        TG_TRY(tg__session_can_save(s, "tg_session_load"));
    if (resumes)
        TG_TRY(tg__session_found_alike(s, dir, &looked));
    TG_TRY(gather_samples(s));
    TG_TRY(tg__session_choose_exchanges(s));
    return tg__session_build_methods(s);
}

static tg_status broadcast(tg_session *s, float *data, size_t n, tg_codec *codec, tg__op *op)
{
    TG_TRY(tg__exchange_create(tg__exchange_find("broadcast"), s->transport->rank,
                               s->transport->size, n, codec, &tg__combine_mean, &op->x));
    op->task.step = s->t;
    if (s->transport->rank == 0)
        TG_TRY(tg__codec_encode(codec, NULL, data, n, op->x->parts, op->x->nparts, NULL));
    TG_TRY(tg__engine_submit(s->engine, op));
    TG_TRY(tg__engine_wait(s->engine, op));
    if (s->transport->rank != 0)
        op->x->ops->result(op->x, data);
    return TG_OK;
}

tg_status tg__session_broadcast(tg_session *s, float *data, size_t n)
{
    tg__op *op;
    tg_codec *codec;
    TG_TRY(tg_codec_create("f32", &codec));
    tg_status status = tg_alloc(1, sizeof *op, &op);
    if (status == TG_OK) {
        status = broadcast(s, data, n, codec, op);
        tg__op_release(s->engine, op);
    }
    tg_codec_destroy(codec);
    return status;
}

/* Check that the initial parameters are finite. Every rank has rank 0's bits, so all ranks find the
 * same. Statistics may be any value. */
static tg_status check_initial(const tg_session *s, const tensor *t)
{
    tg__stats stats;
    if (t->kind != TG_TENSOR_TRAINED)
        return TG_OK;
    tg__parallel_copy_stats(s->pool, NULL, t->param, t->n, &stats);
    for (size_t i = 0; !stats.finite && i < t->n; i++)
        if (!isfinite(t->param[i]))
            return tg_fail(TG_E_NONFINITE,
                           "tensor \"%s\": element %zu of rank 0's initial parameters is %g: "
                           "allowed: finite numbers",
                           t->name, i, isnan(t->param[i]) ? (double)NAN : (double)t->param[i]);
    return TG_OK;
}

static tg_status begin(tg_session *s, const char *dir)
{
    TG_TRY(tg__session_handshake(s, "begin", dir));
    for (size_t i = 0; i < s->ntensors; i++) {
        TG_TRY(tg__session_broadcast(s, s->tensor[i].param, s->tensor[i].n));
        TG_TRY(check_initial(s, &s->tensor[i]));
    }
    TG_TRY(tg__session_share_parameters(s));
    tg__strategy_begin(s->strategy);
    return TG_OK;
}

static tg_status can_begin(const tg_session *s, const char *call)
{
    if (s->begun)
        return tg_fail(TG_E_STATE, "%s: the session has begun already", call);
    for (size_t i = 0; i < s->ntensors; i++)
        if (s->tensor[i].kind == TG_TENSOR_TRAINED)
            return tg__session_check_memory(s);
    return tg_fail(TG_E_STATE, "%s: no tensor to train is registered", call);
}

tg_status tg__session_start(tg_session *s, const char *call, const char *dir,
                            tg_status (*start)(tg_session *s, const char *dir))
{
    TG_TRY(tg__session_check(s));
    TG_TRY(can_begin(s, call));
    tg__engine_stop_if(s->engine, tg__session_wants_stop, s);
    const tg_status status = start(s, dir);
    tg__engine_stop_if(s->engine, tg__session_ends_waits, s);
    TG_TRY(tg__session_failed(s, status));
    s->bytes_reported = tg__engine_bytes(s->engine, &s->near_reported);
    tg__session_round_goes_on(s);
    return TG_OK;
}

tg_status tg_session_begin(tg_session *s)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    return tg__session_start(s, "tg_session_begin", NULL, begin);
}

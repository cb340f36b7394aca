/* Global weights for evaluation, sums of metrics, hashes, and the end of the session. */
#include "session/session_impl.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "transport/endpoint.h"

#include <stdlib.h>
#include <string.h>

tg_status tg__session_begun(tg_session *s, const char *call)
{
    TG_TRY(tg__session_check(s));
    return s->begun ? TG_OK : tg_fail(TG_E_STATE, "%s before tg_session_begin", call);
}

bool tg__session_lost(tg_session *s)
{
    const tg_status status = tg__session_check(s);
    return s->begun && s->transport->size == 1 && tg__servers_of(s->transport) > 0 &&
           (status == TG_E_PEER || status == TG_E_STOPPED);
}

tg_status tg__session_usable(tg_session *s, const char *call)
{
    TG_TRY(tg__session_begun(s, call));
    return !s->evaluating
               ? TG_OK
               : tg_fail(TG_E_STATE, "%s between tg_session_eval_begin and tg_session_eval_end",
                         call);
}

tg_status tg__session_between_steps(tg_session *s, const char *call)
{
    TG_TRY(tg__session_usable(s, call));
    for (size_t b = 0; b < s->nbuckets; b++)
        if (s->bucket[b].missing != s->bucket[b].count || s->next_ready != s->nbuckets)
            return tg_fail(TG_E_STATE,
                           "%s in the middle of step %llu: call it after tg_session_step and "
                           "before the next tg_session_grad_ready",
                           call, (unsigned long long)s->t);
    return TG_OK;
}

/* A position among the averaged tensors, taken as one sequence of elements. */
typedef struct place {
    size_t tensor, at;
} place;

/* Return the element at *p and advance; NULL: at the end. */
static float *next_averaged(const tg_session *s, place *p)
{
    for (; p->tensor < s->ntensors; *p = (place){.tensor = p->tensor + 1}) {
        const tensor *t = &s->tensor[p->tensor];
        if (t->kind == TG_TENSOR_AVERAGED && p->at < t->n)
            return &t->param[p->at++];
    }
    return NULL;
}

/* Replace all averaged tensors by their mean over ranks, weighted as in the last step. Each sum
 * carries as many elements as fit. */
static tg_status average(tg_session *s)
{
    const double weight = s->t == 0 ? 1 : tg__session_weight(s, s->t - 1);
    double chunk[4096];
    place from = {0}, to = {0};
    for (;;) {
        size_t n = 0;
        for (float *x; n < TG_COUNT(chunk) && (x = next_averaged(s, &from)) != NULL; n++)
            chunk[n] = weight == 0 ? 0 : weight * (double)*x;
        if (n == 0)
            return TG_OK;
        TG_TRY(tg_session_sum(s, chunk, n));
        for (size_t i = 0; i < n; i++)
            *next_averaged(s, &to) = (float)(chunk[i] / s->transport->size);
    }
}

/* Set the params of AVERAGED tensors to their mean over ranks, and those of RANK0 to rank 0's. */
static tg_status sync_statistics(tg_session *s)
{
    TG_TRY(average(s));
    for (size_t i = 0; i < s->ntensors; i++)
        if (s->tensor[i].kind == TG_TENSOR_RANK0)
            TG_TRY(tg__session_broadcast(s, s->tensor[i].param, s->tensor[i].n));
    return TG_OK;
}

static tg_status keep(tg_session *s, const float *param, size_t n, float **kept_p)
{
    if (*kept_p == NULL)
        TG_TRY(tg__owned_alloc(&s->owned, n, sizeof(float), kept_p));
    memcpy(*kept_p, param, n * sizeof(float));
    return TG_OK;
}

static tg_status eval_begin(tg_session *s)
{
    TG_TRY(tg__session_deliver_early(s));
    if (s->eval_kept == NULL)
        TG_TRY(tg__owned_alloc(&s->owned, s->ntrained, sizeof *s->eval_kept, &s->eval_kept));
    for (size_t i = 0; i < s->ntensors; i++)
        if (s->tensor[i].kind != TG_TENSOR_TRAINED)
            TG_TRY(keep(s, s->tensor[i].param, s->tensor[i].n, &s->tensor[i].kept));
    TG_TRY(sync_statistics(s));
    for (size_t i = 0; i < s->ntrained; i++) {
        tensor *t = &s->tensor[s->trained[i]];
        const float *global = tg__strategy_global(s->strategy, i);
        if (global == t->param)
            continue;
        TG_TRY(keep(s, t->param, t->n, &s->eval_kept[i]));
        memcpy(t->param, global, t->n * sizeof(float));
    }
    s->evaluating = true;
    return TG_OK;
}

tg_status tg_session_eval_begin(tg_session *s)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    TG_TRY(tg__session_between_steps(s, "tg_session_eval_begin"));
    return tg__session_failed(s, eval_begin(s));
}

tg_status tg_session_eval_end(tg_session *s)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    TG_TRY(tg__session_begun(s, "tg_session_eval_end"));
    if (!s->evaluating)
        return tg_fail(TG_E_STATE, "tg_session_eval_end without tg_session_eval_begin");
    for (size_t i = 0; i < s->ntensors; i++)
        if (s->tensor[i].kind != TG_TENSOR_TRAINED)
            memcpy(s->tensor[i].param, s->tensor[i].kept, s->tensor[i].n * sizeof(float));
    for (size_t i = 0; i < s->ntrained; i++) {
        tensor *t = &s->tensor[s->trained[i]];
        if (tg__strategy_global(s->strategy, i) != t->param)
            memcpy(t->param, s->eval_kept[i], t->n * sizeof(float));
    }
    s->evaluating = false;
    tg__session_round_goes_on(s);
    return TG_OK;
}

tg_status tg_session_sum(tg_session *s, double *x, size_t n)
{
    TG__OWN_FLOATS;
    TG__ARGS(s, x);
    TG_TRY(tg__session_begun(s, "tg_session_sum"));
    if (n > 4096)
        return tg_fail(TG_E_ARG, "tg_session_sum: n=%zu: allowed: n at most 4096", n);
    TG__FREED double *all = NULL;
    tg_status status = tg_alloc(n * (size_t)s->transport->size, sizeof *all, &all);
    if (status == TG_OK)
        status = tg__gather_all(s->engine, NULL, x, n * sizeof *x, all);
    if (status == TG_OK) {
        memset(x, 0, n * sizeof *x);
        for (int rank = 0; rank < s->transport->size; rank++)
            for (size_t i = 0; i < n; i++)
                x[i] += all[(size_t)rank * n + i];
    }
    tg__session_round_goes_on(s);
    return tg__session_failed(s, status);
}

tg_status tg_session_params_hash(tg_session *s, uint64_t *hash_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(s, hash_p);
    if (!tg__session_lost(s)) {
        TG_TRY(tg__session_begun(s, "tg_session_params_hash"));
        TG_TRY(tg__session_failed(s, tg__session_deliver_early(s)));
    }
    uint64_t hash = TG_HASH_START;
    for (size_t i = 0; i < s->ntrained; i++) {
        const tensor *t = &s->tensor[s->trained[i]];
        hash = tg_hash(hash, t->name, strlen(t->name));
        for (size_t d = 0; d < t->ndim; d++) {
            uint64_t dim = t->shape[d];
            hash = tg_hash(hash, &dim, sizeof dim);
        }
        hash = tg_hash(hash, tg__strategy_global(s->strategy, i), t->n * sizeof(float));
    }
    *hash_p = hash;
    return TG_OK;
}

static tg_status finish(tg_session *s)
{
    do {
        TG_TRY(tg__session_deliver(s, UINT64_MAX));
        tg__strategy_drained(s->strategy, s->t, &s->actions);
        TG_TRY(tg__session_submit(s));
    } while (s->first_waiting != NULL);
    return TG_OK;
}

tg_status tg_session_finish(tg_session *s)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    TG_TRY(tg__session_between_steps(s, "tg_session_finish"));
    return tg__session_failed(s, finish(s));
}

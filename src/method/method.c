/* Methods by name: the list, parsing, and creating one for a bucket. */
#include "method/method.h"
#include "base/mem.h"
#include "base/spec_value.h"
#include "kernel/parallel.h"
#include "method/method_keys.h"
#include "method/on_device.h"
#include "method/two_level.h"
#include "telegrad/spec.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TG_METHOD(name) extern const tg__method_def tg__method_##name;
#include "method/methods.def"
#undef TG_METHOD

static const tg_entry *const entries[] = {
#define TG_METHOD(name) &tg__method_##name.entry,
#include "method/methods.def"
#undef TG_METHOD
};

const tg_entry *const *tg__method_entries(size_t *count_p)
{
    tg__exchange_keys();
    *count_p = TG_COUNT(entries);
    return entries;
}

const tg_rate_hint *tg__method_rate(const char *spec)
{
    const size_t len = spec == NULL ? 0 : strcspn(spec, ":");
    for (size_t i = 0; len > 0 && i < TG_COUNT(entries); i++)
        if (strlen(entries[i]->name) == len && memcmp(entries[i]->name, spec, len) == 0)
            return tg__method_of(entries[i])->rate;
    return NULL;
}

/* The exchange of two-way methods. */
static const char *recoding(void)
{
    size_t count, i = 0;
    const tg__exchange_ops *const *all = tg__exchanges(&count);
    while (!all[i]->recodes)
        i++;
    return all[i]->entry.name;
}

const char *tg__method_default_exchange(const tg_spec *spec)
{
    const tg_key *key = tg_spec_entry(spec)->keys;
    if (tg_spec_has(spec, "twoway") && tg_spec_flag(spec, "twoway"))
        return recoding();
    while (strcmp(key->name, "exchange") != 0)
        key++;
    return key->def;
}

bool tg__method_is_auto(const tg_spec *spec)
{
    return strcmp(tg_spec_word(spec, "exchange"), "auto") == 0;
}

bool tg__method_is_apart(const tg_spec *spec)
{
    const tg__exchange_ops *x = tg__exchange_find(tg_spec_word(spec, "exchange"));
    return x != NULL && x->apart;
}

bool tg__method_is_two_way(const tg_spec *spec)
{
    const tg__exchange_ops *x = tg__exchange_find(tg_spec_word(spec, "exchange"));
    return x != NULL && x->codes_means;
}

bool tg__method_cuts(const tg__method_def *def, const tg_spec *spec)
{
    return tg__method_combine(def)->cuts && strcmp(tg_spec_word(spec, "clip"), "median") == 0;
}

tg_status tg__method_parse(const char *text, tg_spec **spec_p, const tg__method_def **def_p)
{
    tg_spec *spec;
    tg__exchange_keys();
    TG_TRY(tg_spec_parse("method", entries, TG_COUNT(entries), text, &spec));
    if (!tg_spec_given(spec, "exchange")) {
        const tg_status status = tg__spec_set(spec, "exchange", tg__method_default_exchange(spec));
        if (status != TG_OK) {
            tg_spec_free(spec);
            return status;
        }
    }
    *spec_p = spec;
    *def_p = tg__method_of(tg_spec_entry(spec));
    return TG_OK;
}

tg__epochs tg__method_epochs(const tg__method_setup *setup)
{
    return (tg__epochs){.steps = setup->steps_per_epoch, .shift = setup->epoch_shift};
}

const tg__exchange_ops *tg__method_exchange(const tg__method *m)
{
    return tg__exchange_find(tg_spec_word(m->spec, "exchange"));
}

/* Check that method and optimizer do not set different momenta. */
tg_status tg__method_check_momentum(const tg__method_def *def, const tg_spec *spec, double momentum,
                                    int nesterov)
{
    if (!(def->properties & TG__OWNS_MOMENTUM) || isnan(momentum))
        return TG_OK;
    const tg_key *key = tg_spec_entry(spec)->keys;
    while (strcmp(key->name, "momentum") != 0)
        key++;
    if (momentum < key->min || momentum > key->max)
        return tg_fail(TG_E_SPEC, "the optimizer's momentum=%g: method \"%s\" allows %g to %g",
                       momentum, tg_spec_name(spec), key->min, key->max);
    if (tg_spec_given(spec, "momentum") && tg_spec_real(spec, "momentum") != momentum)
        return tg_fail(
            TG_E_SPEC,
            "%s:momentum=%g but the optimizer's momentum=%g: the method takes the momentum "
            "over, so give it once, or the same value twice",
            tg_spec_name(spec), tg_spec_real(spec, "momentum"), momentum);
    if (nesterov >= 0 && tg_spec_given(spec, "nesterov") &&
        tg_spec_flag(spec, "nesterov") != (nesterov == 1))
        return tg_fail(
            TG_E_SPEC,
            "%s:nesterov=%s but the optimizer's nesterov=%s: the method takes the momentum "
            "over, so give it once, or the same value twice",
            tg_spec_name(spec), nesterov ? "no" : "yes", nesterov ? "yes" : "no");
    return TG_OK;
}

tg_status tg__method_momentum(const tg__method *m, double *momentum_p, bool *nesterov_p)
{
    double momentum = m->setup.momentum;
    TG_TRY(tg__method_check_momentum(m->def, m->spec, momentum, m->setup.nesterov));
    bool named = !isnan(momentum);
    *momentum_p = named ? momentum : tg_spec_real(m->spec, "momentum");
    *nesterov_p = named && m->setup.nesterov >= 0 ? m->setup.nesterov == 1
                                                  : tg_spec_flag(m->spec, "nesterov");
    return TG_OK;
}

static tg_status make_feedback(tg__method *m)
{
    const char *name = m->def->feedback;
    if (name == NULL)
        return TG_OK;
    if (tg_spec_has(m->spec, "feedback"))
        name = tg_spec_word(m->spec, "feedback");
    TG_TRY(tg__method_alloc(m, 1, sizeof *m->feedback, &m->feedback));
    m->feedback->ops = tg__feedback_find(name);
    if (m->feedback->ops == NULL)
        return tg_fail(TG_E_SPEC, "unknown feedback \"%s\"", name);
    if (m->feedback->ops->vectors == 0 && tg_spec_has(m->spec, "rescale") &&
        tg_spec_flag(m->spec, "rescale"))
        return tg_fail(TG_E_SPEC,
                       "method \"%s\": rescale=yes requires a residual, and feedback=%s keeps none",
                       tg_spec_name(m->spec), name);
    tg__feedback_params *params = &m->feedback->params;
    m->feedback->pool = m->setup.pool;
    params->world = m->setup.size;
    if (m->feedback->ops->owns_momentum) {
        TG_TRY(tg__method_momentum(m, &params->momentum, &params->nesterov));
        params->masking = tg_spec_flag(m->spec, "masking");
        params->clip = tg_spec_real(m->spec, "clip");
    }
    if (tg_spec_has(m->spec, "decay"))
        params->decay = tg_spec_real(m->spec, "decay");
    if (tg_spec_has(m->spec, "beta"))
        params->beta = tg_spec_real(m->spec, "beta");
    if (params->clip > 0)
        TG_TRY(tg__method_alloc(m, m->setup.count, sizeof *m->begin, &m->begin));
    for (size_t i = 0; m->begin != NULL && i < m->setup.count; i++)
        m->begin[i] = m->segments[i].begin;
    if (params->clip > 0 || params->nesterov)
        TG_TRY(tg__method_alloc(m, m->n, sizeof *m->scratch, &m->scratch));
    for (size_t i = 0; i < m->feedback->ops->vectors; i++)
        TG_TRY(tg__state_block(m->setup.state, m->setup.role, TG__RESCALE_SUM,
                               m->feedback->ops->names[i], m->setup.tensor, m->setup.len,
                               m->setup.count, &m->feedback->vec[i]));
    return TG_OK;
}

/* ---- what a method owns ---------------------------------------------------------------------- */

tg_status tg__method_alloc(tg__method *m, size_t count, size_t size, void *ptr_p)
{
    return tg__owned_alloc(&m->owned, count, size, ptr_p);
}

static void release_codec(void *codec)
{
    tg_codec_destroy(codec);
}

static tg_status own_codec(tg__method *m, tg_codec *codec, tg_codec **codec_p)
{
    TG_TRY(tg__owned_add(&m->owned, codec, release_codec));
    codec->pool = m->setup.pool;
    *codec_p = codec;
    return TG_OK;
}

tg_status tg__method_codec(tg__method *m, const char *spec, tg_codec **codec_p)
{
    tg_codec *codec;
    TG_TRY(tg_codec_create(spec, &codec));
    return own_codec(m, codec, codec_p);
}

tg_status tg__method_derive(tg__method *m, const char *name, tg_codec **codec_p)
{
    tg_codec *codec;
    TG_TRY(tg__codec_derive(name, m->spec, &codec));
    return own_codec(m, codec, codec_p);
}

static void release_exchange(void *x)
{
    tg__exchange_destroy(x);
}

tg_status tg__method_own(tg__method *m, tg__exchange *x)
{
    x->pool = m->setup.pool;
    return tg__owned_add(&m->owned, x, release_exchange);
}

tg_status tg__method_join(tg__method *m, const tg__exchange_ops *ops, size_t n, tg_codec *codec,
                          const tg__combine *combine, tg__exchange **x_p)
{
    const tg__exchange_ops *served = ops;
    tg__exchange *x;
    if (ops->served && m->setup.measures)
        ops = tg__exchange_find("allgather");
    TG_TRY(tg__exchange_create_served(ops, m->setup.rank, m->setup.size, m->setup.servers, n, codec,
                                      combine == NULL ? &tg__combine_mean : combine, &x));
    x->costs_two_ways = served->codes_means;
    x->keeps = ops->codes_means && m->setup.served;
    x->owns_momentum = (m->def->properties & TG__OWNS_MOMENTUM) != 0;
    TG_TRY(tg__method_own(m, x));
    *x_p = x;
    return TG_OK;
}

const tg__exchange_ops *tg__dense_exchange(const tg__method *m)
{
    const tg__exchange_ops *x = tg__method_exchange(m);
    return x->codes_means          ? tg__exchange_find("star")
           : x->apart || x->served ? x
                                   : tg__exchange_find("direct");
}

static tg_status copy_array(tg__method *m, const void *src, size_t count, size_t size, void *ptr_p)
{
    void *copy;
    TG_TRY(tg__method_alloc(m, count, size, &copy));
    memcpy(copy, src, count * size);
    *(void **)ptr_p = copy;
    return TG_OK;
}

static tg_status create(tg__method *m, const char *text, const tg__method_setup *setup)
{
    TG_TRY(tg__kernel_check());
    TG_TRY(tg__method_parse(text, &m->spec, &m->def));
    if (tg__method_is_auto(m->spec))
        TG_TRY(tg__spec_set(m->spec, "exchange",
                            setup->exchange != NULL ? setup->exchange
                                                    : tg__method_default_exchange(m->spec)));
    m->setup = *setup;
    TG_TRY(copy_array(m, setup->tensor, setup->count, sizeof(char *), &m->setup.tensor));
    TG_TRY(copy_array(m, setup->len, setup->count, sizeof(size_t), &m->setup.len));
    TG_TRY(copy_array(m, setup->rows, setup->count, sizeof(size_t), &m->setup.rows));
    TG_TRY(copy_array(m, setup->cols, setup->count, sizeof(size_t), &m->setup.cols));
    if (setup->dims != NULL)
        TG_TRY(copy_array(m, setup->dims, setup->count, sizeof(size_t), &m->setup.dims));
    TG_TRY(tg__method_alloc(m, setup->count, sizeof *m->segments, &m->segments));
    for (size_t i = 0; i < setup->count; m->n += setup->len[i++])
        m->segments[i] = (tg_segment){.begin = m->n,
                                      .n = setup->len[i],
                                      .rows = setup->rows[i],
                                      .cols = setup->cols[i],
                                      .dims = setup->dims == NULL ? 0 : setup->dims[i]};
    if (m->n > TG_MAX_ELEMENTS)
        return tg_fail(TG_E_ARG, "a bucket of %zu elements: allowed: at most %zu", m->n,
                       TG_MAX_ELEMENTS);
    if (setup->nodes != NULL) {
        m->setup.queue = NULL; /* ranks of a node exchange vectors in host memory */
        return tg__two_level_init(m, text);
    }
    TG_TRY(make_feedback(m));
    if (setup->queue != NULL)
        TG_TRY(tg__on_device_try(m));
    if (m->impl != NULL)
        return TG_OK;
    TG_TRY(tg__method_alloc(m, m->def->program->impl_bytes, 1, &m->impl));
    return m->def->program->init(m);
}

tg_status tg__method_create(const char *text, const tg__method_setup *setup, tg__method **m_p)
{
    tg__method *m;
    TG_TRY(tg_alloc(1, sizeof *m, &m));
    tg_status status = create(m, text, setup);
    if (status != TG_OK) {
        tg__method_destroy(m);
        return status;
    }
    *m_p = m;
    return TG_OK;
}

void tg__method_destroy(tg__method *m)
{
    if (m == NULL)
        return;
    if (m->impl != NULL && m->def->program->fini != NULL)
        m->def->program->fini(m);
    tg__owned_free(&m->owned);
    tg_spec_free(m->spec);
    free(m);
}

tg_rng_key tg__method_key(const tg__method *m, uint64_t step, tg_purpose purpose)
{
    return (tg_rng_key){.seed = m->setup.seed,
                        .purpose = purpose,
                        .rank = (uint32_t)(m->setup.rank + m->setup.seat),
                        .step = step,
                        .tensor = m->setup.bucket};
}

static float *pending_of(const tg__method *m)
{
    return m->feedback == NULL ? NULL : tg__feedback_pending(m->feedback);
}

bool tg__method_remembers(const tg__method *m)
{
    return m->def->program->residual_norm != NULL || pending_of(m) != NULL;
}

double tg__method_residual_norm(const tg__method *m)
{
    if (m->def->program->residual_norm != NULL)
        return m->def->program->residual_norm(m);
    const float *pending = pending_of(m);
    if (pending == NULL)
        return 0;
    tg__stats stats;
    tg__parallel_copy_stats(m->setup.pool, NULL, pending, m->n, &stats);
    return sqrt(stats.sum_sq);
}

bool tg__state_strays(const float *state, size_t n, tg__pool *pool)
{
    return tg__kernel()->abs_max(state, n) > TG__STATE_MOST || !tg__parallel_finite(pool, state, n);
}

bool tg__feedback_heal(const tg__method *m, bool anyway)
{
    const tg__feedback *f = m->feedback;
    const size_t vectors = f == NULL ? 0 : f->ops->vectors;
    bool strays = anyway;
    for (size_t i = 0; i < vectors; i++)
        strays = strays || tg__state_strays(f->vec[i], m->n, m->setup.pool);
    for (size_t i = 0; strays && i < vectors; i++)
        memset(f->vec[i], 0, m->n * sizeof *f->vec[i]);
    return strays && vectors > 0;
}

bool tg__method_heal(tg__method *m, bool anyway)
{
    const tg__program_ops *program = m->def->program;
    return program->heal != NULL ? program->heal(m, anyway) : tg__feedback_heal(m, anyway);
}

static double *units_of(const tg__method *m)
{
    return m->def->program->units == NULL ? NULL : m->def->program->units(m);
}

/* Computed into a vector of zeros, in units of the task's rate. */
tg_status tg__method_owed(tg__method *m, const tg__task *task, bool dropped, float *owed)
{
    const tg__program_ops *program = m->def->program;
    float *pending = pending_of(m);
    double *units = units_of(m), now = units == NULL ? 0 : *units;
    memset(owed, 0, m->n * sizeof *owed);
    if (pending == NULL)
        return TG_OK;
    for (size_t i = 0; i < m->n; i++) {
        owed[i] = pending[i];
        pending[i] = 0;
    }
    if (units != NULL && task->eta > 0)
        *units = task->eta;
    tg_status status = dropped ? program->undo(m, task) : TG_OK;
    if (!dropped && program->absorb != NULL)
        program->absorb(m, task);
    for (size_t i = 0; i < m->n; i++) {
        const float value = pending[i];
        pending[i] = owed[i];
        owed[i] = value;
    }
    if (units != NULL)
        *units = now;
    return status;
}

void tg__method_repay(tg__method *m, double eta, const float *owed)
{
    float *pending = pending_of(m);
    const double *units = units_of(m);
    if (pending == NULL)
        return;
    if (units != NULL && eta > 0 && *units != eta)
        tg__kernel()->axpy(pending, (float)fmin(eta / *units, FLT_MAX), owed, m->n);
    else
        tg__kernel()->add(pending, owed, m->n);
}

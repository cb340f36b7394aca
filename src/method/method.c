/* Methods by name: the list, parsing, and creating one for a bucket. */
#include "method/method.h"
#include "base/mem.h"
#include "base/spec_value.h"
#include "kernel/parallel.h"
#include "method/two_level.h"
#include "telegrad/spec.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TG_METHOD(name) extern const tg__method_def tg__method_##name;
#include "method/methods.def"
#undef TG_METHOD

static const tg__method_def *const methods[] = {
#define TG_METHOD(name) &tg__method_##name,
#include "method/methods.def"
#undef TG_METHOD
};

static const tg_entry *const entries[] = {
#define TG_METHOD(name) &tg__method_##name.entry,
#include "method/methods.def"
#undef TG_METHOD
};

const tg__method_def *const *tg__methods(size_t *count_p)
{
    *count_p = TG_COUNT(methods);
    return methods;
}

const tg_entry *const *tg__method_entries(size_t *count_p)
{
    *count_p = TG_COUNT(entries);
    return entries;
}

const tg_rate_hint *tg__method_rate(const char *spec)
{
    const size_t len = spec == NULL ? 0 : strcspn(spec, ":");
    for (size_t i = 0; len > 0 && i < TG_COUNT(methods); i++)
        if (strlen(entries[i]->name) == len && memcmp(entries[i]->name, spec, len) == 0)
            return methods[i]->rate;
    return NULL;
}

const char *tg__method_default_exchange(const tg_spec *spec)
{
    const tg_key *key = tg_spec_entry(spec)->keys;
    if (tg_spec_has(spec, "twoway") && tg_spec_flag(spec, "twoway"))
        return "direct";
    while (strcmp(key->name, "exchange") != 0)
        key++;
    return key->def;
}

bool tg__method_is_auto(const tg_spec *spec)
{
    return strcmp(tg_spec_word(spec, "exchange"), "auto") == 0;
}

tg_status tg__method_parse(const char *text, tg_spec **spec_p, const tg__method_def **def_p)
{
    tg_spec *spec;
    TG_TRY(tg_spec_parse("method", entries, TG_COUNT(entries), text, &spec));
    if (!tg_spec_given(spec, "exchange")) {
        const tg_status status = tg__spec_set(spec, "exchange", tg__method_default_exchange(spec));
        if (status != TG_OK) {
            tg_spec_free(spec);
            return status;
        }
    }
    *spec_p = spec;
    for (size_t i = 0; i < TG_COUNT(methods); i++)
        if (tg_spec_entry(spec) == entries[i])
            *def_p = methods[i];
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
            "over, so name it once or twice alike",
            tg_spec_name(spec), tg_spec_real(spec, "momentum"), momentum);
    if (nesterov >= 0 && tg_spec_given(spec, "nesterov") &&
        tg_spec_flag(spec, "nesterov") != (nesterov == 1))
        return tg_fail(
            TG_E_SPEC,
            "%s:nesterov=%s but the optimizer's nesterov=%s: the method takes the momentum "
            "over, so name it once or twice alike",
            tg_spec_name(spec), nesterov ? "no" : "yes", nesterov ? "yes" : "no");
    return TG_OK;
}

static tg_status take_momentum(tg__method *m, tg__feedback_params *params)
{
    double momentum = m->setup.momentum;
    TG_TRY(tg__method_check_momentum(m->def, m->spec, momentum, m->setup.nesterov));
    bool named = !isnan(momentum);
    params->momentum = named ? momentum : tg_spec_real(m->spec, "momentum");
    params->nesterov = named && m->setup.nesterov >= 0 ? m->setup.nesterov == 1
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
    TG_TRY(tg_alloc(1, sizeof *m->feedback, &m->feedback));
    m->feedback->ops = tg__feedback_find(name);
    if (m->feedback->ops == NULL)
        return tg_fail(TG_E_SPEC, "unknown feedback \"%s\"", name);
    if (m->feedback->ops->vectors == 0 && tg_spec_has(m->spec, "rescale") &&
        tg_spec_flag(m->spec, "rescale"))
        return tg_fail(TG_E_SPEC,
                       "method \"%s\": rescale=yes with feedback=%s: allowed: with a residual",
                       tg_spec_name(m->spec), name);
    tg__feedback_params *params = &m->feedback->params;
    m->feedback->pool = m->setup.pool;
    params->world = m->setup.size;
    if (m->feedback->ops->owns_momentum) {
        TG_TRY(take_momentum(m, params));
        params->masking = tg_spec_flag(m->spec, "masking");
        params->clip = tg_spec_real(m->spec, "clip");
    }
    if (tg_spec_has(m->spec, "decay"))
        params->decay = tg_spec_real(m->spec, "decay");
    if (tg_spec_has(m->spec, "beta"))
        params->beta = tg_spec_real(m->spec, "beta");
    for (size_t i = 0; i < m->feedback->ops->vectors; i++)
        TG_TRY(tg__state_block(m->setup.state, m->setup.role, TG__RESCALE_SUM,
                               m->feedback->ops->names[i], m->setup.tensor, m->setup.len,
                               m->setup.count, &m->feedback->vec[i]));
    return TG_OK;
}

static tg_status copy_array(const void *src, size_t count, size_t size, void *ptr_p)
{
    void *copy;
    TG_TRY(tg_alloc(count, size, &copy));
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
    m->setup.tensor = NULL;
    m->setup.len = m->setup.rows = m->setup.cols = NULL;
    m->setup.dims = NULL;
    TG_TRY(copy_array(setup->tensor, setup->count, sizeof(char *), &m->setup.tensor));
    TG_TRY(copy_array(setup->len, setup->count, sizeof(size_t), &m->setup.len));
    TG_TRY(copy_array(setup->rows, setup->count, sizeof(size_t), &m->setup.rows));
    TG_TRY(copy_array(setup->cols, setup->count, sizeof(size_t), &m->setup.cols));
    if (setup->dims != NULL)
        TG_TRY(copy_array(setup->dims, setup->count, sizeof(size_t), &m->setup.dims));
    for (size_t i = 0; i < setup->count; i++)
        m->n += setup->len[i];
    if (m->n > TG_MAX_ELEMENTS)
        return tg_fail(TG_E_ARG, "a bucket of %zu elements: allowed: at most %zu", m->n,
                       TG_MAX_ELEMENTS);
    if (setup->nodes != NULL)
        return tg__two_level_init(m, text);
    TG_TRY(make_feedback(m));
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
    if (m->impl != NULL)
        m->def->program->fini(m);
    free((void *)(uintptr_t)m->setup.tensor);
    free((void *)(uintptr_t)m->setup.len);
    free((void *)(uintptr_t)m->setup.rows);
    free((void *)(uintptr_t)m->setup.cols);
    free((void *)(uintptr_t)m->setup.dims);
    free(m->feedback);
    tg_spec_free(m->spec);
    free(m);
}

void tg__task_count(tg__task *task, const tg__exchange *x, const tg_codec *codec)
{
    for (size_t i = 0; i < x->nparts; i++) {
        const tg__part *part = &x->parts[i];
        task->coded_bytes += part->len;
        task->kept += part->kept;
        if (task->coded && codec != NULL && part->dst[1] == TG__FORM_DENSE)
            task->fell_back = true;
    }
}

void tg__put_zeros(tg__exchange *x)
{
    for (size_t i = 0; i < x->nparts; i++)
        tg__part_zero(&x->parts[i], x->codec->ops->wire_id);
}

tg_status tg__put_values(tg__exchange *x, const float *values, tg__task *task)
{
    if (values == NULL)
        tg__put_zeros(x);
    else
        TG_TRY(tg__codec_encode(x->codec, NULL, values, x->n, x->parts, x->nparts, NULL));
    tg__task_count(task, x, NULL);
    return TG_OK;
}

bool tg__method_remembers(const tg__method *m)
{
    return m->def->program->residual_norm != NULL ||
           (m->feedback != NULL && tg__feedback_pending(m->feedback) != NULL);
}

double tg__method_residual_norm(const tg__method *m)
{
    if (m->def->program->residual_norm != NULL)
        return m->def->program->residual_norm(m);
    const float *pending = m->feedback == NULL ? NULL : tg__feedback_pending(m->feedback);
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

static float *pending_of(const tg__method *m)
{
    return m->feedback == NULL ? NULL : tg__feedback_pending(m->feedback);
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

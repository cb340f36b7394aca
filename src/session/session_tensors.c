/* The session's tensors, as the caller registers them. */
#include "base/arg.h"
#include "base/floats.h"
#include "base/sized.h"
#include "session/session_impl.h"
#include "state/weights_impl.h"
#include "telegrad/tools.h"

#include <stdlib.h>
#include <string.h>

#define DIMENSIONS 8
#define NAME_BYTES 200

static tg_status check_array(const char *name, const char *what, const tg_array *a, size_t n)
{
    if (a->struct_size != sizeof *a)
        return tg_fail(TG_E_ARG, "tensor \"%s\": its %s: struct_size=%zu: allowed: %zu%s", name,
                       what, a->struct_size, sizeof *a,
                       a->struct_size == 0 ? " (it was not set)" : "");
    if (a->data == NULL)
        return tg_fail(TG_E_ARG, "tensor \"%s\": its %s: data is NULL", name, what);
    if (a->n != n)
        return tg_fail(TG_E_ARG, "tensor \"%s\": its %s has %zu elements at %p: needed: %zu", name,
                       what, a->n, a->data, n);
    if ((uintptr_t)a->data % sizeof(float) != 0)
        return tg_fail(TG_E_ARG, "tensor \"%s\": its %s at %p must be aligned to %zu bytes", name,
                       what, a->data, sizeof(float));
    if (a->dtype != TG_F32)
        return tg_fail(TG_E_UNSUPPORTED,
                       "tensor \"%s\": its %s has dtype=%d: this build has TG_F32", name, what,
                       (int)a->dtype);
    if (a->memory != TG_HOST)
        return tg_fail(TG_E_UNSUPPORTED,
                       "tensor \"%s\": its %s is in device memory: this build "
                       "has host memory only",
                       name, what);
    return TG_OK;
}

/* Parameters and gradients must not overlap: an update would change gradients not yet sent. */
static tg_status check_apart(const tg_tensor *t, size_t n)
{
    const size_t bytes = n * sizeof(float);
    return !tg__overlap(t->param.data, bytes, t->grad.data, bytes)
               ? TG_OK
               : tg_fail(TG_E_ARG,
                         "tensor \"%s\": its gradient at %p overlaps its parameter at %p: give "
                         "each its own memory",
                         t->name, t->grad.data, t->param.data);
}

static bool overlap(const float *a, size_t n, const float *b, size_t m)
{
    return a != NULL && b != NULL && tg__overlap(a, n * sizeof *a, b, m * sizeof *b);
}

/* Gradients may share memory if they are made ready one after the other. */
static tg_status check_pair(const tensor *a, const tensor *b)
{
    if (overlap(a->param, a->n, b->param, b->n))
        return tg_fail(TG_E_ARG,
                       "tensors \"%s\" and \"%s\": their parameters share memory, so they would be "
                       "updated twice: register one tensor, whose gradient is the sum",
                       a->name, b->name);
    const bool first = overlap(a->grad, a->n, b->param, b->n);
    if (first || overlap(b->grad, b->n, a->param, a->n))
        return tg_fail(TG_E_ARG,
                       "the gradient of tensor \"%s\" overlaps the parameters of \"%s\": give each "
                       "its own memory",
                       first ? a->name : b->name, first ? b->name : a->name);
    return TG_OK;
}

tg_status tg__session_check_memory(const tg_session *s)
{
    for (size_t i = 0; i < s->ntensors; i++)
        for (size_t k = 0; k < i; k++)
            TG_TRY(check_pair(&s->tensor[k], &s->tensor[i]));
    return TG_OK;
}

/* A name must be fit for a line of the handshake and for a file of weights. */
static bool is_name(const char *name)
{
    size_t left = strlen(name);
    bool fit = left > 0 && left <= NAME_BYTES && strcmp(name, TG__WEIGHTS_METADATA) != 0;
    while (fit && left > 0) {
        const size_t len = tg_utf8_decode(name, left, NULL);
        const unsigned char c = (unsigned char)*name;
        fit = len > 0 && c >= ' ' && c != 0x7f && c != '=';
        name += len;
        left -= len;
    }
    return fit;
}

static tg_status check_name(const tg_session *s, const char *name)
{
    if (name == NULL)
        return tg_fail(TG_E_ARG, "tg_session_add: the tensor has no name");
    if (!is_name(name))
        return tg_fail(TG_E_ARG,
                       "tg_session_add: name \"%.60s\" of %zu bytes: allowed: 1 to %d bytes of "
                       "UTF-8 without = and control characters, not " TG__WEIGHTS_METADATA,
                       tg__show(name).text, strlen(name), NAME_BYTES);
    for (size_t i = 0; i < s->ntensors; i++)
        if (strcmp(s->tensor[i].name, name) == 0)
            return tg_fail(TG_E_ARG, "tg_session_add: tensor \"%s\" is registered already", name);
    return TG_OK;
}

static tg_status check_shape(const tg_tensor *t, size_t *n_p)
{
    size_t n = 1;
    if (t->ndim > DIMENSIONS)
        return tg_fail(TG_E_ARG, "tensor \"%s\": ndim=%zu: allowed: 0 to %d", t->name, t->ndim,
                       DIMENSIONS);
    if (t->ndim > 0 && t->shape == NULL)
        return tg_fail(TG_E_ARG, "tensor \"%s\": shape is NULL, and ndim=%zu", t->name, t->ndim);
    for (size_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 0 || t->shape[i] > TG_MAX_ELEMENTS / n)
            return tg_fail(TG_E_ARG,
                           "tensor \"%s\": dimension %zu is %zu: allowed: at least 1, and at "
                           "most %zu elements in all",
                           t->name, i, t->shape[i], TG_MAX_ELEMENTS);
        n *= t->shape[i];
    }
    *n_p = n;
    return TG_OK;
}

static tg_status check_tensor(const tg_session *s, const tg_tensor *t, size_t *n_p)
{
    TG_TRY(check_name(s, t->name));
    if ((unsigned)t->kind > TG_TENSOR_RANK0)
        return tg_fail(TG_E_ARG, "tensor \"%s\": kind=%d: allowed: 0 to %d", t->name, (int)t->kind,
                       TG_TENSOR_RANK0);
    TG_TRY(check_shape(t, n_p));
    TG_TRY(check_array(t->name, "parameter", &t->param, *n_p));
    if (t->kind != TG_TENSOR_TRAINED)
        return TG_OK;
    if (s->external)
        return t->grad.data == NULL
                   ? TG_OK
                   : tg_fail(TG_E_ARG,
                             "tensor \"%s\" has a gradient at %p: with optimizer=external leave "
                             "tg_tensor.grad zero, and use tg_session_gradient",
                             t->name, t->grad.data);
    TG_TRY(check_array(t->name, "gradient", &t->grad, *n_p));
    return check_apart(t, *n_p);
}

static tg_status add(tg_session *s, const tg_tensor *t, size_t n)
{
    tensor own = {.ndim = t->ndim, .n = n, .kind = t->kind, .param = t->param.data};
    TG_TRY(tg__owned_text(&s->owned, t->name, &own.name));
    TG_TRY(tg__grow(&s->tensor, &s->cap, s->ntensors + 1, sizeof own, "tensors"));
    if (t->ndim > 0)
        memcpy(own.shape, t->shape, t->ndim * sizeof *t->shape);
    own.rows = t->ndim == 0 ? 1 : t->shape[0];
    own.cols = n / own.rows;
    own.grad = t->kind == TG_TENSOR_TRAINED ? t->grad.data : NULL;
    s->tensor[s->ntensors++] = own;
    return TG_OK;
}

tg_status tg_session_add(tg_session *s, const tg_tensor *t, uint32_t *id_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(s, t, id_p);
    size_t n = 0;
    TG_TRY(tg__session_check(s));
    if (s->begun)
        return tg_fail(TG_E_STATE, "tg_session_add after tg_session_begin");
    tg_tensor given;
    TG_TRY(tg__sized_in("tg_session_add: t", &given, sizeof given, TG__FIRST_SIZE(tg_tensor, grad),
                        t));
    TG_TRY(check_tensor(s, &given, &n));
    TG_TRY(tg__session_failed(s, add(s, &given, n)));
    *id_p = (uint32_t)s->ntensors - 1;
    return TG_OK;
}

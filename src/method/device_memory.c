#include "method/device_memory.h"

#include <math.h>

size_t tg__device_memory_count(const tg__method *m)
{
    return m->feedback == NULL ? 0 : m->feedback->ops->vectors;
}

tg_status tg__device_memory_make(tg__device_memory *d, tg__method *m)
{
    d->ops = tg__device();
    d->queue = m->setup.queue;
    for (size_t i = 0; i < tg__device_memory_count(m); i++)
        TG_TRY(d->ops->alloc(d->queue, m->n * sizeof(float), (void **)&d->vec[i]));
    return TG_OK;
}

void tg__device_memory_free(tg__device_memory *d)
{
    for (size_t i = 0; i < TG__FEEDBACK_VECTORS && d->ops != NULL; i++)
        d->ops->release(d->queue, d->vec[i]);
}

float *tg__device_memory_pending(const tg__device_memory *d, const tg__method *m)
{
    const size_t count = tg__device_memory_count(m);
    return count == 0 || m->feedback->ops->pending >= count ? NULL
                                                            : d->vec[m->feedback->ops->pending];
}

tg_status tg__device_memory_show(tg__device_memory *d, tg__method *m)
{
    for (size_t i = 0; i < tg__device_memory_count(m) && !d->shown; i++)
        TG_TRY(d->ops->copy_out(d->queue, m->feedback->vec[i], d->vec[i], m->n * sizeof(float)));
    d->shown = true;
    return d->ops->finish(d->queue);
}

tg_status tg__device_memory_resume(tg__device_memory *d, tg__method *m)
{
    for (size_t i = 0; i < tg__device_memory_count(m) && d->shown; i++)
        TG_TRY(d->ops->copy_in(d->queue, d->vec[i], m->feedback->vec[i], m->n * sizeof(float)));
    d->shown = false;
    return TG_OK;
}

bool tg__device_memory_heal(tg__device_memory *d, tg__method *m, bool anyway)
{
    const size_t count = tg__device_memory_count(m);
    bool strays = anyway;
    if (tg__device_memory_resume(d, m) != TG_OK)
        return false; /* the next call on the queue fails as well */
    for (size_t i = 0; i < count && !strays; i++) {
        size_t first = m->n;
        strays = d->ops->stray(d->queue, d->vec[i], m->n, TG__STATE_MOST, &first) == TG_OK &&
                 first < m->n;
    }
    for (size_t i = 0; i < count && strays; i++)
        if (d->ops->zero(d->queue, d->vec[i], m->n) != TG_OK)
            return false;
    return strays && count > 0;
}

double tg__device_memory_norm(tg__device_memory *d, tg__method *m)
{
    if (tg__device_memory_pending(d, m) == NULL || tg__device_memory_show(d, m) != TG_OK)
        return 0;
    const float *host = tg__feedback_pending(m->feedback);
    double sum = 0;
    for (size_t i = 0; i < m->n; i++)
        sum += (double)host[i] * (double)host[i];
    return sqrt(sum);
}

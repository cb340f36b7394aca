/* Reports gradients to a callback: rank 0's own, as they enter the exchange. */
#include "trainer/loop/run.h"
#include "telegrad/tools.h"
#include <stdlib.h>

static bool wanted(const run *r)
{
    const uint64_t every = r->job->gradient_every ? r->job->gradient_every : r->steps_per_epoch;
    return run_tells(r) && r->events->gradient && r->step % every == 0;
}

tg_status run_report_gradient(run *r)
{
    const model *m = r->model;
    train_gradient *list;
    if (!wanted(r))
        return TG_OK;
    TG_TRY(tg_alloc(m->ntensors, sizeof *list, &list));
    size_t count = 0;
    for (size_t i = 0; i < m->ntensors; i++) {
        const model_tensor *t = &m->tensors[i];
        if (t->kind == MODEL_TRAINED)
            list[count++] =
                (train_gradient){t->name, t->shape, t->ndim, t->n, m->grads + t->offset};
    }
    tg_status status = r->events->gradient(r->events->arg, r->step + 1, list, count);
    free(list);
    return run_told(r, status);
}

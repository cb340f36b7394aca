#include "method/rehearsal.h"
#include "base/mem.h"

tg_status tg__rehearse(tg__method *m, const float *g, uint64_t step, double eta, tg__rehearsal *r)
{
    tg__task task = {.step = step, .g = g, .coded = true, .eta = eta};
    tg__exchange *x = NULL;
    tg__rehearsal seen = {0};
    TG_TRY(m->def->program->begin(m, &task, &x));
    while (x != NULL) { /* one rank: an exchange is over when it starts */
        if (seen.rounds == TG__REHEARSAL_ROUNDS)
            return tg_fail(TG_E_UNSUPPORTED, "method \"%s\" has more than %d rounds",
                           tg_spec_name(m->spec), TG__REHEARSAL_ROUNDS);
        double frame = 0;
        for (size_t i = 0; i < x->nparts; i++)
            frame += (double)x->parts[i].len;
        seen.round[seen.rounds].x = x->ops;
        seen.round[seen.rounds].n = x->n;
        seen.round[seen.rounds++].frame = frame;
        TG_TRY(x->ops->start(x));
        TG_TRY(m->def->program->next(m, &task, &x));
    }
    seen.bytes = task.coded_bytes;
    *r = seen;
    return TG_OK;
}

tg_status tg__rehearsal_gradient(uint64_t seed, size_t n, float **g_p)
{
    const tg_rng_key key = {.seed = seed, .purpose = TG_PURPOSE_TEST};
    float *g;
    TG_TRY(tg__alloc(n, sizeof *g, &g));
    for (size_t i = 0; i < n; i++)
        g[i] = (float)tg_rng_normal(&key, i);
    *g_p = g;
    return TG_OK;
}

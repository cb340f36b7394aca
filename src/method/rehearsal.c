#include "method/rehearsal.h"
#include "base/mem.h"
#include "exchange/star_cost.h"
#include "telegrad/random.h"
#include "telegrad/spec.h"

#include <stdlib.h>

tg_status tg__rehearse(tg__method *m, tg__task task, tg__rehearsal *r)
{
    tg__exchange *x = NULL;
    tg__rehearsal seen = {0};
    TG_TRY(m->def->program->begin(m, &task, &x));
    while (x != NULL) { /* with one rank, starting an exchange completes it */
        if (seen.rounds == TG__REHEARSAL_ROUNDS)
            return tg_fail(TG_E_UNSUPPORTED, "method \"%s\" has more than %d rounds",
                           tg_spec_name(m->spec), TG__REHEARSAL_ROUNDS);
        double frame = 0;
        for (size_t i = 0; i < x->nparts; i++)
            frame += (double)x->parts[i].len;
        seen.round[seen.rounds].x = x->ops;
        seen.round[seen.rounds].n = x->n;
        seen.round[seen.rounds].cuts = tg__star_cuts(x->codec);
        seen.round[seen.rounds].answered = x->costs_two_ways;
        seen.round[seen.rounds++].frame = frame;
        TG_TRY(x->ops->start(x));
        TG_TRY(m->def->program->next(m, &task, &x));
    }
    seen.bytes = task.coded_bytes;
    *r = seen;
    return TG_OK;
}

void tg__rehearsal_add_dense(tg__rehearsal *r, const tg__exchange_ops *x, size_t n)
{
    const size_t frame = TG__FRAME_HEAD + n * sizeof(float);
    r->round[r->rounds].x = x;
    r->round[r->rounds].n = n;
    r->round[r->rounds].cuts = true;
    r->round[r->rounds++].frame = (double)frame;
    r->bytes += frame;
}

tg_status tg__sample_create(const tg__method_setup *whole, size_t most, tg__sample *s)
{
    const size_t count = whole->count;
    size_t n = 0, all = 0, taken = 0;
    size_t *len, *rows, *cols;
    TG_TRY(tg_alloc(3 * count, sizeof *len, &len));
    rows = len + count;
    cols = rows + count;
    for (size_t i = 0; i < count; i++) {
        const size_t room = most - n;
        all += whole->len[i];
        if (room == 0)
            continue;
        rows[i] = whole->rows[i];
        cols[i] = whole->cols[i];
        if (whole->len[i] > room) {
            cols[i] = TG__MIN(cols[i], room);
            rows[i] = room / cols[i];
        }
        len[i] = rows[i] * cols[i];
        n += len[i];
        taken = i + 1;
        if (len[i] < whole->len[i])
            most = n;
    }
    s->setup = *whole;
    s->setup.count = taken;
    s->setup.len = len;
    s->setup.rows = rows;
    s->setup.cols = cols;
    s->n = n;
    s->scale = (double)all / (double)n;
    s->sizes = len;
    return TG_OK;
}

void tg__sample_free(tg__sample *s)
{
    free(s->sizes);
}

tg_status tg__rehearsal_gradient(uint64_t seed, size_t n, float **g_p)
{
    const tg_rng_key key = {.seed = seed, .purpose = TG_PURPOSE_TEST};
    float *g;
    TG_TRY(tg_alloc(n, sizeof *g, &g));
    for (size_t i = 0; i < n; i++)
        g[i] = (float)tg_rng_normal(&key, i);
    *g_p = g;
    return TG_OK;
}

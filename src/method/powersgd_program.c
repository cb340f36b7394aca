#include "method/powersgd_program.h"
#include "base/mem.h"
#include "kernel/parallel.h"
#include "method/lowrank.h"
#include "method/rehearsal.h"
#include "telegrad/spec.h"

#include <stdlib.h>
#include <string.h>

typedef struct lane {
    tg__exchange *dense; /* of all n elements; NULL: not needed */
    tg__exchange *running;
    float *aggregate; /* (n) */
} lane;

/* One coded task at a time; others may run dense beside it. */
typedef struct program {
    tg_codec *f32;
    tg__lowrank low;
    bool warm;
    uint64_t start;               /* steps that are dense */
    tg__exchange *first, *second; /* of nfirst and of low.nright elements; NULL: no matrices */
    size_t nfirst;
    float *mixed; /* (nfirst) p of the matrices, then the other tensors */
    lane *lanes;
    bool was_nonfinite; /* the coded task sends zeros */
} program;

static lane *lane_of(const tg__method *m, const tg__task *task)
{
    return &((const program *)m->impl)->lanes[task->lane];
}

static bool is_coded(const tg__method *m, const tg__task *task)
{
    const program *p = m->impl;
    return p->low.count > 0 && task->coded && task->step >= p->start;
}

static tg_status make_exchange(tg__method *m, size_t n, tg__exchange **x_p)
{
    TG_TRY(tg__exchange_create(tg__method_exchange(m), m->setup.rank, m->setup.size, n,
                               ((program *)m->impl)->f32, &tg__combine_mean, x_p));
    (*x_p)->pool = m->setup.pool;
    return TG_OK;
}

static tg_status make_lane(tg__method *m, lane *l)
{
    const program *p = m->impl;
    TG_TRY(tg_alloc(m->n, sizeof *l->aggregate, &l->aggregate));
    return p->low.count == 0 || m->setup.may_bypass || p->start > 0
               ? make_exchange(m, m->n, &l->dense)
               : TG_OK;
}

static tg_status init(tg__method *m)
{
    program *p;
    const tg__method_setup *s = &m->setup;
    TG_TRY(tg_alloc(1, sizeof *p, &p));
    m->impl = p;
    TG_TRY(tg_codec_create("f32", &p->f32));
    p->f32->pool = s->pool;
    p->warm = tg_spec_flag(m->spec, "warm");
    TG_TRY(tg__duration_end(tg_spec_duration(m->spec, "start"), tg__method_epochs(s), "start",
                            &p->start));
    TG_TRY(tg__lowrank_init(&p->low, s, (size_t)tg_spec_int(m->spec, "rank"),
                            tg_spec_real(m->spec, "min_ratio")));
    p->nfirst = m->n + p->low.nleft;
    for (size_t i = 0; i < p->low.count; i++)
        p->nfirst -= p->low.matrix[i].rows * p->low.matrix[i].cols;
    TG_TRY(tg_alloc(s->lanes, sizeof *p->lanes, &p->lanes));
    for (size_t i = 0; i < s->lanes; i++)
        TG_TRY(make_lane(m, &p->lanes[i]));
    if (p->low.count == 0)
        return TG_OK;
    TG_TRY(tg_alloc(p->nfirst, sizeof *p->mixed, &p->mixed));
    TG_TRY(make_exchange(m, p->nfirst, &p->first));
    return make_exchange(m, p->low.nright, &p->second);
}

static void foresee(const tg_spec *spec, const tg__method_setup *setup, tg__rehearsal *r)
{
    const tg__exchange_ops *x = tg__exchange_find(setup->exchange);
    const size_t rank = (size_t)tg_spec_int(spec, "rank");
    size_t first = 0, second = 0;
    for (size_t i = 0; i < setup->count; i++) {
        const size_t rows = setup->rows[i], cols = setup->cols[i];
        const bool pays = tg__lowrank_pays(rows, cols, rank, tg_spec_real(spec, "min_ratio"));
        first += pays ? rows * rank : setup->len[i];
        second += pays ? cols * rank : 0;
    }
    tg__rehearsal_add_dense(r, x, first);
    if (second > 0)
        tg__rehearsal_add_dense(r, x, second);
}

static void fini(tg__method *m)
{
    program *p = m->impl;
    tg__exchange_destroy(p->first);
    tg__exchange_destroy(p->second);
    for (size_t i = 0; p->lanes != NULL && i < m->setup.lanes; i++) {
        tg__exchange_destroy(p->lanes[i].dense);
        free(p->lanes[i].aggregate);
    }
    free(p->lanes);
    tg__lowrank_fini(&p->low);
    free(p->mixed);
    tg_codec_destroy(p->f32);
    free(p);
    m->impl = NULL;
}

/* ---- the rounds ------------------------------------------------------------------------------ */

/* The bucket's elements between matrix i - 1 and matrix i; i = low.count: after the last. */
static size_t others(const program *p, size_t n, size_t i, size_t *len_p)
{
    const tg__lowrank_matrix *a = i == 0 ? NULL : &p->low.matrix[i - 1];
    const size_t at = a == NULL ? 0 : a->at + a->rows * a->cols;
    *len_p = (i == p->low.count ? n : p->low.matrix[i].at) - at;
    return at;
}

/* Copy the tensors that are not matrices of `low` from g (n) to the end of mixed. */
static void gather_others(const program *p, const float *g, size_t n)
{
    float *to = p->mixed + p->low.nleft;
    for (size_t i = 0, len; i <= p->low.count; i++, to += len) {
        const size_t at = others(p, n, i, &len);
        memcpy(to, g + at, len * sizeof *to);
    }
}

static void scatter_others(const program *p, float *out, size_t n)
{
    const float *from = p->mixed + p->low.nleft;
    for (size_t i = 0, len; i <= p->low.count; i++, from += len) {
        const size_t at = others(p, n, i, &len);
        memcpy(out + at, from, len * sizeof *out);
    }
}

/* Put the values (n of the exchange) into x and count them; NULL: zeros. */
static tg_status put(tg__method *m, tg__task *task, tg__exchange *x, const float *values)
{
    lane_of(m, task)->running = x;
    return tg__put_values(x, values, task);
}

/* Begin the first round of a step that was not flagged. */
static tg_status put_products(tg__method *m, tg__task *task)
{
    program *p = m->impl;
    tg__lowrank_start(&p->low, m->setup.seed, task->step, p->warm);
    tg__lowrank_fold(&p->low, task->g, p->mixed);
    /* a sum that includes infinity is not finite either */
    if (!tg__kernel()->all_finite(p->mixed, p->low.nleft)) {
        (void)tg__lowrank_heal(&p->low, true);
        task->overflow = TG__FORGOT;
        p->was_nonfinite = true;
        return put(m, task, p->first, NULL);
    }
    gather_others(p, task->g, m->n);
    return put(m, task, p->first, p->mixed);
}

static tg_status begin(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *p = m->impl;
    lane *l = lane_of(m, task);
    task->density = 1;
    task->coded_bytes = task->kept = 0;
    task->fell_back = false;
    if (is_coded(m, task))
        p->was_nonfinite = task->nonfinite;
    if (!is_coded(m, task)) {
        TG_TRY(put(m, task, l->dense, task->nonfinite ? NULL : task->g));
    } else if (task->nonfinite) {
        tg__lowrank_settle(&p->low, l->aggregate); /* from here on left may change */
        TG_TRY(put(m, task, p->first, NULL));
    } else {
        TG_TRY(put_products(m, task));
    }
    *x_p = l->running;
    return TG_OK;
}

static tg_status next(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *p = m->impl;
    const lane *l = lane_of(m, task);
    tg__exchange *x = l->running;
    *x_p = NULL;
    if (x == l->dense) {
        x->ops->result(x, l->aggregate);
    } else if (x == p->first) {
        x->ops->result(x, p->mixed);
        scatter_others(p, l->aggregate, m->n);
        tg__lowrank_agree(&p->low, p->mixed);
        if (!p->was_nonfinite && !tg__lowrank_project(&p->low))
            task->overflow = "the product of what this rank remembers with the factor";
        TG_TRY(put(m, task, p->second, p->was_nonfinite ? NULL : p->low.right));
        *x_p = p->second;
    } else {
        memcpy(p->low.before, p->low.basis, p->low.nright * sizeof *p->low.basis);
        x->ops->result(x, p->low.basis);
        tg__lowrank_expand(&p->low, l->aggregate);
        if (tg__state_strays(p->low.basis, p->low.nright, NULL) &&
            !tg__parallel_finite(m->setup.pool, l->aggregate, m->n)) /* left is orthonormal */
            task->overflow = "the sum over ranks";
    }
    return TG_OK;
}

static const float *aggregate(tg__method *m, const tg__task *task)
{
    return lane_of(m, task)->aggregate;
}

static tg_status undo(tg__method *m, const tg__task *task)
{
    program *p = m->impl;
    if (is_coded(m, task))
        tg__lowrank_undo(&p->low);
    return TG_OK;
}

static bool heal(tg__method *m, bool anyway)
{
    return tg__lowrank_heal(&((program *)m->impl)->low, anyway);
}

static double residual_norm(const tg__method *m)
{
    return tg__lowrank_residual_norm(&((const program *)m->impl)->low);
}

const tg__program_ops tg__powersgd_program = {
    .rounds = 2,
    .max_lanes = 1,
    .init = init,
    .fini = fini,
    .begin = begin,
    .next = next,
    .aggregate = aggregate,
    .undo = undo,
    .heal = heal,
    .foresee = foresee,
    .residual_norm = residual_norm,
};

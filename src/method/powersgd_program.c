/* PowerSGD's program: a bucket's matrices as products of skinny factors, in two rounds of dense
 * exchanges over one flat vector each.
 *
 *   round 0   p = m start of every matrix, and the gradients of the other tensors unchanged
 *             left = orthonormalised mean of p; right = m^T left
 *   round 1   right of every matrix; basis = its mean, aggregate = left basis^T
 *
 * A step takes four one-way delays with `direct`, two with `allgather`. If no matrix is worth it,
 * there is only round 0. Steps before `start` and dense steps are one dense exchange.
 *
 * Keys: rank, warm, min_ratio, start, exchange. */
#include "base/mem.h"
#include "kernel/parallel.h"
#include "method/powersgd.h"
#include "method/rehearsal.h"
#include "telegrad/spec.h"

#include <string.h>

typedef tg__powersgd program;

tg_status tg__powersgd_choose(tg__method *m, tg__powersgd *p)
{
    p->warm = tg_spec_flag(m->spec, "warm");
    TG_TRY(tg__duration_end(tg_spec_duration(m->spec, "start"), tg__method_epochs(&m->setup),
                            "start", &m->dense_steps));
    TG_TRY(tg__lowrank_choose(&p->low, m, (size_t)tg_spec_int(m->spec, "rank"),
                              tg_spec_real(m->spec, "min_ratio")));
    p->nfirst = m->n + p->low.nleft;
    for (size_t i = 0; i < p->low.count; i++)
        p->nfirst -= p->low.matrix[i].rows * p->low.matrix[i].cols;
    if (p->low.count == 0)
        m->dense_steps = UINT64_MAX;
    return TG_OK;
}

tg_status tg__powersgd_make(tg__method *m, tg__powersgd *p)
{
    const tg__exchange_ops *x = tg__method_exchange(m);
    TG_TRY(tg__lowrank_init(&p->low, m));
    TG_TRY(tg__lanes_make(m, m->setup.may_bypass || m->dense_steps > 0 ? x : NULL));
    if (p->low.count == 0)
        return TG_OK;
    TG_TRY(tg__method_alloc(m, p->nfirst, sizeof *p->mixed, &p->mixed));
    TG_TRY(tg__method_join(m, x, p->nfirst, m->f32, NULL, &p->first));
    return tg__method_join(m, x, p->low.nright, m->f32, NULL, &p->second);
}

static tg_status init(tg__method *m)
{
    TG_TRY(tg__powersgd_choose(m, m->impl));
    return tg__powersgd_make(m, m->impl);
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

/* Compute p of a step that was not flagged. */
static void form_products(tg__method *m, tg__task *task)
{
    program *p = m->impl;
    tg__lowrank_start(&p->low, m->setup.seed, task->step, p->warm);
    tg__lowrank_fold(&p->low, task->g, p->mixed);
    /* a sum that includes infinity is not finite either */
    if (tg__kernel()->all_finite(p->mixed, p->low.nleft))
        gather_others(p, task->g, m->n);
    else
        tg__forget(m, task);
}

static tg_status encode(tg__method *m, tg__task *task, tg__lane *l)
{
    program *p = m->impl;
    if (task->nonfinite)
        tg__lowrank_settle(&p->low, l->aggregate); /* from here on left may change */
    else
        form_products(m, task);
    l->running = p->first;
    return tg__put_values(p->first, l->was_nonfinite ? NULL : p->mixed, task);
}

static tg_status advance(tg__method *m, tg__task *task, tg__lane *l)
{
    program *p = m->impl;
    tg__exchange *x = l->running;
    if (x == p->first) {
        x->ops->result(x, p->mixed);
        scatter_others(p, l->aggregate, m->n);
        tg__lowrank_agree(&p->low, p->mixed);
        if (!l->was_nonfinite && !tg__lowrank_project(&p->low))
            task->overflow = "the product of what this rank remembers with the factor";
        l->running = p->second;
        return tg__put_values(p->second, l->was_nonfinite ? NULL : p->low.right, task);
    }
    memcpy(p->low.before, p->low.basis, p->low.nright * sizeof *p->low.basis);
    x->ops->result(x, p->low.basis);
    tg__lowrank_expand(&p->low, l->aggregate);
    if (tg__state_strays(p->low.basis, p->low.nright, NULL) &&
        !tg__parallel_finite(m->setup.pool, l->aggregate, m->n)) /* left is orthonormal */
        task->overflow = "the sum over ranks";
    l->running = NULL;
    return TG_OK;
}

static tg_status undo(tg__method *m, const tg__task *task)
{
    program *p = m->impl;
    if (m->lane[task->lane].was_coded)
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
    .impl_bytes = sizeof(program),
    .init = init,
    .encode = encode,
    .advance = advance,
    TG__IN_LANES,
    .undo = undo,
    .heal = heal,
    .foresee = foresee,
    .residual_norm = residual_norm,
};

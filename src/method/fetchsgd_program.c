/* FetchSGD's program: ranks sum count sketches of their gradients (sketch.h), and all find the same
 * large elements in what the sum has accumulated.
 *
 *   begin     table = sketch of g
 *   round 0   table = mean over ranks; from here on the same on all of them:
 *             u = m*u + table;  e = e + u       (nesterov: u = m*(u + table); e = e + u + table)
 *             x = estimates from e;  delta = the k largest |x|
 *             delta's cells of e become 0       (extract=subtract: e = e - sketch of delta)
 *             masking: delta's cells of u become 0
 *             aggregate = delta
 *
 * Units     e is in units of the gradient, as in the authors' code (_server_helper_sketched in
 *           github.com/kiddyboots216/CommEfficient, fed_aggregator.py): the optimizer applies the
 *           learning rate to delta. (Algorithm 1 of the paper adds eta u to e; that is the same as
 *           long as eta does not change.)
 * Zeroing   The paper's algorithm subtracts. But an estimate holds the noise of its cells, and a
 *           subtraction moves that noise to other cells, more of it in every step: training
 *           diverges with the default sketch (docs/methods.md). The authors' code sets the cells to
 *           0, with all that is in them.
 * Dense     Dense steps apply the mean gradient, without momentum; u and e stay.
 * Dropped   u and e become what they were before the step, on all ranks.
 * Limits    With a whole sketch the estimates are exact, so this is top-k of the mean gradient with
 *           momentum and common error feedback.
 * Keys      rows, ratio, density, momentum, nesterov, masking, extract, exchange
 * Source    Rothchild et al. 2020, arXiv:2007.07682, alg. 1 */
#include "base/mem.h"
#include "codec/sparse/topk_select.h"
#include "kernel/kernel.h"
#include "kernel/parallel.h"
#include "method/rehearsal.h"
#include "method/sketch.h"
#include "telegrad/spec.h"

#include <math.h>
#include <string.h>

typedef struct program {
    tg__sketch sketch;
    double momentum;
    bool nesterov, masking, zeroes;
    size_t k, cells;
    float *u, *e;         /* (cells) slots, the same on all ranks */
    float *u_old, *e_old; /* (cells) before the step, if it has `changed` them */
    bool changed;
    float *table; /* (cells) */
    tg__topk select;
    tg__topk_hint hint;
    tg__exchange *sum;
} program;

static tg__sketch shape(const tg_spec *spec, size_t n)
{
    return tg__sketch_shape(n, (size_t)tg_spec_int(spec, "rows"), tg_spec_real(spec, "ratio"));
}

/* The slots belong to the bucket; its first tensor names them. */
static tg_status make_slots(tg__method *m)
{
    program *p = m->impl;
    const tg__role role = TG__ROLE_REPLICATED;
    TG_TRY(tg__state_block(m->setup.state, role, TG__RESCALE_COPY, "sketch.velocity",
                           m->setup.tensor, &p->cells, 1, &p->u));
    return tg__state_block(m->setup.state, role, TG__RESCALE_COPY, "sketch.error", m->setup.tensor,
                           &p->cells, 1, &p->e);
}

static tg_status init(tg__method *m)
{
    program *p = m->impl;
    p->sketch = shape(m->spec, m->n);
    p->cells = tg__sketch_cells(&p->sketch);
    p->k = tg__topk_count(tg_spec_real(m->spec, "density"), m->n);
    p->masking = tg_spec_flag(m->spec, "masking");
    p->zeroes = strcmp(tg_spec_word(m->spec, "extract"), "zero") == 0;
    TG_TRY(tg__method_momentum(m, &p->momentum, &p->nesterov));
    TG_TRY(tg__lanes_make(m, m->setup.may_bypass ? tg__dense_exchange(m) : NULL));
    TG_TRY(tg__sketch_init(&p->sketch, m));
    TG_TRY(make_slots(m));
    TG_TRY(tg__method_alloc(m, p->cells, sizeof *p->table, &p->table));
    TG_TRY(tg__method_alloc(m, p->cells, sizeof *p->u_old, &p->u_old));
    TG_TRY(tg__method_alloc(m, p->cells, sizeof *p->e_old, &p->e_old));
    p->select.pool = m->setup.pool;
    TG_TRY(tg__topk_reserve(&p->select, tg__topk_room(&p->select, m->n, p->k)));
    return tg__method_join(m, tg__method_exchange(m), p->cells, m->f32, NULL, &p->sum);
}

static void fini(tg__method *m)
{
    tg__topk_free(&((program *)m->impl)->select);
}

static void foresee(const tg_spec *spec, const tg__method_setup *setup, tg__rehearsal *r)
{
    size_t n = 0;
    for (size_t i = 0; i < setup->count; i++)
        n += setup->len[i];
    const tg__sketch sketch = shape(spec, n);
    tg__rehearsal_add_dense(r, tg__exchange_find(setup->exchange), tg__sketch_cells(&sketch));
}

static tg_status encode(tg__method *m, tg__task *task, tg__lane *l)
{
    program *p = m->impl;
    p->changed = false;
    task->density = (double)p->k / (double)m->n;
    if (!task->nonfinite) {
        tg__sketch_make(&p->sketch, task->g, p->table, m->setup.pool);
        if (!tg__parallel_finite(m->setup.pool, p->table, p->cells)) {
            task->overflow = "the sketch of this rank's gradient";
            l->was_nonfinite = true;
        }
    }
    l->running = p->sum;
    TG_TRY(tg__put_values(p->sum, l->was_nonfinite ? NULL : p->table, task));
    task->kept = p->k; /* cells are not elements */
    return TG_OK;
}

/* Add the mean of the sketches to u, and u to e. Returns false if a value overflows. */
static bool accumulate(tg__method *m)
{
    program *p = m->impl;
    const tg__kernels *kernel = tg__kernel();
    memcpy(p->u_old, p->u, p->cells * sizeof *p->u);
    memcpy(p->e_old, p->e, p->cells * sizeof *p->e);
    p->changed = true;
    if (p->nesterov) {
        kernel->add(p->u, p->table, p->cells);
        kernel->scale(p->u, (float)p->momentum, p->cells);
        kernel->add(p->e, p->u, p->cells);
        kernel->add(p->e, p->table, p->cells);
    } else {
        kernel->scale(p->u, (float)p->momentum, p->cells);
        kernel->add(p->u, p->table, p->cells);
        kernel->add(p->e, p->u, p->cells);
    }
    return tg__parallel_finite(m->setup.pool, p->u, p->cells) &&
           tg__parallel_finite(m->setup.pool, p->e, p->cells);
}

/* Move the k largest elements out of e, to the aggregate. */
static tg_status extract(tg__method *m, float *aggregate)
{
    program *p = m->impl;
    tg__topk *found = &p->select;
    tg__sketch_estimate(&p->sketch, p->e, aggregate, m->setup.pool);
    found->count = 0;
    TG_TRY(tg__topk_select_from(found, &p->hint, aggregate, 0, m->n, p->k));
    memset(aggregate, 0, m->n * sizeof *aggregate);
    for (size_t i = 0; i < found->count; i++)
        aggregate[found->idx[i]] = found->val[i];
    if (p->zeroes)
        tg__sketch_clear(&p->sketch, p->e, found->idx, found->count);
    else
        tg__sketch_add(&p->sketch, p->e, -1, found->idx, found->val, found->count);
    if (p->masking)
        tg__sketch_clear(&p->sketch, p->u, found->idx, found->count);
    return TG_OK;
}

static tg_status advance(tg__method *m, tg__task *task, tg__lane *l)
{
    program *p = m->impl;
    p->sum->ops->result(p->sum, p->table);
    l->running = NULL;
    if (!accumulate(m)) {
        memset(l->aggregate, 0, m->n * sizeof *l->aggregate);
        task->overflow = "the sketch of what is not sent yet";
        return TG_OK;
    }
    return extract(m, l->aggregate);
}

static tg_status undo(tg__method *m, const tg__task *task)
{
    program *p = m->impl;
    if (!m->lane[task->lane].was_coded || !p->changed)
        return TG_OK;
    memcpy(p->u, p->u_old, p->cells * sizeof *p->u);
    memcpy(p->e, p->e_old, p->cells * sizeof *p->e);
    p->changed = false;
    return TG_OK;
}

static bool heal(tg__method *m, bool anyway)
{
    program *p = m->impl;
    if (!anyway && !tg__state_strays(p->u, p->cells, m->setup.pool) &&
        !tg__state_strays(p->e, p->cells, m->setup.pool))
        return false;
    memset(p->u, 0, p->cells * sizeof *p->u);
    memset(p->e, 0, p->cells * sizeof *p->e);
    return true;
}

/* Estimated: each row of e has about the norm of the vector. */
static double residual_norm(const tg__method *m)
{
    const program *p = m->impl;
    tg__stats stats;
    tg__parallel_copy_stats(m->setup.pool, NULL, p->e, p->cells, &stats);
    return sqrt(stats.sum_sq / (double)p->sketch.rows);
}

const tg__program_ops tg__fetchsgd_program = {
    .rounds = 1,
    .max_lanes = 1, /* u and e change when the sum has arrived */
    .impl_bytes = sizeof(program),
    .init = init,
    .fini = fini,
    .encode = encode,
    .advance = advance,
    TG__IN_LANES,
    .undo = undo,
    .heal = heal,
    .foresee = foresee,
    .residual_norm = residual_norm,
};

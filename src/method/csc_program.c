/* The program of CSC (coarse-grained sparse communication): all ranks agree on chunks of the
 * bucket, and exchange only those, densely.
 *
 *   begin     u = m*u + g;  v = v + u, as DGC does, with the L1 norm of each chunk of v
 *   round 0   sum the norms over ranks; all ranks choose the same k largest, ties to the lower
 *             index
 *   round 1   exchange v of these chunks, packed; there v = 0, and with masking u = 0
 *             aggregate = their mean, 0 elsewhere
 *
 * Chunks    `chunk` elements of the flat bucket, across tensors. The last may be shorter, and
 *           counts like the others. k = max(1, density * chunks), rounded. If all chunks are sent,
 *           there is no round 0.
 * Dense     Steps of the warm-up and dense steps send u in one dense exchange, and do not change v:
 *           this is momentum SGD.
 * Cost      One-way delays: 1 for the norms (2 if so many bytes cost more than a delay, see
 *           norms_name), plus those of the exchange of values (direct: 2).
 * Requires  feedback velocity; keys chunk, density, warmup, exchange
 * Source    Sun et al. 2019 (GradientFlow), arXiv:1902.06855 */
#include "base/mem.h"
#include "codec/sparse/topk_select.h"
#include "kernel/kernel.h"
#include "method/chunk_choice.h"
#include "method/rehearsal.h"
#include "telegrad/spec.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum { U, V };               /* vectors of velocity feedback */
enum { FULL, SHORT, KINDS }; /* k chunks without, or with, the last, shorter one */

typedef struct program {
    size_t chunk, count, k; /* elements of a chunk; number of chunks; chunks that a step sends */
    float *norm;            /* (count) this rank's norms, then those of all ranks */
    uint32_t *chosen;       /* (k) chunks, ascending; valid if nchosen */
    size_t nchosen;         /* k, or 0: none yet */
    /* values of the chosen chunks, adjacent: as sent by this rank, and their mean */
    float *packed, *mean;
    tg__exchange *agree;         /* sums the norms; NULL: all chunks are sent */
    tg__exchange *values[KINDS]; /* NULL: not needed */
} program;

/* ---- creating -------------------------------------------------------------------------------- */

/* Elements of a chunk of a vector of n, the same on all ranks. */
static size_t chunk_size(const tg_spec *spec, size_t n)
{
    return tg_spec_word(spec, "chunk")[0] != '\0' ? tg__chunk_for(n, tg_spec_real(spec, "density"))
                                                  : (size_t)tg_spec_int(spec, "chunk");
}

/* The bytes that take as long as a delay: about 1 ms at 100 Mb/s. */
enum { DELAY_BYTES = 16384 };

/* The exchange of the norms, with one delay or two. Both sum in rank order, so the bits are the
 * same. */
static const tg__exchange_ops *norms_exchange(int size, size_t count)
{
    const tg__exchange_ops *allgather = tg__exchange_find("allgather"),
                           *direct = tg__exchange_find("direct");
    const double frame = TG__FRAME_HEAD + 4.0 * (double)count;
    tg__cost one, two;
    allgather->cost(size, count, frame, &one);
    direct->cost(size, count, frame, &two);
    return one.serial <= two.serial + DELAY_BYTES ? allgather : direct;
}

static tg_status make_exchanges(tg__method *m)
{
    program *p = m->impl;
    const tg__exchange_ops *values = tg__method_exchange(m);
    const size_t most = p->k * p->chunk, rest = m->n % p->chunk; /* elements of the last chunk */
    if (p->k < p->count)
        TG_TRY(tg__method_join(m, values->apart ? values : norms_exchange(m->setup.size, p->count),
                               p->count, m->f32, NULL, &p->agree));
    if (p->k < p->count || rest == 0)
        TG_TRY(tg__method_join(m, values, most, m->f32, NULL, &p->values[FULL]));
    if (rest != 0)
        TG_TRY(tg__method_join(m, values, most - p->chunk + rest, m->f32, NULL, &p->values[SHORT]));
    return TG_OK;
}

static tg_status init(tg__method *m)
{
    program *p = m->impl;
    TG_TRY(tg__duration_end(tg_spec_duration(m->spec, "warmup"), tg__method_epochs(&m->setup),
                            "warmup", &m->dense_steps));
    TG_TRY(tg__lanes_make(m, m->setup.may_bypass || m->dense_steps > 0 ? tg__dense_exchange(m)
                                                                       : NULL));
    p->chunk = chunk_size(m->spec, m->n);
    p->count = (m->n + p->chunk - 1) / p->chunk;
    p->k = tg__topk_count(tg_spec_real(m->spec, "density"), p->count);
    const size_t room = TG__MIN(m->n, p->k * p->chunk);
    TG_TRY(tg__method_alloc(m, p->count, sizeof *p->norm, &p->norm));
    TG_TRY(tg__method_alloc(m, p->k, sizeof *p->chosen, &p->chosen));
    TG_TRY(tg__method_alloc(m, room, sizeof *p->packed, &p->packed));
    TG_TRY(tg__method_alloc(m, room, sizeof *p->mean, &p->mean));
    return make_exchanges(m);
}

/* All chunks have the same size, except that the last of the many may be shorter. */
static void foresee(const tg_spec *spec, const tg__method_setup *setup, tg__rehearsal *r)
{
    size_t n = 0;
    for (size_t i = 0; i < setup->count; i++)
        n += setup->len[i];
    const size_t chunk = chunk_size(spec, n);
    const size_t count = (n + chunk - 1) / chunk;
    const size_t k = tg__topk_count(tg_spec_real(spec, "density"), count);
    if (k < count)
        tg__rehearsal_add_dense(r, norms_exchange(setup->size, count), count);
    tg__rehearsal_add_dense(r, tg__exchange_find(setup->exchange), TG__MIN(n, k * chunk));
}

/* ---- chunks ---------------------------------------------------------------------------------- */

/* The offset of the i-th chosen chunk, its length, and its offset in the packed values. */
static size_t chosen_chunk(const tg__method *m, size_t i, size_t *len_p)
{
    const program *p = m->impl;
    const size_t at = p->chosen[i] * p->chunk;
    *len_p = TG__MIN(p->chunk, m->n - at);
    return at;
}

typedef struct pass {
    const tg__method *m;
    const float *g;
    float *aggregate;
    atomic_bool spoilt; /* [out] v has an element that is not finite */
} pass;

/* A norm such that the sum over ranks stays finite. If v is not finite, its sum is NaN. */
static float as_norm(pass *a, double sum)
{
    const double most = (double)FLT_MAX / a->m->setup.size / 2;
    if (!isfinite(sum))
        atomic_store(&a->spoilt, true);
    return (float)fmin(sum, most);
}

/* Update u and v, and compute the norms, of the chunks in [lo, hi). */
static void accumulate(void *arg, size_t lo, size_t hi)
{
    pass *a = arg;
    const program *p = a->m->impl;
    const tg__feedback *f = a->m->feedback;
    for (size_t at = lo; at < hi; at += p->chunk)
        p->norm[at / p->chunk] =
            as_norm(a, tg__kernel()->dgc_sum_abs(f->vec[U] + at, f->vec[V] + at, a->g + at,
                                                 TG__MIN(p->chunk, hi - at),
                                                 (float)f->params.momentum, f->params.nesterov));
}

/* Move the i-th chosen chunk out of v. */
static void pack(void *arg, size_t i)
{
    const tg__method *m = arg;
    const program *p = m->impl;
    size_t len;
    const size_t at = chosen_chunk(m, i, &len);
    float *v = m->feedback->vec[V] + at;
    memcpy(p->packed + i * p->chunk, v, len * sizeof *v);
    memset(v, 0, len * sizeof *v);
    if (m->feedback->params.masking)
        memset(m->feedback->vec[U] + at, 0, len * sizeof *v);
}

/* Copy the mean of the i-th chosen chunk to its place. */
static void unpack(void *arg, size_t i)
{
    const pass *a = arg;
    const program *p = a->m->impl;
    size_t len;
    const size_t at = chosen_chunk(a->m, i, &len);
    memcpy(a->aggregate + at, p->mean + i * p->chunk, len * sizeof *p->mean);
}

static void clear(void *arg, size_t i)
{
    const pass *a = arg;
    size_t len;
    const size_t at = chosen_chunk(a->m, i, &len);
    memset(a->aggregate + at, 0, len * sizeof *a->aggregate);
}

/* ---- the rounds ------------------------------------------------------------------------------ */

/* The chunks are known: put their values. */
static tg_status put_values(tg__method *m, tg__task *task, tg__lane *l)
{
    program *p = m->impl;
    const bool shorter = p->chosen[p->k - 1] == p->count - 1 && p->values[SHORT] != NULL;
    p->nchosen = p->k;
    if (!l->was_nonfinite)
        tg__pool_run(m->setup.pool, p->k, pack, m);
    l->running = p->values[shorter ? SHORT : FULL];
    return tg__put_values(l->running, l->was_nonfinite ? NULL : p->packed, task);
}

static tg_status encode(tg__method *m, tg__task *task, tg__lane *l)
{
    program *p = m->impl;
    pass a = {.m = m, .aggregate = l->aggregate};
    task->density = (double)p->k / (double)p->count;
    if (l->full)
        memset(l->aggregate, 0, m->n * sizeof *l->aggregate);
    else
        tg__pool_run(m->setup.pool, p->nchosen, clear, &a);
    l->full = false;
    p->nchosen = 0;
    if (!task->nonfinite) {
        a.g = tg__method_clip(m, task->g);
        tg__pool_chunks(m->setup.pool, m->n, p->chunk, accumulate, &a);
        if (a.spoilt)
            tg__forget(m, task);
    }
    if (p->agree == NULL) {
        for (size_t i = 0; i < p->k; i++)
            p->chosen[i] = (uint32_t)i;
        return put_values(m, task, l);
    }
    l->running = p->agree;
    TG_TRY(tg__put_values(p->agree, l->was_nonfinite ? NULL : p->norm, task));
    task->kept = 0; /* norms are not elements */
    return TG_OK;
}

static tg_status advance(tg__method *m, tg__task *task, tg__lane *l)
{
    program *p = m->impl;
    tg__exchange *x = l->running;
    if (x == p->agree) {
        x->ops->result(x, p->norm);
        tg__chunks_choose(p->norm, p->count, p->k, p->chosen);
        return put_values(m, task, l);
    }
    x->ops->result(x, p->mean);
    tg__pool_run(m->setup.pool, p->k, unpack, &(pass){.m = m, .aggregate = l->aggregate});
    l->running = NULL;
    return TG_OK;
}

/* Return the own values to v. u stays masked, as in DGC. */
static tg_status undo(tg__method *m, const tg__task *task)
{
    const program *p = m->impl;
    const tg__lane *l = &m->lane[task->lane];
    for (size_t i = 0; l->was_coded && !l->was_nonfinite && i < p->nchosen; i++) {
        size_t len;
        const size_t at = chosen_chunk(m, i, &len);
        tg__kernel()->add(m->feedback->vec[V] + at, p->packed + i * p->chunk, len);
    }
    return TG_OK;
}

const tg__program_ops tg__csc_program = {
    .rounds = 2,
    .max_lanes = 1, /* only the end of the first round shows which part of v was sent */
    .impl_bytes = sizeof(program),
    .init = init,
    .encode = encode,
    .advance = advance,
    TG__IN_LANES,
    .undo = undo,
    .foresee = foresee,
};

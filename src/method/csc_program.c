#include "method/csc_program.h"
#include "base/mem.h"
#include "codec/sparse/topk_select.h"
#include "kernel/kernel.h"
#include "method/chunk_choice.h"
#include "method/rehearsal.h"
#include "telegrad/spec.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { U, V };               /* vectors of velocity feedback */
enum { FULL, SHORT, KINDS }; /* k chunks without, or with, the last, shorter one */

typedef struct program {
    tg_codec *f32;
    uint64_t warmup;
    size_t chunk, count, k; /* elements of a chunk; number of chunks; chunks that a step sends */
    float *norm;            /* (count) this rank's norms, then those of all ranks */
    uint32_t *chosen;       /* (k) chunks, ascending; valid if nchosen */
    size_t nchosen;         /* k, or 0: none yet */
    /* values of the chosen chunks, adjacent: as sent by this rank, and their mean */
    float *packed, *mean;
    float *scratch;      /* (n) NULL: not needed */
    size_t *tensor;      /* (setup.count) offsets of the tensors, for clipping; NULL: off */
    tg__exchange *agree; /* sums the norms; NULL: all chunks are sent */
    tg__exchange *values[KINDS], *dense; /* NULL: not needed */
    tg__exchange *running;
    float *aggregate; /* (n) 0 outside the chosen chunks, unless `full` */
    bool full, was_coded, was_nonfinite;
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

static tg_status make_exchange(tg__method *m, const tg__exchange_ops *ops, size_t n,
                               tg__exchange **x_p)
{
    TG_TRY(tg__exchange_create(ops, m->setup.rank, m->setup.size, n, ((program *)m->impl)->f32,
                               &tg__combine_mean, x_p));
    (*x_p)->pool = m->setup.pool;
    return TG_OK;
}

static tg_status make_exchanges(tg__method *m)
{
    program *p = m->impl;
    const tg__exchange_ops *values = tg__method_exchange(m), *none = tg__exchange_find("none");
    const bool apart = values == none;
    const size_t most = p->k * p->chunk, rest = m->n % p->chunk; /* elements of the last chunk */
    if (p->k < p->count)
        TG_TRY(make_exchange(m, apart ? none : norms_exchange(m->setup.size, p->count), p->count,
                             &p->agree));
    if (p->k < p->count || rest == 0)
        TG_TRY(make_exchange(m, values, most, &p->values[FULL]));
    if (rest != 0)
        TG_TRY(make_exchange(m, values, most - p->chunk + rest, &p->values[SHORT]));
    if (m->setup.may_bypass || p->warmup > 0)
        return make_exchange(m, apart ? none : tg__exchange_find("direct"), m->n, &p->dense);
    return TG_OK;
}

static tg_status make_clip(tg__method *m)
{
    program *p = m->impl;
    if (m->feedback->params.clip == 0)
        return TG_OK;
    TG_TRY(tg_alloc(m->setup.count, sizeof *p->tensor, &p->tensor));
    for (size_t i = 1; i < m->setup.count; i++)
        p->tensor[i] = p->tensor[i - 1] + m->setup.len[i - 1];
    return TG_OK;
}

static tg_status init(tg__method *m)
{
    program *p;
    TG_TRY(tg_alloc(1, sizeof *p, &p));
    m->impl = p;
    TG_TRY(tg_codec_create("f32", &p->f32));
    p->f32->pool = m->setup.pool;
    TG_TRY(tg__duration_end(tg_spec_duration(m->spec, "warmup"), tg__method_epochs(&m->setup),
                            "warmup", &p->warmup));
    p->chunk = chunk_size(m->spec, m->n);
    p->count = (m->n + p->chunk - 1) / p->chunk;
    p->k = tg__topk_count(tg_spec_real(m->spec, "density"), p->count);
    const size_t room = TG__MIN(m->n, p->k * p->chunk);
    TG_TRY(tg_alloc(p->count, sizeof *p->norm, &p->norm));
    TG_TRY(tg_alloc(p->k, sizeof *p->chosen, &p->chosen));
    TG_TRY(tg_alloc(room, sizeof *p->packed, &p->packed));
    TG_TRY(tg_alloc(room, sizeof *p->mean, &p->mean));
    TG_TRY(tg_alloc(m->n, sizeof *p->aggregate, &p->aggregate));
    TG_TRY(make_clip(m));
    TG_TRY(make_exchanges(m));
    if (p->tensor != NULL || (p->dense != NULL && m->feedback->params.nesterov))
        return tg_alloc(m->n, sizeof *p->scratch, &p->scratch);
    return TG_OK;
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

static void fini(tg__method *m)
{
    program *p = m->impl;
    tg__exchange_destroy(p->agree);
    tg__exchange_destroy(p->values[FULL]);
    tg__exchange_destroy(p->values[SHORT]);
    tg__exchange_destroy(p->dense);
    free(p->norm);
    free(p->chosen);
    free(p->packed);
    free(p->mean);
    free(p->scratch);
    free(p->tensor);
    free(p->aggregate);
    tg_codec_destroy(p->f32);
    free(p);
    m->impl = NULL;
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
    const tg__method *m = arg;
    const program *p = m->impl;
    size_t len;
    const size_t at = chosen_chunk(m, i, &len);
    memcpy(p->aggregate + at, p->mean + i * p->chunk, len * sizeof *p->mean);
}

static void clear(void *arg, size_t i)
{
    const tg__method *m = arg;
    size_t len;
    const size_t at = chosen_chunk(m, i, &len);
    memset(((program *)m->impl)->aggregate + at, 0, len * sizeof(float));
}

/* Set the whole aggregate to 0. */
static void clear_aggregate(tg__method *m)
{
    program *p = m->impl;
    if (p->full)
        memset(p->aggregate, 0, m->n * sizeof *p->aggregate);
    else
        tg__pool_run(m->setup.pool, p->nchosen, clear, m);
    p->full = false;
    p->nchosen = 0;
}

/* ---- the rounds ------------------------------------------------------------------------------ */

/* Put the values into x and count the bytes; values NULL: zeros. */
static tg_status put(tg__method *m, tg__task *task, tg__exchange *x, const float *values)
{
    ((program *)m->impl)->running = x;
    return tg__put_values(x, values, task);
}

/* The chunks are known: put their values. */
static tg_status put_values(tg__method *m, tg__task *task)
{
    program *p = m->impl;
    const bool shorter = p->chosen[p->k - 1] == p->count - 1 && p->values[SHORT] != NULL;
    p->nchosen = p->k;
    if (!p->was_nonfinite)
        tg__pool_run(m->setup.pool, p->k, pack, m);
    return put(m, task, p->values[shorter ? SHORT : FULL], p->was_nonfinite ? NULL : p->packed);
}

/* The gradient as it enters the feedback. */
static const float *clip(const tg__method *m, const float *g)
{
    const program *p = m->impl;
    if (p->tensor == NULL)
        return g;
    tg__clip_tensors(p->scratch, g, p->tensor, m->setup.len, m->setup.count,
                     m->feedback->params.clip, m->feedback->params.world);
    return p->scratch;
}

/* Reset what overflowed f32 and inform all ranks; from here on this rank sends zeros. */
static void forget(tg__method *m, tg__task *task)
{
    program *p = m->impl;
    (void)tg__method_heal(m, true);
    task->overflow = TG__FORGOT;
    p->was_nonfinite = true;
}

static tg_status begin_coded(tg__method *m, tg__task *task)
{
    program *p = m->impl;
    task->density = (double)p->k / (double)p->count;
    clear_aggregate(m);
    if (!task->nonfinite) {
        pass a = {.m = m, .g = clip(m, task->g)};
        tg__pool_chunks(m->setup.pool, m->n, p->chunk, accumulate, &a);
        if (a.spoilt)
            forget(m, task);
    }
    if (p->agree == NULL) {
        for (size_t i = 0; i < p->k; i++)
            p->chosen[i] = (uint32_t)i;
        return put_values(m, task);
    }
    TG_TRY(put(m, task, p->agree, p->was_nonfinite ? NULL : p->norm));
    task->kept = 0; /* norms are not elements */
    return TG_OK;
}

static tg_status begin(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *p = m->impl;
    const float *sent = NULL;
    p->was_coded = task->coded && task->step >= p->warmup;
    p->was_nonfinite = task->nonfinite;
    task->density = 1;
    task->coded_bytes = task->kept = 0;
    task->fell_back = false;
    if (p->was_coded) {
        TG_TRY(begin_coded(m, task));
    } else {
        if (!task->nonfinite &&
            !m->feedback->ops->bypass(m->feedback, clip(m, task->g), m->n, p->scratch, &sent))
            forget(m, task);
        TG_TRY(put(m, task, p->dense, p->was_nonfinite ? NULL : sent));
    }
    *x_p = p->running;
    return TG_OK;
}

static tg_status next(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    program *p = m->impl;
    tg__exchange *x = p->running;
    *x_p = NULL;
    if (x == p->dense) {
        x->ops->result(x, p->aggregate);
        p->full = true;
    } else if (x == p->agree) {
        x->ops->result(x, p->norm);
        tg__chunks_choose(p->norm, p->count, p->k, p->chosen);
        TG_TRY(put_values(m, task));
        *x_p = p->running;
    } else {
        x->ops->result(x, p->mean);
        tg__pool_run(m->setup.pool, p->k, unpack, m);
    }
    return TG_OK;
}

static const float *aggregate(tg__method *m, const tg__task *task)
{
    (void)task;
    return ((program *)m->impl)->aggregate;
}

/* Return the own values to v. u stays masked, as in DGC. */
static tg_status undo(tg__method *m, const tg__task *task)
{
    const program *p = m->impl;
    (void)task;
    for (size_t i = 0; p->was_coded && !p->was_nonfinite && i < p->nchosen; i++) {
        size_t len;
        const size_t at = chosen_chunk(m, i, &len);
        tg__kernel()->add(m->feedback->vec[V] + at, p->packed + i * p->chunk, len);
    }
    return TG_OK;
}

const tg__program_ops tg__csc_program = {
    .rounds = 2,
    .max_lanes = 1, /* only the end of the first round shows which part of v was sent */
    .init = init,
    .fini = fini,
    .begin = begin,
    .next = next,
    .aggregate = aggregate,
    .undo = undo,
    .foresee = foresee,
};

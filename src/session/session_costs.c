/* The costs of the session's own work, for simulated clocks. They are measured with methods set up
 * like the buckets' own for a world of one rank, at a step after every warm-up; an optimizer's
 * update is measured on vectors of its own. The result is the median of some repetitions, in
 * processor time of the calling thread, or in wall-clock time if codecs use several threads. */
#include "session/session_impl.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "base/sized.h"
#include "method/rehearsal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPEATS = 5 }; /* not counting the first, which is slower */

static int64_t work_ns(const tg_session *s)
{
    struct timespec t;
    clock_gettime(s->pool == NULL ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sorts v (REPEATS). */
static int64_t median(int64_t *v)
{
    qsort(v, REPEATS, sizeof *v, by_value);
    return v[REPEATS / 2];
}

/* One operation, as the engine runs it. */
typedef struct times {
    int64_t encode, start, finish; /* start: with the own frames decoded ... */
    int64_t decode;                /* the part of `start` that decodes them */
    double frames;                 /* their size in bytes */
    int64_t rounds;
} times;

/* Decode the frames of x once more, and measure the time. sum (x->n): scratch */
static int64_t time_decoding(const tg_session *s, const tg__exchange *x, float *sum, double *frames)
{
    const int64_t since = work_ns(s);
    for (size_t i = 0; i < x->nparts; i++) {
        const tg__part *p = &x->parts[i];
        x->combine->add(sum + p->lo, p->hi - p->lo, p->dst, p->len, x->pool);
        *frames += (double)p->len;
    }
    return work_ns(s) - since;
}

/* sum (m->n): scratch */
static tg_status play(const tg_session *s, tg__method *m, const float *g, bool coded, uint64_t step,
                      float *sum, times *t)
{
    tg__task task = {.step = step, .g = g, .coded = coded, .eta = s->lr};
    tg__exchange *x = NULL;
    int64_t since = work_ns(s);
    *t = (times){0};
    TG_TRY(m->def->program->begin(m, &task, &x));
    t->encode = work_ns(s) - since;
    for (; x != NULL; t->rounds++) {
        t->decode += x->n > m->n ? 0 : time_decoding(s, x, sum, &t->frames);
        since = work_ns(s);
        TG_TRY(x->ops->start(x)); /* with one rank, this completes it */
        t->start += work_ns(s) - since;
        task.round++;
        since = work_ns(s);
        TG_TRY(m->def->program->next(m, &task, &x));
        t->finish += work_ns(s) - since;
    }
    return TG_OK;
}

static tg_status measure_operations(const tg_session *s, tg__method *m, const float *g, bool coded,
                                    float *sum, tg_bucket_cost *cost)
{
    int64_t encode[REPEATS], start[REPEATS], finish[REPEATS], decode_ps[REPEATS];
    times t;
    TG_TRY(play(s, m, g, coded, TG__LATE, sum, &t));
    for (size_t i = 0; i < REPEATS; i++) {
        TG_TRY(play(s, m, g, coded, TG__LATE + 1 + i, sum, &t));
        encode[i] = t.encode;
        start[i] = t.rounds > 0 ? TG__MAX(t.start - t.decode, 0) / t.rounds : 0;
        finish[i] = t.rounds > 0 ? t.finish / t.rounds : 0;
        decode_ps[i] = t.frames > 0 ? (int64_t)(1000 * (double)t.decode / t.frames) : 0;
    }
    cost->encode_ns[coded] = median(encode);
    cost->start_ns[coded] = median(start);
    cost->finish_ns[coded] = median(finish);
    cost->decode_byte_ps[coded] = median(decode_ps);
    return TG_OK;
}

static tg_status measure_method(const tg_session *s, const bucket *b, uint32_t index,
                                const float *g, tg_bucket_cost *cost)
{
    tg__method_setup setup = {.size = 1,
                              .measures = true,
                              .lanes = 1,
                              .may_bypass = s->strategy->ops->bypasses,
                              .exchange = b->exchange,
                              .pool = s->pool};
    tg__method *m = NULL;
    TG__FREED float *sum = NULL;
    TG_TRY(tg_alloc(b->n, sizeof *sum, &sum));
    tg_status status = tg__state_create(&setup.state);
    if (status == TG_OK)
        status = tg__session_method(s, b, index, setup, &m);
    if (status == TG_OK)
        status = measure_operations(s, m, g, true, sum, cost);
    if (status == TG_OK && setup.may_bypass)
        status = measure_operations(s, m, g, false, sum, cost);
    tg__method_destroy(m);
    tg__state_destroy(setup.state);
    return status;
}

/* g (n); room: (2 + slots, n) */
static void measure_update(const tg_session *s, const tg_optimizer *o, const float *g, size_t n,
                           float *room, float **slot, tg_bucket_cost *cost)
{
    int64_t took[REPEATS];
    const tg_update update = {.lr = s->lr, .number = 1, .ndim = 2};
    memcpy(room, g, n * sizeof *g);
    for (size_t i = 0; i < tg_optimizer_slots(o); i++)
        slot[i] = room + (1 + i) * n;
    for (int i = -1; i < REPEATS; i++) {
        const int64_t since = work_ns(s);
        o->ops->step(o, &update, room, room, g, n, slot);
        if (i >= 0)
            took[i] = work_ns(s) - since;
    }
    cost->apply_ns = median(took);
}

static tg_status measure_apply(const tg_session *s, const bucket *b, const float *g,
                               tg_bucket_cost *cost)
{
    const tg_optimizer *own = s->wtensor[b->member[0]].optimizer;
    const tg_optimizer *o = own == NULL ? s->optimizer : own;
    TG__FREED float *room = NULL, **slot = NULL;
    TG_TRY(tg_alloc((1 + tg_optimizer_slots(o)) * b->n, sizeof *room, &room));
    TG_TRY(tg_alloc(1 + tg_optimizer_slots(o), sizeof *slot, &slot));
    measure_update(s, o, g, b->n, room, slot, cost);
    return TG_OK;
}

#define FIRST_COST TG__FIRST_SIZE(tg_bucket_cost, apply_ns)

static tg_status measure_buckets(const tg_session *s, size_t count, tg_bucket_cost *cost)
{
    for (uint32_t b = 0; b < count; b++) {
        const bucket *one = &s->bucket[b];
        tg_bucket_cost measured = {0};
        TG__FREED float *g = NULL;
        TG_TRY(tg__rehearsal_gradient(s->config.seed, one->n, &g));
        TG_TRY(measure_method(s, one, b, g, &measured));
        TG_TRY(measure_apply(s, one, g, &measured));
        cost[b] = measured;
    }
    return TG_OK;
}

tg_status tg__session_tell_costs(const char *what, const tg_session *s, size_t room,
                                 tg_bucket_cost *cost, size_t *count_p)
{
    const size_t count = TG__MIN(room, s->nbuckets);
    TG__FREED tg_bucket_cost *own = NULL;
    if (room > 0)
        TG_TRY(tg__sized_array(what, cost, FIRST_COST));
    TG_TRY(tg_alloc(count, sizeof *own, &own));
    TG_TRY(measure_buckets(s, count, own));
    tg__sized_array_out(cost, own, sizeof *own, count);
    *count_p = s->nbuckets;
    return TG_OK;
}

tg_status tg__session_take_costs(const char *what, tg_session *s, const tg_bucket_cost *cost)
{
    TG__FREED tg_bucket_cost *own = NULL;
    TG_TRY(tg_alloc(s->nbuckets, sizeof *own, &own));
    TG_TRY(tg__sized_array_in(what, own, sizeof *own, FIRST_COST, cost, s->nbuckets));
    if (s->costs == NULL)
        TG_TRY(tg__owned_alloc(&s->owned, s->nbuckets, sizeof *s->costs, &s->costs));
    for (size_t b = 0; b < s->nbuckets; b++) {
        for (int coded = 0; coded < 2; coded++)
            s->costs[b].of[coded] = (tg__costs){.encode_ns = own[b].encode_ns[coded],
                                                .start_ns = own[b].start_ns[coded],
                                                .finish_ns = own[b].finish_ns[coded],
                                                .decode_byte_ps = own[b].decode_byte_ps[coded]};
        s->costs[b].apply_ns = own[b].apply_ns;
    }
    return TG_OK;
}

tg_status tg_session_measure(tg_session *s, size_t room, tg_bucket_cost *cost, size_t *count_p)
{
    TG__OWN_FLOATS;
    TG__ARG(s);
    if (room > 0)
        TG__ARG(cost);
    TG__ARG(count_p);
    TG_TRY(tg__session_begun(s, "tg_session_measure"));
    return tg__session_tell_costs("tg_session_measure: cost", s, room, cost, count_p);
}

tg_status tg_session_set_costs(tg_session *s, const tg_bucket_cost *cost, size_t count)
{
    TG__OWN_FLOATS;
    TG__ARGS(s, cost);
    TG_TRY(tg__session_begun(s, "tg_session_set_costs"));
    if (count != s->nbuckets)
        return tg_fail(TG_E_MISMATCH, "costs of %zu buckets, but the session has %zu", count,
                       s->nbuckets);
    TG_TRY(tg__session_failed(s, tg__session_await_all(s))); /* those in flight read the costs */
    return tg__session_take_costs("tg_session_set_costs: cost", s, cost);
}

/* One rank of the job: gradients and a method, step after step over one transport after another. */
#include "base/mem.h"
#include "bench/exchange/exchange_impl.h"
#include "telegrad/clock.h"
#include "telegrad/spec.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A step past every warm-up of a density. */
#define FIRST_STEP UINT64_C(1000000)
/* SEQUENCES is one less than there are: the last sequence carries the messages between steps. */
enum { WARM_UP = 2, SAMPLES_MIN = 3, LATE = 4, SEQUENCES = TG__SEQUENCES - 1 };

typedef struct lane { /* one transport */
    tg__pump pump;
    turn *u;
} lane;

typedef struct rank {
    rank_job *job;
    int rank, size;
    float *g[2]; /* (n) gradients, taken in turn */
    tg__state *state;
    tg__method *m;
    uint64_t step;
    uint32_t sequence;
    lane *lane; /* (runs) */
    tg__flight flight;
    behind *behind; /* NULL: nothing is launched behind */
    /* Of the step: */
    step_round rounds[BENCH_ROUNDS];
    size_t nrounds;
    char exchange[64];
} rank;

static double now_ns(const lane *l)
{
    return (double)tg_now_ns(l->pump.transport->clock);
}

static double processor_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ---- a step ---------------------------------------------------------------------------------- */

static tg_status note_round(rank *r, const tg__exchange *x, step_figures *f)
{
    const size_t i = r->nrounds, at = strlen(r->exchange);
    if (i == BENCH_ROUNDS)
        return tg_fail(TG_E_UNSUPPORTED, "%.64s: more than %d exchanges a step", r->job->method,
                       BENCH_ROUNDS);
    /* Blocks that are encoded again are not f32, which the cost() of `direct` assumes. */
    r->rounds[i].ops = x->recode ? tg__exchange_find("reducescatter") : x->ops;
    r->rounds[i].n = x->n;
    f->frame[i] = bench_frame_bytes(x);
    snprintf(r->exchange + at, sizeof r->exchange - at, "%s%s", i ? "+" : "", x->ops->entry.name);
    r->nrounds++;
    tg__cost cost;
    x->ops->cost(r->size, x->n, f->frame[i], &cost);
    return bench_check_memory(r->job->o, (size_t)r->size, cost.bytes);
}

static uint32_t next_sequence(rank *r)
{
    return r->sequence = (r->sequence + 1) % SEQUENCES;
}

static tg_status one_exchange(rank *r, lane *l, tg__exchange *x, step_figures *f)
{
    r->flight.x = x;
    r->flight.step = r->step;
    r->flight.sequence = next_sequence(r);
    TG_TRY(tg__pump_launch(&l->pump, &r->flight));
    if (r->behind && r->flight.program_round == 0)
        TG_TRY(behind_run(r->behind, &l->pump, &r->flight, next_sequence(r), &f->behind_ns));
    while (!r->flight.finished)
        TG_TRY(tg__pump_run(&l->pump, INT64_MAX));
    f->codec_ns += (double)r->flight.combine_ns;
    f->bytes += (double)r->flight.bytes_sent;
    return TG_OK;
}

static tg_status take_step(rank *r, lane *l, step_figures *f)
{
    const tg__program_ops *program = r->m->def->program;
    tg__task task = {.step = r->step, .g = r->g[r->step % 2], .coded = true, .eta = 0.125};
    tg__exchange *x = NULL;
    const double begin = now_ns(l), processor = processor_ns();
    *f = (step_figures){0};
    r->nrounds = 0;
    r->exchange[0] = '\0';
    TG_TRY(program->begin(r->m, &task, &x));
    double from = begin;
    for (r->flight.program_round = 0; x; r->flight.program_round++) {
        TG_TRY(note_round(r, x, f));
        f->codec_ns += now_ns(l) - from;
        TG_TRY(one_exchange(r, l, x, f));
        from = now_ns(l);
        TG_TRY(program->next(r->m, &task, &x));
    }
    if (program->absorb)
        program->absorb(r->m, &task);
    const double end = now_ns(l);
    f->codec_ns += end - from;
    f->ns = end - begin;
    f->processor_ns = processor_ns() - processor;
    r->step++;
    return TG_OK;
}

/* ---- a run over one transport ---------------------------------------------------------------- */

/* Whether there are enough steps, or the time is up. */
static bool over(const step_samples *s, double spent, double seconds)
{
    return s->count == BENCH_SAMPLES || (s->count >= SAMPLES_MIN && spent > seconds) ||
           (s->count >= 1 && spent > LATE * seconds);
}

/* One step of all ranks over a lane, if rank 0 wants one: *more_p is rank 0's decision, which the
 * other ranks receive. Rank 0 adds the step to s, which may be NULL. */
static tg_status together(rank *r, lane *l, bool *more_p, step_samples *s)
{
    step_figures mine;
    TG_TRY(turn_begin(l->u, more_p));
    if (!*more_p)
        return TG_OK;
    TG_TRY(take_step(r, l, &mine));
    TG_TRY(turn_end(l->u, &mine));
    if (r->rank == 0 && s)
        bench_step_add(s, turn_figures(l->u), r->size, r->rounds, r->nrounds);
    return TG_OK;
}

/* Take steps over a lane, alternating with as many with the network off (off; NULL: none), so that
 * other load on the machine affects both alike. If steps are quick, the first ones only warm up. */
static tg_status take_steps(rank *r, lane *l, step_samples *s, lane *off, step_samples *without)
{
    const double begin = now_ns(l), seconds = r->job->o->seconds;
    bool more = true, warm = false;
    for (size_t taken = 0;; taken++) {
        const double spent = (now_ns(l) - begin) * 1e-9;
        warm = warm || taken == WARM_UP || spent > seconds;
        more = r->rank != 0 || !over(s, spent, seconds);
        TG_TRY(together(r, l, &more, warm ? s : NULL));
        if (!more)
            return TG_OK;
        if (off)
            TG_TRY(together(r, off, &more, warm ? without : NULL));
    }
}

static bench_exchange_row row_of(const rank *r, size_t i)
{
    const rank_job *job = r->job;
    return (bench_exchange_row){.method = job->method,
                                .workers = (size_t)r->size,
                                .elements = job->o->n,
                                .tensors = job->layout->count,
                                .behind = job->o->behind,
                                .link = &job->run[i]};
}

/* Seconds that take_steps needs if a step takes `step`. */
static double time_of_steps(double step, double seconds)
{
    step_samples s = {.count = 0};
    bool warm = false;
    size_t taken = 0;
    for (; step > 0 && taken < WARM_UP + BENCH_SAMPLES; taken++) {
        const double spent = (double)taken * step;
        warm = warm || taken == WARM_UP || spent > seconds;
        if (over(&s, spent, seconds))
            break;
        s.count += warm;
    }
    return (double)taken * step;
}

/* Announce a row. With the network off (off; NULL: it is always on), a step shows what will be sent
 * over the link, and so how long that takes. */
static tg_status announce(rank *r, size_t i, lane *off)
{
    const rank_job *job = r->job;
    bench_exchange_row row = row_of(r, i);
    double seconds = NAN;
    bool more = true;
    step_samples *s;
    TG_TRY(tg_alloc(1, sizeof *s, &s));
    tg_status status = off ? together(r, off, &more, s) : TG_OK;
    if (status == TG_OK && off && r->rank == 0) {
        bench_step_row(s, s, &row);
        seconds = time_of_steps((row.wire_ms + row.codec_ms.median) * 1e-3, job->o->seconds);
    }
    free(s);
    row = row_of(r, i);
    if (status == TG_OK && r->rank == 0 && job->o->begin)
        status = job->o->begin(job->o->arg, &row, seconds);
    return status;
}

static tg_status give_out(const rank *r, size_t i, const step_samples *s,
                          const step_samples *without)
{
    const rank_job *job = r->job;
    bench_exchange_row row = row_of(r, i);
    snprintf(row.exchange, sizeof row.exchange, "%s", r->exchange);
    bench_step_row(s, without, &row);
    return job->o->row(job->o->arg, &row);
}

static tg_status run(rank *r, size_t i)
{
    const rank_job *job = r->job;
    lane *off = i > 0 && !job->run[0].real ? &r->lane[0] : NULL;
    step_samples *s;
    TG_TRY(announce(r, i, off));
    TG_TRY(tg_alloc(2, sizeof *s, &s));
    tg_status status = take_steps(r, &r->lane[i], s, off, s + 1);
    if (status == TG_OK && r->rank == 0)
        status = give_out(r, i, s, off ? s + 1 : s);
    free(s);
    return status;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* `auto` is refused: this benchmark compares the exchanges that `auto` chooses from. */
static tg_status check_method(const char *text)
{
    tg_spec *spec;
    const tg__method_def *def;
    TG_TRY(tg__method_parse(text, &spec, &def));
    const bool is_auto = tg__method_is_auto(spec);
    tg_spec_free(spec);
    if (is_auto)
        return tg_fail(TG_E_SPEC, "method \"%s\": exchange=auto: allowed here: a name", text);
    return TG_OK;
}

static tg_status make_method(rank *r)
{
    TG_TRY(check_method(r->job->method));
    TG_TRY(tg__state_create(&r->state));
    const tg__method_setup setup = bench_method_setup(r->job->layout, r->rank, r->size, r->state);
    return tg__method_create(r->job->method, &setup, &r->m);
}

/* A single message on a slow link may take minutes. */
#define PATIENCE_NS (INT64_C(600) * 1000000000)

static tg_status open_lanes(rank *r)
{
    const rank_job *job = r->job;
    TG_TRY(tg_alloc(job->runs, sizeof *r->lane, &r->lane));
    for (size_t i = 0; i < job->runs; i++) {
        tg__pump_init(&r->lane[i].pump, job->t[i], 0, PATIENCE_NS);
        TG_TRY(turn_open(job->t[i], &r->lane[i].u));
    }
    return TG_OK;
}

static tg_status open_rank(rank *r)
{
    const size_t n = r->job->o->n;
    TG_TRY(make_method(r));
    for (uint32_t i = 0; i < 2; i++) {
        TG_TRY(tg_alloc(n, sizeof(float), &r->g[i]));
        TG_TRY(bench_draw(r->g[i], n, 2 * (uint32_t)r->rank + i));
    }
    if (r->job->o->behind > 0)
        TG_TRY(behind_open(r->rank, r->size, r->job->o->behind, &r->behind));
    return open_lanes(r);
}

/* After a failure, give up all transports. Returns whether all of them let go of the memory. */
static bool let_go(rank_job *job, tg_status status)
{
    bool released = true;
    for (size_t i = 0; i < job->runs && status != TG_OK; i++)
        released = job->t[i]->ops->shut(job->t[i]) && released;
    return released;
}

tg_status bench_rank(rank_job *job)
{
    rank *r;
    TG_TRY(tg_alloc(1, sizeof *r, &r));
    r->job = job;
    r->rank = job->t[0]->rank;
    r->size = job->t[0]->size;
    r->step = FIRST_STEP;
    tg_status status = open_rank(r);
    for (size_t i = job->first; i < job->runs && status == TG_OK; i++)
        status = run(r, i);
    job->held = !let_go(job, status);
    if (job->held)
        return status; /* a transport may write to this memory until the process ends */
    for (size_t i = 0; r->lane && i < job->runs; i++) {
        turn_close(r->lane[i].u);
        tg__pump_fini(&r->lane[i].pump);
    }
    free(r->lane);
    tg__flight_fini(&r->flight);
    behind_close(r->behind);
    tg__method_destroy(r->m);
    tg__state_destroy(r->state);
    free(r->g[0]);
    free(r->g[1]);
    free(r);
    return status;
}

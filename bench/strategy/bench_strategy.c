#include "bench/strategy/bench_strategy.h"
#include "base/mem.h"
#include "bench/rows/bench_impl.h"
#include "strategy/strategy.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 16, BUCKETS = 4, RANKS = 4, FLIGHTS = 64, PERIODS = 3 };

/* The vectors that a step touches: each counts once if it is read or written, twice if both. A
 * local optimizer step touches the parameters (2), the gradient or aggregate (1), and each vector
 * of the optimizer's state (2). */
typedef struct kind {
    const char *strategy;
    unsigned step;     /* per step, without the optimizer's state */
    unsigned memories; /* copies of the optimizer's state */
    unsigned updates;  /* optimizer steps per step, previews included */
    unsigned round;    /* in addition, once every `every` steps */
    unsigned every;
} kind;

static const kind kinds[] = {
    {"ssgd", 3, 1, 1, 0, 1},
    /* gradient, direction, aggregate, parameters (2) */
    {"updates", 5, 1, 1, 0, 1},
    {"pipe:width=2", 3, 1, 1, 0, 1},
    {"demo", 3, 0, 0, 0, 1},
    /* aggregate, global (2), gradient, parameters */
    {"od:warmup=0", 5, 1, 2, 0, 1},
    {"cd:warmup=0", 5, 1, 2, 0, 1},
    /* aggregate, global (3), gradient, direction, parameters */
    {"cd:warmup=0,average=updates", 7, 1, 1, 0, 1},
    /* aggregate, global (2), pending (2), own (2), gradient, parameters */
    {"dga:delay=4", 9, 2, 2, 0, 1},
    /* gradient, parameters (2), pending (2), block (2); aggregate, global (2), own (2) */
    {"dga:delay=4,every=4", 7, 1, 1, 5, 4},
    /* per round: aggregate, global (2), sent; velocity (2) */
    {"local:every=4", 3, 1, 1, 4, 4},
    {"fedavg:every=4", 3, 1, 1, 4, 4},
    {"sparseloco:every=4", 3, 1, 1, 4, 4},
    {"diloco:every=4", 3, 1, 1, 6, 4},
    {"streaming:every=4", 3, 1, 1, 6, 4},
    /* per round: aggregate, sent (2), rest (2), and own, global and the velocity of each (8) */
    {"eager:every=4", 3, 1, 1, 13, 4},
    /* aggregate and sent in each step; for a mean: global */
    {"gossip:mean=8", 5, 1, 1, 1, 8},
};

static const char *const optimizers[] = {"sgd",  "sgd:momentum=0.9", "adam", "adamw",
                                         "lars", "sgd:lr=0.001"};

/* ---- how many bytes -------------------------------------------------------------------------- */

/* Whether the two work together: DeMo only with its own optimizer, updates not with LARS. */
static bool goes_with(const kind *k, const char *optimizer)
{
    if (strstr(k->strategy, "updates") != NULL && strcmp(optimizer, "lars") == 0)
        return false;
    return (strcmp(k->strategy, "demo") == 0) == (strcmp(optimizer, "sgd:lr=0.001") == 0);
}

static double passes(const kind *k, const tg_optimizer *o)
{
    /* LARS reads parameters and gradient a second time, for their norms. */
    const bool norms = strcmp(tg_spec_name(tg_optimizer_spec(o)), "lars") == 0;
    return k->step + 2.0 * k->memories * (double)tg_optimizer_slots(o) +
           (norms ? 2.0 * k->updates : 0) + (double)k->round / k->every;
}

double bench_strategy_passes(const char *strategy, const char *optimizer)
{
    tg_optimizer *o;
    double found = 0;
    if (tg_optimizer_create(optimizer, &o) != TG_OK)
        return 0;
    for (size_t i = 0; i < TG_COUNT(kinds); i++)
        if (strcmp(kinds[i].strategy, strategy) == 0 && goes_with(&kinds[i], optimizer))
            found = passes(&kinds[i], o);
    tg_optimizer_destroy(o);
    return found;
}

/* ---- playing --------------------------------------------------------------------------------- */

typedef struct flight {
    tg__action action;
    uint64_t of_step;
} flight;

typedef struct play {
    bench *b;
    const kind *kind;
    tg_optimizer *optimizer;
    tg__strategy *s;
    tg__wtensor tensor[TENSORS];
    size_t begin[BUCKETS]; /* first element of each bucket in the aggregate */
    float *w, **slot;      /* slot: (nslots) */
    uint64_t updates[TG__MEMORIES][TENSORS];
    tg__action *item;
    size_t room;
    flight flight[FLIGHTS];
    size_t flights;
    uint64_t t;
    double lr;
} play;

static void lay_out(play *p)
{
    const size_t each = p->b->n / TENSORS;
    for (size_t i = 0; i < TENSORS; i++) {
        const size_t at = i * each, bucket = i / (TENSORS / BUCKETS);
        if (i % (TENSORS / BUCKETS) == 0)
            p->begin[bucket] = at;
        p->tensor[i] = (tg__wtensor){.w = p->w + at,
                                     .g = p->b->g[0] + at,
                                     .n = i + 1 < TENSORS ? each : p->b->n - at,
                                     .offset = at - p->begin[bucket],
                                     .ndim = 2,
                                     .bucket = (uint32_t)bucket};
    }
}

static tg_status make_vectors(play *p)
{
    tg__strategy *s = p->s;
    p->room = BUCKETS * s->in_flight;
    if (p->room > FLIGHTS)
        return tg_fail(TG_E_STATE, "strategy %s has %zu exchanges of a bucket under way",
                       p->kind->strategy, s->in_flight);
    TG_TRY(tg_alloc(p->room, sizeof *p->item, &p->item));
    TG_TRY(tg_alloc(s->nslots + 1, sizeof *p->slot, &p->slot));
    for (size_t k = 0; k < s->nslots; k++) {
        TG_TRY(tg_alloc(p->b->n, sizeof(float), &p->slot[k]));
        for (size_t i = 0; i < TENSORS; i++)
            s->slot[k][i] = p->slot[k] + (p->tensor[i].w - p->w);
    }
    for (size_t m = 0; m < s->nmemories; m++)
        s->memory[m].updates = s->memory[m].counts ? p->updates[m] : NULL;
    return TG_OK;
}

static tg_status open_play(play *p, const char *optimizer)
{
    TG_TRY(tg_optimizer_create(optimizer, &p->optimizer));
    p->lr = tg_spec_real(tg_optimizer_spec(p->optimizer), "lr");
    TG_TRY(tg_alloc(p->b->n, sizeof *p->w, &p->w));
    TG_TRY(bench_draw(p->w, p->b->n, 2));
    lay_out(p);
    const tg__strategy setup = {.optimizer = p->optimizer,
                                .steps_per_epoch = 1000,
                                .size = RANKS,
                                .tensor = p->tensor,
                                .ntensors = TENSORS,
                                .nbuckets = BUCKETS};
    TG_TRY(tg__strategy_create(p->kind->strategy, &setup, &p->s));
    TG_TRY(make_vectors(p));
    tg__strategy_begin(p->s);
    return TG_OK;
}

static void close_play(play *p)
{
    for (size_t k = 0; p->slot != NULL && k < p->s->nslots; k++)
        free(p->slot[k]);
    free(p->slot);
    free(p->item);
    tg__strategy_destroy(p->s);
    tg_optimizer_destroy(p->optimizer);
    free(p->w);
}

static tg_status take(play *p, const tg__actions *list)
{
    if (list->overfull)
        return tg_fail(TG_E_STATE, "strategy %s has more than %zu exchanges at once",
                       p->kind->strategy, p->room);
    for (size_t a = 0; a < list->count; a++) {
        if (p->flights == FLIGHTS)
            return tg_fail(TG_E_STATE, "strategy %s has more than %d exchanges under way",
                           p->kind->strategy, FLIGHTS);
        p->flight[p->flights++] = (flight){list->item[a], p->t};
    }
    return TG_OK;
}

/* turn: that of the following step, or NULL */
static void deliver(play *p, const tg__turn *turn)
{
    size_t kept = 0;
    for (size_t f = 0; f < p->flights; f++) {
        const flight x = p->flight[f];
        if (x.action.due > p->t) {
            p->flight[kept++] = x;
            continue;
        }
        const tg__result r = {.of_step = x.of_step,
                              .bucket = x.action.bucket,
                              .tag = x.action.tag,
                              .agg = p->b->g[1] + p->begin[x.action.bucket],
                              .lr = p->lr,
                              .turn = turn};
        tg__strategy_result(p->s, &r);
    }
    p->flights = kept;
}

static tg_status one_step(play *p)
{
    for (uint32_t bucket = BUCKETS; bucket-- > 0;) {
        tg__actions out = {.item = p->item, .cap = p->room};
        p->s->finite = true;
        tg__strategy_ready(p->s, p->t, bucket, &out);
        TG_TRY(take(p, &out));
    }
    const tg__turn turn = {p->t, true, p->lr};
    deliver(p, &turn);
    tg__actions out = {.item = p->item, .cap = p->room};
    tg__strategy_step(p->s, p->t, true, p->lr, &out);
    TG_TRY(take(p, &out));
    deliver(p, NULL); /* results that are due at once */
    p->t++;
    return TG_OK;
}

/* A bench_fn that runs the steps of one round. */
static tg_status one_round(void *arg, int64_t *ns_p)
{
    play *p = arg;
    const int64_t begin = bench_now(p->b);
    for (unsigned i = 0; i < p->kind->every; i++)
        TG_TRY(one_step(p));
    *ns_p += bench_now(p->b) - begin;
    return TG_OK;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static tg_status measure(bench *b, const kind *k, const char *optimizer, bench_strategy_row *row)
{
    play p = {.b = b, .kind = k};
    bench_row figures = bench_row_of(b, "strategy", k->strategy);
    tg_status status = open_play(&p, optimizer);
    /* Before the first sample, every result has been delivered at least once. */
    for (int i = 0; status == TG_OK && i < 2 * RANKS; i++)
        status = one_step(&p);
    while (status == TG_OK && p.t % k->every != 0)
        status = one_step(&p);
    if (status == TG_OK)
        status = bench_measure(b, one_round, &p, &figures);
    if (status == TG_OK) {
        row->passes = passes(k, p.optimizer);
        const double share = 3 / (row->passes * k->every); /* axpy touches 3 vectors */
        row->samples = figures.samples;
        row->ms = figures.ns / k->every / 1e6;
        row->ratio = (bench_ratio){figures.axpy.median * share, figures.axpy.min * share,
                                   figures.axpy.max * share};
    }
    close_play(&p);
    return status;
}

static tg_status one_row(bench *b, const bench_strategy_options *o, const kind *k,
                         const char *optimizer)
{
    const double none = (double)NAN;
    char text[1024];
    bench_strategy_row row = {.strategy = k->strategy,
                              .optimizer = optimizer,
                              .n = b->n,
                              .passes = none,
                              .ms = none,
                              .ratio = {none, none, none}};
    if (o->begin != NULL)
        o->begin(o->arg, k->strategy, optimizer);
    if (measure(b, k, optimizer, &row) != TG_OK) {
        snprintf(text, sizeof text, "%s", tg_error());
        row.error = text;
    }
    return o->row(o->arg, &row);
}

static bool wanted(const bench_strategy_options *o, const kind *k, const char *optimizer)
{
    return goes_with(k, optimizer) &&
           (o->filter == NULL || strstr(k->strategy, o->filter) || strstr(optimizer, o->filter));
}

tg_status bench_strategy(const bench_strategy_options *o)
{
    const bench_options common = {.n = &o->n, .count = 1, .threads = 1, .seconds = o->seconds};
    bench b;
    TG_TRY(bench_prepare(&common));
    TG_TRY(bench_open(&b, &common, o->n));
    tg_status status = TG_OK;
    for (size_t k = 0; k < TG_COUNT(kinds); k++)
        for (size_t i = 0; status == TG_OK && i < TG_COUNT(optimizers); i++)
            if (wanted(o, &kinds[k], optimizers[i]))
                status = one_row(&b, o, &kinds[k], optimizers[i]);
    bench_close(&b);
    return status;
}

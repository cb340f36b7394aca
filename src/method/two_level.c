#include "method/two_level.h"
#include "exchange/sliced.h"
#include "base/mem.h"
#include "kernel/parallel.h"
#include "telegrad/spec.h"

typedef enum stage { UP, BETWEEN, DOWN } stage;

typedef struct lane {
    tg__exchange *up, *down; /* reduce and broadcast within the node */
    float *vector;           /* (n) on the leader: the node's gradient; elsewhere: the aggregate */
    tg__task among;          /* on the leader: the method's task */
    stage stage;
} lane;

typedef struct two_level {
    tg__method_def def; /* the method's definition, with the program of this file */
    tg__program_ops ops;
    const tg__nodes *nodes;
    tg__method *inner; /* NULL: this rank is not a leader */
    tg__group members, leaders;
    float scale; /* factor from a node's sum to its gradient */
    lane *lanes;
} two_level;

static const tg__program_ops *inner_ops(const two_level *v)
{
    return v->inner->def->program;
}

/* ---- the rounds ------------------------------------------------------------------------------ */

static tg_status begin(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    two_level *v = m->impl;
    lane *l = &v->lanes[task->lane];
    tg__task_begin(task);
    task->overflow = NULL;
    TG_TRY(tg__put_values(l->up, task->nonfinite ? NULL : task->g, task));
    task->group = &v->members;
    l->stage = UP;
    *x_p = l->up;
    return TG_OK;
}

/* Copy the outputs of the inner method's task to the task. */
static void tell(tg__task *task, const tg__task *among)
{
    task->density = among->density;
    task->kept = among->kept;
    task->coded_bytes = among->coded_bytes;
    task->fell_back = among->fell_back;
    task->overflow = among->overflow;
}

/* The node's gradient is complete: begin the leader's task among nodes. */
static tg_status begin_among(tg__method *m, tg__task *task, lane *l, tg__exchange **x_p)
{
    two_level *v = m->impl;
    const bool nonfinite = task->nonfinite || task->flagged;
    l->up->ops->result(l->up, l->vector);
    if (l->up->overflow && !nonfinite)
        task->overflow = "the sum over the ranks of this rank's node";
    if (v->scale != 1)
        tg__kernel()->scale(l->vector, v->scale, m->n);
    l->among = *task;
    l->among.g = l->vector;
    l->among.nonfinite = nonfinite || task->overflow != NULL;
    TG_TRY(inner_ops(v)->begin(v->inner, &l->among, x_p));
    tell(task, &l->among);
    task->group = &v->leaders;
    l->stage = BETWEEN;
    return TG_OK;
}

/* Begin the last round, whose number is the same on all ranks. */
static tg_status go_down(tg__method *m, tg__task *task, lane *l, tg__exchange **x_p)
{
    two_level *v = m->impl;
    if (v->inner != NULL)
        TG_TRY(tg__codec_encode(m->f32, NULL, inner_ops(v)->aggregate(v->inner, &l->among), m->n,
                                l->down->parts, l->down->nparts, NULL));
    task->round = v->ops.rounds - 1;
    task->group = &v->members;
    l->stage = DOWN;
    *x_p = l->down;
    return TG_OK;
}

static tg_status next(tg__method *m, tg__task *task, tg__exchange **x_p)
{
    two_level *v = m->impl;
    lane *l = &v->lanes[task->lane];
    *x_p = NULL;
    if (l->stage == DOWN) {
        if (v->inner == NULL)
            l->down->ops->result(l->down, l->vector);
        return TG_OK;
    }
    if (v->inner != NULL && l->stage == UP)
        return begin_among(m, task, l, x_p);
    if (v->inner != NULL) {
        l->among.flagged = task->flagged;
        l->among.round = task->round - 1;
        TG_TRY(inner_ops(v)->next(v->inner, &l->among, x_p));
        tell(task, &l->among);
        task->round = l->among.round + 1;
    }
    return *x_p != NULL ? TG_OK : go_down(m, task, l, x_p);
}

static const float *aggregate(tg__method *m, const tg__task *task)
{
    two_level *v = m->impl;
    const lane *l = &v->lanes[task->lane];
    return v->inner == NULL ? l->vector : inner_ops(v)->aggregate(v->inner, &l->among);
}

static tg_status undo(tg__method *m, const tg__task *task)
{
    two_level *v = m->impl;
    return v->inner == NULL ? TG_OK : inner_ops(v)->undo(v->inner, &v->lanes[task->lane].among);
}

static bool heal(tg__method *m, bool anyway)
{
    const two_level *v = m->impl;
    return v->inner != NULL && tg__method_heal(v->inner, anyway);
}

static void absorb(tg__method *m, const tg__task *task)
{
    two_level *v = m->impl;
    if (v->inner != NULL && inner_ops(v)->absorb != NULL)
        inner_ops(v)->absorb(v->inner, &v->lanes[task->lane].among);
}

static void scale_served(tg__method *m, double factor)
{
    const two_level *v = m->impl;
    if (v->inner != NULL && inner_ops(v)->scale_served != NULL)
        inner_ops(v)->scale_served(v->inner, factor);
}

static void have(tg__method *m, const float *values)
{
    const two_level *v = m->impl;
    if (v->inner != NULL && inner_ops(v)->have != NULL)
        inner_ops(v)->have(v->inner, values);
}

static tg__tells *tells(tg__method *m)
{
    const two_level *v = m->impl;
    return v->inner != NULL && inner_ops(v)->tells != NULL ? inner_ops(v)->tells(v->inner) : NULL;
}

static double residual_norm(const tg__method *m)
{
    return tg__method_residual_norm(((const two_level *)m->impl)->inner);
}

static double *units(const tg__method *m)
{
    const two_level *v = m->impl;
    return v->inner == NULL || inner_ops(v)->units == NULL ? NULL : inner_ops(v)->units(v->inner);
}

/* ---- creating -------------------------------------------------------------------------------- */

static tg_status refuse(const tg__method *m, const tg__method_def *def, const tg__nodes *nodes)
{
    if (tg__method_is_apart(m->spec))
        return tg_fail(TG_E_SPEC,
                       "method \"%s\" with nodes: exchange=none sums nothing: choose another "
                       "exchange, or use no nodes",
                       tg_spec_name(m->spec));
    if (tg__method_combine(def)->votes && !nodes->equal)
        return tg_fail(TG_E_SPEC,
                       "method \"%s\" on %d nodes of different sizes: each node has one vote, so "
                       "ranks would not count equally: use nodes of equal size, or another method",
                       tg_spec_name(m->spec), nodes->count);
    if (tg__method_cuts(def, m->spec) && !nodes->equal)
        return tg_fail(
            TG_E_SPEC,
            "method \"%s\" on %d nodes of different sizes: the sums of large nodes would be scaled "
            "down to the norm of small ones: use nodes of equal size, or clip=no",
            tg_spec_name(m->spec), nodes->count);
    return TG_OK;
}

/* The number of messages, one after another, that a leader may wait for in the method's
 * exchanges. */
static uint32_t waits_among(const tg__method *m, const tg__method_def *def, const tg__nodes *nodes)
{
    tg__cost cost = {.rounds = 2}; /* dense steps are direct */
    uint32_t rounds = cost.rounds;
    const tg__exchange_ops *x = tg_spec_has(m->spec, "exchange") ? tg__method_exchange(m) : NULL;
    if (x != NULL)
        x->cost(nodes->count, m->n, 4.0 * (double)m->n, &cost);
    rounds = TG__MAX(rounds, cost.rounds);
    return (uint32_t)def->program->rounds * rounds *
           tg__slice_count(nodes->count, m->n, 4.0 * (double)m->n, rounds);
}

static tg_status create_inner(const tg__method *m, const char *text, const two_level *v,
                              tg__state *state, tg__method **inner_p)
{
    tg__method_setup setup = m->setup;
    setup.rank = v->nodes->node;
    setup.size = v->nodes->count;
    setup.nodes = NULL;
    setup.role = TG__ROLE_LEADER;
    setup.state = state;
    return tg__method_create(text, &setup, inner_p);
}

/* Create what this rank's leader creates, to report the same error for an invalid spec. */
static tg_status try_inner(const tg__method *m, const char *text, const two_level *v)
{
    tg__method *inner = NULL;
    tg__state *state;
    TG_TRY(tg__state_create(&state));
    const tg_status status = create_inner(m, text, v, state, &inner);
    tg__method_destroy(inner);
    tg__state_destroy(state);
    return status;
}

static tg_status make_inner(tg__method *m, const char *text, two_level *v)
{
    TG_TRY(create_inner(m, text, v, m->setup.state, &v->inner));
    m->feedback = v->inner->feedback; /* for inspection only */
    if (inner_ops(v)->residual_norm != NULL)
        v->ops.residual_norm = residual_norm;
    v->ops.defers = true;
    return TG_OK;
}

static tg_status make_exchange(tg__method *m, const two_level *v, const char *name,
                               tg__exchange **x_p)
{
    const tg__nodes *nodes = v->nodes;
    TG_TRY(tg__exchange_create(tg__exchange_find(name), nodes->index, nodes->members, m->n, m->f32,
                               &tg__combine_mean, x_p));
    return tg__method_own(m, *x_p);
}

static tg_status make_lane(tg__method *m, const two_level *v, lane *l)
{
    TG_TRY(tg__method_alloc(m, m->n, sizeof *l->vector, &l->vector));
    TG_TRY(make_exchange(m, v, "reduce", &l->up));
    return make_exchange(m, v, "broadcast", &l->down);
}

static void fini(tg__method *m)
{
    tg__method_destroy(((two_level *)m->impl)->inner);
}

tg_status tg__two_level_init(tg__method *m, const char *text)
{
    const tg__nodes *nodes = m->setup.nodes;
    const tg__method_def *def = m->def;
    TG_TRY(refuse(m, def, nodes));
    two_level *v;
    TG_TRY(tg__method_alloc(m, 1, sizeof *v, &v));
    v->nodes = nodes;
    v->def = *def;
    v->ops = (tg__program_ops){.rounds = def->program->rounds + 2,
                               .max_lanes = def->program->max_lanes,
                               .fini = fini,
                               .begin = begin,
                               .next = next,
                               .aggregate = aggregate,
                               .undo = undo,
                               .heal = heal,
                               .absorb = absorb,
                               .units = units,
                               .scale_served = scale_served,
                               .have = have,
                               .tells = tells};
    v->def.program = &v->ops;
    m->impl = v;
    m->def = &v->def;
    /* A leader waits one timeout for a rank of its node, so other leaders wait two for it, for each
     * message. */
    const uint32_t patience = nodes->index == 0 ? 1 : 2 + 2 * waits_among(m, def, nodes);
    v->members = (tg__group){.rank = nodes->member, .patience = patience};
    v->leaders = (tg__group){.rank = nodes->leader, .patience = 2};
    v->scale = (float)nodes->count / (float)nodes->size;
    TG_TRY(tg__method_codec(m, "f32", &m->f32));
    TG_TRY(nodes->index == 0 ? make_inner(m, text, v) : try_inner(m, text, v));
    TG_TRY(tg__method_alloc(m, m->setup.lanes, sizeof *v->lanes, &v->lanes));
    for (size_t i = 0; i < m->setup.lanes; i++)
        TG_TRY(make_lane(m, v, &v->lanes[i]));
    return TG_OK;
}

/* A run of a simulation: the actors, the exchanges, the steps. */
#include "plan/simulate_impl.h"
#include "base/arg.h"
#include "base/floats.h"
#include "base/mem.h"
#include "base/sized.h"

#include <math.h>
#include <stdlib.h>

static tg_status make_actors(tg__sim_player *p)
{
    const tg_sim_run *run = p->run;
    const size_t own = TG__MAX(run->nranks, 1);
    p->nactors = own + p->s->strategy->some_absent;
    TG_TRY(tg__owned_alloc(&p->owned, p->nactors, sizeof *p->actor, &p->actor));
    for (size_t i = 0; i < run->nranks; i++)
        p->actor[i].rank = run->rank[i];
    if (p->nactors > own)
        p->actor[own].rank = -1;
    return TG_OK;
}

static tg_status make_routes(tg__sim_player *p)
{
    const tg_session *s = p->s;
    const tg__network net = tg__sim_network(&p->run->link, p->run->world);
    const tg__star_net star = tg__sim_star_net(p->run, -1);
    TG_TRY(tg__owned_alloc(&p->owned, TG__SIM_WAYS * s->nbuckets, sizeof *p->route, &p->route));
    for (uint32_t b = 0; b < s->nbuckets; b++) {
        TG_TRY(tg__sim_find_way(p->sim, b, p->run->world, &net));
        for (int way = 0; way < TG__SIM_WAYS; way++)
            tg__sim_route_make(&p->sim->bucket[b], tg__session_costs(s, b), (tg__sim_way)way,
                               p->run->world, &net, p->run->servers > 0 ? &star : NULL,
                               &p->route[TG__SIM_WAYS * b + (uint32_t)way]);
    }
    return TG_OK;
}

static tg_status prepare(tg__sim_player *p)
{
    const tg_session *s = p->s;
    /* includes early ones of the previous step */
    p->room = s->nbuckets * s->strategy->in_flight * 2;
    p->early = tg__session_is_separable(s) && s->config.overlap == TG_OVERLAP_FULL;
    p->inline_coding = s->config.driver == TG_DRIVER_INLINE;
    TG_TRY(make_actors(p));
    TG_TRY(make_routes(p));
    TG_TRY(tg__owned_alloc(&p->owned, p->room, sizeof *p->op, &p->op));
    TG_TRY(tg__owned_alloc(&p->owned, p->room, sizeof *p->trigger, &p->trigger));
    TG_TRY(tg__owned_alloc(&p->owned, s->nbuckets, sizeof *p->missing, &p->missing));
    return tg__owned_alloc(&p->owned, s->nbuckets, sizeof *p->read, &p->read);
}

static tg_status play(tg__sim_player *p, tg_sim_end *end_p)
{
    const tg_sim_run *run = p->run;
    tg_sim_end end = {.struct_size = sizeof end};
    TG_TRY(prepare(p));
    if (p->async) {
        TG_TRY(tg__sim_play_async(p, &end));
        if (end_p != NULL)
            tg__sized_out(end_p, &end, sizeof end);
        return TG_OK;
    }
    tg__strategy_begin(p->s->strategy);
    while (p->t < run->steps)
        TG_TRY(tg__sim_play_step(p));
    TG_TRY(tg__sim_drain(p));
    end.ns = p->actor[0].now_ns;
    end.bytes = p->bytes;
    if (end_p != NULL)
        tg__sized_out(end_p, &end, sizeof end);
    return TG_OK;
}

static tg_status check(const tg_simulation *sim, const tg_sim_run *run)
{
    if (run->steps == 0 || (run->nwork > 0 && run->work == NULL) ||
        (run->nranks > 0 && run->rank == NULL))
        return tg_fail(TG_E_ARG, "tg_simulation_run: steps must be above 0, and work and rank must "
                                 "not be NULL where they are counted");
    if (run->world < 1 || run->world > TG_SIM_WORLD_MAX)
        return tg_fail(TG_E_ARG, "world=%d: allowed: 1 to %d", run->world, TG_SIM_WORLD_MAX);
    for (size_t i = 0; i < run->nranks; i++)
        if (run->rank[i] < 0 || run->rank[i] >= run->world)
            return tg_fail(TG_E_ARG, "rank[%zu]=%d: allowed: 0 to %d", i, run->rank[i],
                           run->world - 1);
    TG_TRY(tg__sim_check_link("tg_simulation_run", &run->link));
    for (size_t i = 0; i < run->nwork; i++)
        if (run->work[i].ns < 0)
            return tg_fail(TG_E_ARG, "work[%zu].ns=%lld: allowed: 0 and up", i,
                           (long long)run->work[i].ns);
        else if (run->work[i].tensor >= sim->session->ntrained)
            return tg_fail(TG_E_ARG, "work[%zu].tensor=%u: there are %zu", i, run->work[i].tensor,
                           sim->session->ntrained);
        else if ((unsigned)run->work[i].kind > TG_WORK_GRAD_READY)
            return tg_fail(TG_E_ARG, "work[%zu].kind=%d: allowed: 0 to %d", i,
                           (int)run->work[i].kind, (int)TG_WORK_GRAD_READY);
    return TG_OK;
}

tg_status tg_simulation_run(tg_simulation *sim, const tg_sim_run *run, tg_sim_end *end_p)
{
    TG__OWN_FLOATS;
    TG__ARG(sim);
    TG__ARG(run);
    tg_sim_run given;
    TG_TRY(tg__sized_in("tg_simulation_run: run", &given, sizeof given,
                        TG__FIRST_SIZE(tg_sim_run, arg), run));
    run = &given;
    TG_TRY(check(sim, run));
    if (end_p != NULL)
        TG_TRY(
            tg__sized_room("tg_simulation_run: end_p", end_p, TG__FIRST_SIZE(tg_sim_end, bytes)));
    tg__sim_player p = {.sim = sim, .s = sim->session, .run = run};
    TG_TRY(tg__sim_check_servers(sim, run, &p.async, &p.staleness));
    const char *strategy = run->strategy == NULL ? sim->session->config.strategy : run->strategy;
    TG_TRY(tg__sim_open_strategy(sim, run->servers > 0 ? tg__sim_unserved(strategy) : strategy,
                                 run->world));
    const tg_status status = play(&p, end_p);
    tg__sim_close_strategy(sim);
    tg__owned_free(&p.owned);
    return status;
}

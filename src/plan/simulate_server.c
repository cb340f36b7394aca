/* Parameter servers of a simulation: what a run says about them, and their links. */
#include "plan/simulate_impl.h"
#include "base/mem.h"
#include "server/mode.h"
#include "telegrad/spec.h"
#include "telegrad/transport.h"

const char *tg__sim_unserved(const char *strategy)
{
    return strategy != NULL && tg__strategy_is_served(strategy) ? "ssgd" : strategy;
}

static tg_status check_links(const tg_sim_run *run)
{
    TG_TRY(tg__sim_check_link("tg_simulation_run: server", &run->server));
    for (int r = 0; run->links != NULL && r < run->world; r++)
        TG_TRY(tg__sim_check_link("tg_simulation_run: links", &run->links[r]));
    return TG_OK;
}

tg_status tg__sim_check_servers(const tg_simulation *sim, const tg_sim_run *run, bool *async_p,
                                int64_t *staleness_p)
{
    const char *strategy = run->strategy == NULL ? sim->session->config.strategy : run->strategy,
               *text = run->server_mode == NULL ? "sum" : run->server_mode;
    *async_p = false;
    *staleness_p = TG__NO_BOUND;
    if (run->servers < 0 || run->servers > TG_SERVERS_MAX)
        return tg_fail(TG_E_ARG, "tg_simulation_run: servers=%lld: allowed: 0 to %d",
                       (long long)run->servers, TG_SERVERS_MAX);
    if (run->servers == 0)
        return run->server_mode == NULL && run->links == NULL
                   ? TG_OK
                   : tg_fail(TG_E_ARG,
                             "tg_simulation_run: server_mode and links require servers, but "
                             "servers=0");
    TG_TRY(check_links(run));
    const bool keeps = tg__strategy_is_served(strategy);
    const char *optimizer = sim->session->config.optimizer;
    tg__mode m;
    TG_TRY(tg__mode_parse(text, keeps ? (optimizer == NULL ? "sgd" : optimizer) : NULL, &m));
    *async_p = m.keeps && !m.gathers;
    *staleness_p = m.staleness;
    tg__mode_free(&m);
    return TG_OK;
}

/* Seconds of a byte. */
static double byte_of(double bps)
{
    return bps > 0 ? 8 / bps : 0;
}

static tg__star_net net_of(const tg_sim_run *run, const tg_link *link)
{
    const tg_link *server = &run->server;
    const double own = (double)link->delay_ns, theirs = (double)server->delay_ns,
                 jitter = ((double)link->jitter_ns + (double)server->jitter_ns) / 4;
    return (tg__star_net){.servers = (int)run->servers,
                          .up = byte_of(link->up_bps),
                          .down = byte_of(link->down_bps),
                          .server_up = byte_of(server->up_bps),
                          .server_down = byte_of(server->down_bps),
                          /* a message has the sender's jitter: half of it, on average */
                          .delay = (TG__MAX(own, theirs) + jitter) / 1e9};
}

tg__star_net tg__sim_star_net(const tg_sim_run *run, int rank)
{
    tg__star_net worst =
        net_of(run, run->links == NULL ? &run->link : &run->links[TG__MAX(rank, 0)]);
    for (int r = 0; rank < 0 && run->links != NULL && r < run->world; r++) {
        const tg__star_net one = net_of(run, &run->links[r]);
        worst.up = TG__MAX(worst.up, one.up);
        worst.down = TG__MAX(worst.down, one.down);
        worst.delay = TG__MAX(worst.delay, one.delay);
    }
    return worst;
}

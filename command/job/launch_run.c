/* Trains on the ranks of this process. */
#include "command/job/launch.h"
#include "command/job/step_times.h"
#include "telegrad/clock.h"
#include "telegrad/server.h"
#include "trainer/model/memory.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES 1024 /* as long as tg_error() can be */

/* ---- one rank -------------------------------------------------------------------------------- */

/* Parse the options' link of each rank (world), and of each server behind them, which has none
 * unless --link-of names it; NULL if no rank's link is shaped. */
static tg_status parse_links(const struct run_options *o, int ranks, tg_link **links_p)
{
    const int world = ranks + (int)o->servers;
    tg_link common = {.struct_size = sizeof common};
    *links_p = NULL;
    if (o->link)
        TG_TRY(tg_link_parse(o->link, &common));
    if (!o->link && o->links_of_count == 0)
        return TG_OK;
    tg_link *links = malloc((size_t)world * sizeof *links);
    if (!links)
        return tg_fail(TG_E_NOMEM, "out of memory: links of %d ranks", world);
    *links_p = links;
    for (int r = 0; r < world; r++)
        links[r] = r < ranks ? common : (tg_link){.struct_size = sizeof *links};
    for (size_t i = 0; i < o->links_of_count; i++) {
        const struct run_link_of *one = &o->links_of[i];
        if (one->rank >= (uint64_t)world)
            return tg_fail(TG_E_SPEC, "--link-of %d=%.64s: allowed: ranks 0 to %d", (int)one->rank,
                           one->link ? one->link : "none", world - 1);
        links[one->rank] = (tg_link){.struct_size = sizeof *links};
        if (one->link)
            TG_TRY(tg_link_parse(one->link, &links[one->rank]));
    }
    return TG_OK;
}

/* Wrap *t_p in the link and the faults that the options ask for, and if there are servers, in what
 * reaches them. links: that of each rank and server, which with nodes applies between nodes only;
 * NULL: none. The faults affect messages, but not the timestamps that the link sends with them.
 * *t_p stays valid if this fails. */
static tg_status decorate(const struct run_options *o, const tg_link *links, const int *nodes,
                          tg_transport **t_p)
{
    int rank = (*t_p)->rank;
    if (links)
        TG_TRY(tg_transport_shaped_links(*t_p, links, nodes, t_p));
    for (size_t i = 0; i < o->fault_count; i++)
        if (o->faults[i].rank == (uint64_t)rank)
            TG_TRY(tg_transport_faulty(*t_p, o->faults[i].spec, t_p));
    const bool serves = o->servers > 0 && rank >= (*t_p)->size - (int)o->servers;
    return o->servers > 0 && !serves ? tg_transport_worker(*t_p, (int)o->servers, t_p) : TG_OK;
}

void launch_tell_servers(const struct run_options *o, char command[JOB_COMMAND])
{
    if (o->servers == 0)
        return;
    job_command_add(command, " --servers %d --server-mode %s", (int)o->servers,
                    launch_server_mode(o));
    if (o->server_deadline > 0)
        job_command_add(command, " --server-deadline %gs", o->server_deadline);
    if (o->nodes == OPT_NODES_AUTO)
        job_command_add(command, " --nodes auto");
    else if (o->nodes > 0)
        job_command_add(command, " --nodes %d", (int)o->nodes);
    if (launch_servers_keep(o))
        job_command_add(command, " --optimizer %s", options_optimizer(o));
}

/* A server; it is a thread unless it has a process of its own. */
struct server_run {
    const struct run_options *options;
    const int *nodes; /* of the ranks; NULL: one level */
    tg_transport *transport;
    tg_clock_thread *thread;
    bool started;
    tg_server_stats stats; /* when it has ended well */
    tg_status status;
    char text[TEXT_BYTES];
};

static void *run_server(void *arg)
{
    struct server_run *r = arg;
    const struct run_options *o = r->options;
    const bool keeps = launch_servers_keep(o);
    /* Less than ranks wait, so that they hear from the server whom it waited for. */
    const tg_server_config config = {.struct_size = sizeof config,
                                     .timeout_ms = (int64_t)(options_timeout(o) * 800),
                                     .mode = launch_server_mode(o),
                                     .optimizer = keeps ? options_optimizer(o) : NULL,
                                     .deadline_ms = (int64_t)(o->server_deadline * 1000),
                                     .nodes = r->nodes};
    tg_server *server;
    r->status = tg_server_create(r->transport, (int)o->servers, &config, &server);
    if (r->status == TG_OK) {
        r->status = tg_server_run(server);
        r->stats.struct_size = sizeof r->stats;
        if (r->status == TG_OK)
            r->status = tg_server_get_stats(server, &r->stats);
        if (r->status != TG_OK)
            snprintf(r->text, sizeof r->text, "%s", tg_error());
        tg_server_destroy(server);
    } else {
        snprintf(r->text, sizeof r->text, "%s", tg_error());
        (void)r->transport->ops->shut(r->transport); /* ranks must not wait for it */
    }
    return NULL;
}

struct rank_run {
    const train_job *job;
    const train_data *data;
    const train_events *events;
    const tg_link *links;
    tg_transport *transport;
    atomic_int *failures; /* number of failures so far, on all ranks of the process */
    tg_clock_thread *thread;
    bool started;
    tg_status status;
    int order; /* position of this rank's failure among all failures */
    int votes; /* number of ranks whose failure has the same text */
    char text[TEXT_BYTES];
    train_end_info end;
};

static void *run_rank(void *arg)
{
    struct rank_run *r = arg;
    r->status = train_run(r->job, r->data, r->transport, r->events, &r->end);
    if (r->status != TG_OK) {
        r->order = atomic_fetch_add(r->failures, 1);
        snprintf(r->text, sizeof r->text, "%s", tg_error());
        (void)r->transport->ops->shut(r->transport); /* others must not wait for this rank */
    }
    return NULL;
}

/* The distance of a failure from its cause: found by this rank itself, a silent peer, a transport
 * that was shut, a peer that left because of its own failure. */
static int distance(const struct rank_run *r)
{
    if (r->status != TG_E_PEER && r->status != TG_E_STATE)
        return 0;
    if (strstr(r->text, "has left"))
        return 3;
    return r->status == TG_E_PEER && !strstr(r->text, "may be cut off") ? 1 : 2;
}

/* Whether a's failure says more than b's. Criteria in order: closer to the cause; reported by more
 * ranks (a stalled rank finds all others silent); earlier. */
static bool better(const struct rank_run *a, const struct rank_run *b)
{
    if (distance(a) != distance(b))
        return distance(a) < distance(b);
    return a->votes != b->votes ? a->votes > b->votes : a->order < b->order;
}

/* The failed rank whose message says most; NULL if none failed. */
static const struct rank_run *telling(struct rank_run *ranks, size_t n)
{
    const struct rank_run *best = NULL;
    for (size_t i = 0; i < n; i++) {
        if (ranks[i].status == TG_OK)
            continue;
        ranks[i].votes = 0;
        for (size_t j = 0; j < n; j++)
            ranks[i].votes += strcmp(ranks[i].text, ranks[j].text) == 0;
    }
    for (size_t i = 0; i < n; i++)
        if (ranks[i].status != TG_OK && (!best || better(&ranks[i], best)))
            best = &ranks[i];
    return best;
}

/* ---- threads --------------------------------------------------------------------------------- */

static tg_status start_thread(struct rank_run *r)
{
    const tg_transport *t = r->transport;
    TG_TRY(
        tg_clock_thread_start(t->clock, 2 * (uint64_t)t->rank, "tg-rank", run_rank, r, &r->thread));
    r->started = true;
    return TG_OK;
}

static tg_status run_threads(const tg_clock *clock, struct rank_run *ranks, size_t n,
                             train_end_info *end_p)
{
    TG_TRY(tg_clock_enter(clock, 0));
    tg_status status = TG_OK;
    size_t started = 1;
    while (started < n && status == TG_OK)
        status = start_thread(&ranks[started++]);
    if (status == TG_OK)
        run_rank(&ranks[0]);
    else
        for (size_t i = 0; i < n; i++)
            if (!ranks[i].started)
                (void)ranks[i].transport->ops->shut(ranks[i].transport);
    tg_clock_leave(clock);
    for (size_t i = 0; i < n; i++)
        if (ranks[i].started)
            tg_clock_thread_join(clock, ranks[i].thread);
    if (status != TG_OK)
        return tg_fail(status, "worker %zu of %zu: %s", started - 1, n, tg_error());
    const struct rank_run *worst = telling(ranks, n);
    if (worst)
        return tg_fail(worst->status, "%s", worst->text);
    *end_p = ranks[0].end;
    return TG_OK;
}

static tg_status start_servers(const tg_clock *clock, struct server_run *servers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const tg_transport *t = servers[i].transport;
        TG_TRY(tg_clock_thread_start(clock, 2 * (uint64_t)t->rank, "tg-server", run_server,
                                     &servers[i], &servers[i].thread));
        servers[i].started = true;
    }
    return TG_OK;
}

/* Wait for the servers, which end when the ranks have left. A server that found out why all failed
 * says so in the place of the ranks, which only know that it left. */
static tg_status join_servers(const tg_clock *clock, struct server_run *servers, size_t n,
                              tg_status of_ranks)
{
    const struct server_run *telling = NULL;
    for (size_t i = 0; i < n; i++) {
        if (!servers[i].started)
            continue;
        tg_clock_thread_join(clock, servers[i].thread);
        if (servers[i].status != TG_OK && servers[i].status != TG_E_PEER && !telling)
            telling = &servers[i];
    }
    if (!telling || of_ranks != TG_E_PEER)
        return of_ranks;
    return tg_fail(telling->status, "server: %s", telling->text);
}

/* Run ranks and servers, whose transports these are, ranks first; they are destroyed. */
static tg_status run_all(const struct run_options *o, const tg_clock *clock, struct rank_run *ranks,
                         struct server_run *servers, tg_transport **transports,
                         train_end_info *end_p)
{
    const size_t n = (size_t)o->workers, nservers = (size_t)o->servers;
    tg_status status = start_servers(clock, servers, nservers);
    if (status == TG_OK)
        status = run_threads(clock, ranks, n, end_p);
    for (size_t i = 0; i < n; i++)
        tg_transport_destroy(transports[i]);
    status = join_servers(clock, servers, nservers, status);
    for (size_t i = n; i < n + nservers; i++)
        tg_transport_destroy(transports[i]);
    return status;
}

static tg_status run_inproc(const struct run_options *o, const tg_clock *clock,
                            const struct rank_run *model, train_end_info *end_p)
{
    const size_t n = (size_t)o->workers, nservers = (size_t)o->servers, all = n + nservers;
    atomic_int failures = 0;
    struct rank_run *ranks = calloc(n, sizeof *ranks);
    struct server_run *servers = calloc(nservers + 1, sizeof *servers);
    tg_transport **transports = calloc(all, sizeof(tg_transport *));
    tg_status status = ranks && servers && transports
                           ? tg_transport_inproc_clock((int)all, clock, transports)
                           : tg_fail(TG_E_NOMEM, "out of memory: %zu workers", n);
    for (size_t i = 0; i < all && status == TG_OK; i++) {
        status = decorate(o, model->links, model->job->nodes, &transports[i]);
        if (i >= n) {
            servers[i - n] = (struct server_run){
                .options = o, .nodes = model->job->nodes, .transport = transports[i]};
            continue;
        }
        ranks[i] = *model;
        ranks[i].transport = transports[i];
        ranks[i].failures = &failures;
    }
    if (status == TG_OK)
        status = run_all(o, clock, ranks, servers, transports, end_p);
    else
        for (size_t i = 0; transports && i < all; i++)
            tg_transport_destroy(transports[i]);
    free(transports);
    free(servers);
    free(ranks);
    return status;
}

/* ---- processes ------------------------------------------------------------------------------- */

static tg_status run_process(const struct launch *l, const struct run_options *o,
                             const struct rank_run *model, train_end_info *end_p)
{
    tg_transport *t = NULL;
    if (model->links)
        TG_TRY(launch_check_machines(l));
    TG_TRY(l->transport->connect(&t));
    tg_status status = decorate(o, model->links, model->job->nodes, &t);
    if (status == TG_OK)
        status = train_run(model->job, model->data, t, model->events, end_p);
    /* After a failure posted buffers must live until the process ends, which is soon. */
    if (status == TG_OK)
        tg_transport_destroy(t);
    return status;
}

/* Find the node of each rank, and of each server behind them: by --nodes N it has one of its own.
 * NULL: one level. */
static tg_status place(const struct launch *l, const struct run_options *o, int **nodes_p)
{
    const int world = launch_world(l, o), all = world + (int)o->servers;
    *nodes_p = NULL;
    if (o->nodes == 0)
        return TG_OK;
    int *nodes = malloc((size_t)all * sizeof *nodes);
    if (!nodes)
        return tg_fail(TG_E_NOMEM, "out of memory: nodes of %d ranks", world);
    *nodes_p = nodes;
    for (int r = 0; r < all && o->nodes != OPT_NODES_AUTO; r++)
        nodes[r] = r < world ? r / (int)o->nodes : r;
    return o->nodes == OPT_NODES_AUTO ? l->transport->nodes(nodes) : TG_OK;
}

tg_status launch_serve(const struct launch *l, const struct run_options *o,
                       tg_server_stats *stats_p)
{
    tg_link *links = NULL;
    int *nodes;
    struct server_run server = {.options = o};
    tg_status status = place(l, o, &nodes);
    server.nodes = nodes;
    if (status == TG_OK)
        status = parse_links(o, launch_world(l, o), &links);
    if (status == TG_OK)
        status = l->transport->connect(&server.transport);
    if (status == TG_OK)
        status = decorate(o, links, nodes, &server.transport);
    free(links);
    if (status == TG_OK)
        (void)run_server(&server);
    free(nodes);
    TG_TRY(status);
    if (server.status != TG_OK)
        return tg_fail(server.status, "server %d: %s", l->rank - launch_world(l, o), server.text);
    tg_transport_destroy(server.transport);
    *stats_p = server.stats;
    return TG_OK;
}

static tg_status make_share(const struct run_options *o, train_share **share_p)
{
    int64_t staleness;
    *share_p = NULL;
    return launch_is_async(o, &staleness) ? train_share_create(staleness, share_p) : TG_OK;
}

/* Train by a virtual clock, whose time starts at 0. */
static tg_status run_virtual(const struct run_options *o, const struct rank_run *model,
                             train_end_info *end_p)
{
    train_times times = {0};
    train_job job = *model->job;
    struct rank_run timed = *model;
    tg_clock *clock;
    TG_TRY(make_share(o, &job.share));
    tg_status status = o->tau && o->tau_ns == 0 ? step_times_read(o, &times) : TG_OK;
    if (status == TG_OK)
        status = tg_clock_virtual_create(0, &clock);
    if (status == TG_OK) {
        job.times = &times;
        timed.job = &job;
        status = run_inproc(o, clock, &timed, end_p);
        tg_clock_virtual_destroy(clock);
    }
    train_times_free(&times);
    train_share_destroy(job.share);
    return step_times_explain(o, status);
}

static tg_status run_placed(const struct launch *l, const struct run_options *o,
                            const struct rank_run *model, train_end_info *end_p)
{
    if (l->processes)
        return run_process(l, o, model, end_p);
    return o->virtual_clock ? run_virtual(o, model, end_p)
                            : run_inproc(o, tg_clock_monotonic(), model, end_p);
}

/* With threads, options_check has done it. */
static tg_status check_faults(const struct run_options *o, int world)
{
    for (size_t i = 0; i < o->fault_count; i++)
        if (o->faults[i].rank >= (uint64_t)world)
            return tg_fail(TG_E_SPEC, "--fault %d=%.64s: allowed: ranks 0 to %d",
                           (int)o->faults[i].rank, o->faults[i].spec, world - 1);
    return TG_OK;
}

tg_status launch_run(const struct launch *l, const struct run_options *o, const train_job *job,
                     const train_data *data, const train_events *events, train_end_info *end_p)
{
    TG_TRY(check_faults(o, launch_world(l, o)));
    train_job placed = *job;
    int *nodes;
    tg_status status = place(l, o, &nodes);
    placed.nodes = nodes;
    placed.workers_here = l->processes ? 1 : (size_t)o->workers;
    placed.memory = memory_available();
    struct rank_run model = {.job = &placed, .data = data, .events = events};
    tg_link *links = NULL;
    if (status == TG_OK)
        status = parse_links(o, launch_world(l, o), &links);
    model.links = links;
    if (status == TG_OK)
        status = run_placed(l, o, &model, end_p);
    free(links);
    free(nodes);
    return status;
}

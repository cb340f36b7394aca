/* A worker of servers (telegrad serve): a job of one rank, which reaches them and nobody else. */
#include "command/job/server_mode.h"
#include "command/job/tcp_join.h"
#include "command/job/transports.h"
#include "command/output/console.h"
#include "command/output/stop.h"
#include "telegrad/registry.h"
#include "telegrad/server.h"
#include <stdio.h>
#include <string.h>

static struct {
    struct job_call call;
    tg_net *net; /* no transport has taken it yet; NULL: none */
    int servers;
} job;

static const char *started(const struct net_options *net)
{
    return net->server ? "with --server" : NULL;
}

/* Whether two optimizers are the same but for their rates, which come with each gradient. */
static bool is_same(const tg_spec *a, const tg_spec *b)
{
    if (tg_spec_entry(a) != tg_spec_entry(b))
        return false;
    for (const tg_key *k = tg_spec_entry(a)->keys; k && k->name; k++) {
        const bool has = tg_spec_has(a, k->name);
        if (strcmp(k->name, "lr") == 0)
            continue;
        if (has != tg_spec_has(b, k->name))
            return false;
        if (has && k->type == TG_KEY_REAL &&
            memcmp(&(double){tg_spec_real(a, k->name)}, &(double){tg_spec_real(b, k->name)},
                   sizeof(double)) != 0)
            return false;
        if (has && k->type == TG_KEY_FLAG && tg_spec_flag(a, k->name) != tg_spec_flag(b, k->name))
            return false;
    }
    return true;
}

/* The servers make the steps, so their optimizer counts, and all make them alike. */
static tg_status check_server(int server)
{
    const char *told = tg_net_about(job.net, server + 1), *first = tg_net_about(job.net, 1);
    char theirs[600];
    tg_spec *own = NULL, *other = NULL;
    if (strcmp(told, first) != 0)
        return tg_fail(TG_E_MISMATCH,
                       "server %d has --optimizer %s, and server 0 --optimizer %s: start all "
                       "servers of a job with the same",
                       server, told, first);
    snprintf(theirs, sizeof theirs, "%.*s", (int)server_mode_optimizer(told), told);
    tg_status status = tg_registry_parse(TG_KIND_OPTIMIZER, job.call.optimizer, &own);
    if (status == TG_OK && tg_registry_parse(TG_KIND_OPTIMIZER, theirs, &other) == TG_OK &&
        !is_same(own, other))
        status = tg_fail(TG_E_MISMATCH,
                         "--optimizer %s: server %d makes the steps, with %s: give the same here; "
                         "only lr may differ",
                         job.call.optimizer, server, theirs);
    tg_spec_free(own);
    tg_spec_free(other);
    if (status == TG_OK && job.call.server_mode)
        status = server_mode_expect(server, told, job.call.server_mode);
    return status;
}

static tg_status open_job(const struct job_call *call, int *rank_p, int *size_p)
{
    job.call = *call;
    TG_TRY(tcp_join_servers(call->net, "serve", call->timeout_s, &job.net));
    job.servers = tg_net_size(job.net) - 1;
    for (int q = 0; q < job.servers; q++)
        TG_TRY(check_server(q));
    *rank_p = 0;
    *size_p = 1;
    return TG_OK;
}

static void close_job(tg_status status)
{
    tg_net_leave(job.net, stop_signal ? "it was interrupted" : status == TG_OK ? NULL : tg_error());
    job.net = NULL;
}

static tg_status connect_job(tg_transport **t_p)
{
    tg_transport *t;
    TG_TRY(tg_transport_tcp(job.net, &t));
    job.net = NULL;
    console_note("worker %d of at most %d, each of which trains on its part of the data (telegrad "
                 "serve --workers %d)",
                 t->seat, t->seats, t->seats);
    const tg_status status = tg_transport_worker(t, job.servers, t_p);
    if (status != TG_OK)
        tg_transport_destroy(t);
    return status;
}

static tg_status find_nodes(int *nodes)
{
    nodes[0] = 0;
    return TG_OK;
}

static void version(char *text, size_t room)
{
    job_transport_find("tcp")->version(text, room);
}

const struct job_transport job_transport_servers = {.name = "servers",
                                                    .about = "a worker of --server",
                                                    .requires = "--server tcp://HOST:PORT",
                                                    .count = "telegrad serve --workers N",
                                                    .started = started,
                                                    .alone = true,
                                                    .open = open_job,
                                                    .close = close_job,
                                                    .connect = connect_job,
                                                    .nodes = find_nodes,
                                                    .version = version};

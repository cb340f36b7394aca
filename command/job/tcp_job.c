/* Ranks that are processes of their own and meet over a network. Each transport is a job of its
 * own: the first is joined by open, every further one when it is asked for, with the same rank. */
#include "command/job/tcp_join.h"
#include "command/job/transports.h"
#include "command/output/console.h"
#include "command/output/stop.h"
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    struct job_call call;
    tg_net *net;     /* joined, and not used by a transport yet; NULL: none */
    tg_net *current; /* of the last transport */
    int rank, size;
    int *nodes;
    unsigned joined; /* how often */
} job;

static const char *started(const struct net_options *net)
{
    return net->join ? "with --join" : net->listen ? "with --listen" : NULL;
}

static tg_status join(void)
{
    char name[JOB_COMMAND + 20];
    const int len = snprintf(name, sizeof name, "%.*s", JOB_COMMAND - 1, job.call.command);
    if (job.joined++ > 0)
        snprintf(name + len, sizeof name - (size_t)len, ", run %u", job.joined);
    return tcp_join(job.call.net, name, job.rank, job.call.timeout_s, &job.net);
}

static tg_status open_job(const struct job_call *call, int *rank_p, int *size_p)
{
    job.call = *call;
    job.rank = call->net->join ? call->rank : 0;
    if (call->trains)
        tcp_join_await_hangups(call->net);
    TG_TRY(join());
    job.rank = tg_net_rank(job.net);
    job.size = tg_net_size(job.net);
    job.nodes = malloc((size_t)job.size * sizeof *job.nodes);
    if (!job.nodes)
        return tg_fail(TG_E_NOMEM, "out of memory: nodes of %d ranks", job.size);
    tg_net_nodes(job.net, job.nodes);
    console_note("joined as rank %d of %d", job.rank, job.size);
    *rank_p = job.rank;
    *size_p = job.size;
    return TG_OK;
}

static void close_job(tg_status status)
{
    /* A membership that no transport has taken: what this rank needs besides is missing. */
    tg_net_leave(job.net, stop_signal ? "it was interrupted" : status == TG_OK ? NULL : tg_error());
    job.net = NULL;
    free(job.nodes);
    job.nodes = NULL;
}

static tg_status connect_job(tg_transport **t_p)
{
    if (!job.net)
        TG_TRY(join());
    TG_TRY(tg_transport_tcp(job.net, t_p));
    job.current = job.net; /* the transport's */
    job.net = NULL;
    return TG_OK;
}

static tg_status find_nodes(int *nodes)
{
    memcpy(nodes, job.nodes, (size_t)job.size * sizeof *nodes);
    return TG_OK;
}

static void look(void)
{
    tcp_join_refresh(job.call.net, job.current);
}

static void version(char *text, size_t room)
{
    snprintf(text, room, "%s", OpenSSL_version(OPENSSL_VERSION_STRING));
}

const struct job_transport job_transport_tcp = {.name = "tcp",
                                                .about = "processes that --listen and --join",
                                                .requires = "--listen (rank 0) or --join (the "
                                                            "others)",
                                                .count = "--ranks N",
                                                .started = started,
                                                .alone = true,
                                                .open = open_job,
                                                .close = close_job,
                                                .connect = connect_job,
                                                .nodes = find_nodes,
                                                .look = look,
                                                .version = version};

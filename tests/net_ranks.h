/* Ranks that join over TCP, each in a thread. Include it after cmocka.h and free_ports.h. */
#ifndef TESTS_NET_RANKS_H
#define TESTS_NET_RANKS_H

#include "telegrad/net.h"
#include "transport_suite.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { NET_RANKS_MAX = 8 };

/* This process may open n files, where its limit can be raised so far. */
static inline bool net_may_open(rlim_t n)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max < n)
        return false;
    if (files.rlim_cur < n)
        files.rlim_cur = n;
    return setrlimit(RLIMIT_NOFILE, &files) == 0;
}

typedef struct net_rank {
    tg_net_config config;
    tg_net *net;
    tg_transport *t;
    bool ok;
    tg_status status; /* of joining */
    char error[512];
    pthread_t thread;
} net_rank;

typedef struct net_job {
    int size;
    tg_key_pair *key[NET_RANKS_MAX];
    tg_keys *allow;
    char address[FREE_PORTS_MAX][48], peer_key[TG_KEY_TEXT];
    net_rank rank[NET_RANKS_MAX];
} net_job;

/* Join, and create the transport. Returns false on failure, with the text in error. */
static inline bool net_rank_join(net_rank *r)
{
    r->status = tg_net_join(&r->config, &r->net);
    if (r->status == TG_OK)
        r->status = tg_transport_tcp(r->net, &r->t);
    if (r->status != TG_OK)
        snprintf(r->error, sizeof r->error, "%s", tg_error());
    return r->status == TG_OK;
}

/* Prepare a job: keys, a free port, and everybody's settings, which a test may change. */
static inline void net_job_begin(net_job *job, int size, bool insecure)
{
    char port[FREE_PORTS_MAX][32], list[NET_RANKS_MAX * (TG_KEY_TEXT + 16)] = "";
    *job = (net_job){.size = size};
    find_ports(1, port);
    snprintf(job->address[0], sizeof job->address[0], "tcp://%s", port[0]);
    for (int r = 0; r < size; r++) {
        char text[TG_KEY_TEXT];
        job->rank[r].config = (tg_net_config){.struct_size = sizeof(tg_net_config),
                                              .listen = r == 0 ? job->address[0] : NULL,
                                              .join = r == 0 ? NULL : job->address[0],
                                              .size = size,
                                              .rank = r,
                                              .insecure = insecure,
                                              .timeout_s = 20};
        if (insecure)
            continue;
        assert_int_equal(tg_key_create(&job->key[r]), TG_OK);
        tg_key_text(job->key[r], text);
        if (r == 0)
            memcpy(job->peer_key, text, sizeof text);
        else
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s rank-%d\n", text, r);
    }
    if (insecure)
        return;
    assert_int_equal(tg_keys_parse(list, &job->allow), TG_OK);
    for (int r = 0; r < size; r++) {
        job->rank[r].config.key = job->key[r];
        if (r == 0)
            job->rank[r].config.allow = job->allow;
        else
            job->rank[r].config.peer_key = job->peer_key;
    }
}

/* A thread's work: join, and stay. */
static inline void *net_rank_stays(void *rank)
{
    net_rank *r = rank;
    r->ok = net_rank_join(r);
    return NULL;
}

/* A thread's work: join, and leave at once. */
static inline void *net_rank_passes(void *rank)
{
    net_rank *r = rank;
    r->ok = net_rank_join(r);
    if (r->ok)
        tg_transport_destroy(r->t);
    return NULL;
}

/* A thread's work: join, meet all, leave. */
static inline void *net_rank_visits(void *rank)
{
    net_rank *r = rank;
    if (!net_rank_join(r))
        return NULL;
    suite s = {r->t, r->error};
    r->ok = suite_barrier(&s, -1);
    tg_transport_destroy(r->t);
    return NULL;
}

static inline void net_rank_start(net_rank *r, void *(*work)(void *rank))
{
    assert_int_equal(pthread_create(&r->thread, NULL, work, r), 0);
}

/* Run each rank in a thread, the last one first. */
static inline void net_job_run(net_job *job, void *(*work)(void *rank))
{
    for (int r = job->size - 1; r >= 0; r--)
        net_rank_start(&job->rank[r], work);
    for (int r = 0; r < job->size; r++)
        pthread_join(job->rank[r].thread, NULL);
}

static inline void net_job_check(const net_job *job)
{
    for (int r = 0; r < job->size; r++)
        if (!job->rank[r].ok)
            fail_msg("%d ranks, rank %d: %s", job->size, r, job->rank[r].error);
}

/* What joining gave: this status, and a text with this in it. */
static inline void net_expect(const net_rank *r, tg_status status, const char *part)
{
    if (r->status != status || !strstr(r->error, part))
        fail_msg("%s: %s; expected %s: %s", tg_status_name(r->status), r->error,
                 tg_status_name(status), part);
}

/* Joining so is refused at once, with this status, and a text with this in it. */
static inline void net_refuses(const tg_net_config *config, tg_status status, const char *part)
{
    tg_net *net = NULL;
    const tg_status said = tg_net_join(config, &net);
    if (said != status || net || !strstr(tg_error(), part))
        fail_msg("%s: %s; expected %s: %s", tg_status_name(said), tg_error(),
                 tg_status_name(status), part);
}

/* Connect to "tcp://127.0.0.1:PORT" as a stranger, as soon as somebody listens. -1: nobody does. */
static inline int net_connect(const char *address)
{
    struct sockaddr_in in = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1))};
    for (int tries = 0; tries < 2000; tries++) {
        const int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&in, sizeof in) == 0)
            return fd;
        close(fd);
        usleep(1000);
    }
    return -1;
}

static inline void net_job_end(net_job *job)
{
    for (int r = 0; r < job->size; r++)
        tg_key_destroy(job->key[r]);
    tg_keys_destroy(job->allow);
}

#endif

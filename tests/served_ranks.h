/* Ranks and servers of one process, each in a thread. Include it after cmocka.h. */
#ifndef TESTS_SERVED_RANKS_H
#define TESTS_SERVED_RANKS_H

#include "telegrad/server.h"
#include <pthread.h>
#include <stdio.h>

enum { SERVED_MOST = 16 };

typedef struct served_one {
    struct served_job *job;
    tg_transport *inner;
    tg_status status; /* of a server */
    char error[400];
    tg_server_stats stats;
    pthread_t thread;
} served_one;

typedef struct served_job {
    int ranks, servers;
    const char *mode, *optimizer;                 /* of the servers; NULL: they sum */
    int64_t timeout_ms;                           /* of the servers; 0: their default */
    int64_t deadline_ms, min_workers;             /* of the servers */
    const int *nodes;                             /* of the ranks, as the servers know them */
    void (*be_rank)(tg_transport *t, void *arg);  /* the work of a rank */
    void (*be_inner)(tg_transport *t, void *arg); /* the same on the transport below, if not NULL */
    void *arg;
    void (*look)(const tg_server *s); /* at a server that has run; NULL: nobody looks */
    served_one rank[SERVED_MOST], server[SERVED_MOST];
} served_job;

/* Put something between servers and their transport; NULL: nothing. It owns what it gets. */
static tg_transport *(*served_wrap_server)(tg_transport *inner);

static inline void *served_be_rank(void *one)
{
    served_one *o = one;
    const served_job *job = o->job;
    tg_transport *t = o->inner;
    if (job->be_inner != NULL) {
        job->be_inner(t, job->arg);
    } else {
        if (job->servers > 0)
            assert_int_equal(tg_transport_worker(o->inner, job->servers, &t), TG_OK);
        job->be_rank(t, job->arg);
    }
    tg_transport_destroy(t);
    return NULL;
}

static inline void *served_be_server(void *one)
{
    served_one *o = one;
    const tg_server_config config = {.struct_size = sizeof config,
                                     .timeout_ms = o->job->timeout_ms,
                                     .deadline_ms = o->job->deadline_ms,
                                     .min_workers = o->job->min_workers,
                                     .nodes = o->job->nodes,
                                     .mode = o->job->mode,
                                     .optimizer = o->job->optimizer};
    tg_server *s;
    if (served_wrap_server != NULL)
        o->inner = served_wrap_server(o->inner);
    assert_int_equal(tg_server_create(o->inner, o->job->servers, &config, &s), TG_OK);
    o->status = tg_server_run(s);
    if (o->status != TG_OK)
        snprintf(o->error, sizeof o->error, "%s", tg_error());
    o->stats.struct_size = sizeof o->stats;
    assert_int_equal(tg_server_get_stats(s, &o->stats), TG_OK);
    if (o->job->look != NULL)
        o->job->look(s);
    tg_server_destroy(s);
    tg_transport_destroy(o->inner);
    return NULL;
}

/* Run all of them to their end. */
static inline void served_run(served_job *job)
{
    tg_transport *t[2 * SERVED_MOST];
    const int size = job->ranks + job->servers;
    assert_int_equal(tg_transport_inproc(size, t), TG_OK);
    for (int i = 0; i < size; i++) {
        served_one *o = i < job->ranks ? &job->rank[i] : &job->server[i - job->ranks];
        o->job = job;
        o->inner = t[i];
        assert_int_equal(
            pthread_create(&o->thread, NULL, i < job->ranks ? served_be_rank : served_be_server, o),
            0);
    }
    for (int i = 0; i < size; i++) {
        served_one *o = i < job->ranks ? &job->rank[i] : &job->server[i - job->ranks];
        pthread_join(o->thread, NULL);
    }
}

#endif

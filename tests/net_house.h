/* Servers whose workers come and go, over TCP, in threads; and workers that spend tokens. Include
 * it after cmocka.h and free_ports.h. */
#ifndef TESTS_NET_HOUSE_H
#define TESTS_NET_HOUSE_H

#include "one_tensor.h"
#include "net/membership.h"
#include "server/snapshot.h"
#include "telegrad/clock.h"
#include "telegrad/net.h"
#include "telegrad/server.h"
#include "telegrad/telegrad.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SEATS = 4, SHARDS = 2 };

/* ---- servers --------------------------------------------------------------------------------- */

typedef struct house house;
typedef struct shard_of {
    house *h;
    int shard;
    volatile sig_atomic_t stop; /* set by the thread that reads it */
} shard_of;

struct house {
    int shards;
    const char *mode, *optimizer;
    int64_t timeout_ms;
    int min_workers;
    int64_t deadline_ms;
    bool secure;
    const char *journal; /* folder of shard 0; NULL: none. Other shards have none */
    uint64_t journal_bytes;
    char address[SHARDS][48], key_text[SHARDS][TG_KEY_TEXT];
    const char *addresses[SHARDS], *key_texts[SHARDS];
    tg_key_pair *key[SHARDS], *worker_key[2];
    tg_keys *allow;
    _Atomic(const tg_keys *) list; /* NULL: as it was */
    tg_transport *t[SHARDS];
    tg_server *server[SHARDS];
    tg_server_stats began[SHARDS]; /* what it had before it ran */
    pthread_t thread[SHARDS];
    tg_status status[SHARDS];
    char error[SHARDS][512];
    pthread_mutex_t lock;
    char events[8192];  /* what shard 0 told, a line each */
    char changes[8192]; /* likewise by on_change: kind, seat, name, whether it has a key, reason */
    int late_told;      /* late steps of workers that shard 0 told */
    uint64_t repeated;  /* messages that came again, over all servers that were closed */
    uint64_t late;      /* likewise, those that came after the deadline */
    atomic_bool closes;
    shard_of at[SHARDS];
};

static inline void on_event(void *arg, const char *text)
{
    house *h = arg;
    pthread_mutex_lock(&h->lock);
    const size_t len = strlen(h->events);
    snprintf(h->events + len, sizeof h->events - len, "%s\n", text);
    pthread_mutex_unlock(&h->lock);
}

static inline void on_change(void *arg, const tg_net_event *e)
{
    static const char *const kinds[] = {"came", "back", "left", "lost", "dropped", "refused"};
    house *h = arg;
    pthread_mutex_lock(&h->lock);
    const size_t len = strlen(h->changes);
    if (e->struct_size == sizeof *e && strstr(e->text, e->host) && strstr(e->text, e->reason))
        snprintf(h->changes + len, sizeof h->changes - len, "%s|%d|%s|%d|%s\n", kinds[e->kind],
                 e->seat, e->name, *e->key != 0, e->reason);
    pthread_mutex_unlock(&h->lock);
}

static inline void on_server_event(void *arg, const tg_server_event *e)
{
    ((house *)arg)->late_told += e->kind == TG_SERVER_LATE && e->rank >= 0 && e->rank < SEATS &&
                                 strstr(e->text, "after the deadline") != NULL;
}

static inline const tg_keys *list_now(void *arg)
{
    shard_of *at = arg;
    at->stop = atomic_load(&at->h->closes);
    if (at->stop) /* so that it is seen at once */
        at->h->t[at->shard]->ops->wake(at->h->t[at->shard]);
    return atomic_load(&at->h->list);
}

/* Wait until a server has told this. */
static inline void await_event(house *h, const char *part)
{
    for (int ms = 0; ms < 20000; ms++) {
        pthread_mutex_lock(&h->lock);
        const bool told = strstr(h->events, part) != NULL;
        pthread_mutex_unlock(&h->lock);
        if (told)
            return;
        usleep(1000);
    }
    fail_msg("\"%s\" was not told: %s", part, h->events);
}

static inline void *serve(void *arg)
{
    const shard_of *at = arg;
    house *h = at->h;
    h->status[at->shard] = tg_server_run(h->server[at->shard]);
    snprintf(h->error[at->shard], sizeof h->error[0], "%s", tg_error());
    return NULL;
}

static inline void open_shard(house *h, int q)
{
    tg_net *net;
    const tg_net_serve_config config = {.struct_size = sizeof config,
                                        .listen = h->address[q],
                                        .workers = SEATS,
                                        .shard = q,
                                        .shards = h->shards,
                                        .job = "hosting",
                                        .key = h->key[q],
                                        .allow = h->allow,
                                        .insecure = !h->secure,
                                        .allow_now = list_now,
                                        .allow_now_arg = &h->at[q],
                                        .on_event = q == 0 ? on_event : NULL,
                                        .on_event_arg = h,
                                        .on_change = q == 0 ? on_change : NULL,
                                        .on_change_arg = h};
    const tg_server_config server = {.struct_size = sizeof server,
                                     .timeout_ms = h->timeout_ms,
                                     .stop = &h->at[q].stop,
                                     .mode = h->mode,
                                     .optimizer = h->optimizer,
                                     .shard = q,
                                     .journal = q == 0 ? h->journal : NULL,
                                     .journal_bytes = h->journal_bytes,
                                     .min_workers = h->min_workers,
                                     .deadline_ms = h->deadline_ms,
                                     .on_event = q == 0 ? on_server_event : NULL,
                                     .on_event_arg = h};
    h->at[q] = (shard_of){.h = h, .shard = q};
    if (tg_net_serve(&config, &net) != TG_OK || tg_transport_tcp(net, &h->t[q]) != TG_OK ||
        tg_server_create(h->t[q], 1, &server, &h->server[q]) != TG_OK)
        fail_msg("server %d: %s", q, tg_error());
    h->began[q].struct_size = sizeof h->began[q];
    assert_int_equal(tg_server_get_stats(h->server[q], &h->began[q]), TG_OK);
    assert_int_equal(pthread_create(&h->thread[q], NULL, serve, &h->at[q]), 0);
}

/* shards, mode, optimizer, timeout_ms and secure are set. */
static inline void house_open(house *h)
{
    char port[FREE_PORTS_MAX][32], text[2][TG_KEY_TEXT], list[2 * (TG_KEY_TEXT + 8)];
    find_ports(h->shards, port);
    pthread_mutex_init(&h->lock, NULL);
    for (int i = 0; h->secure && i < 2; i++) {
        assert_int_equal(tg_key_create(&h->worker_key[i]), TG_OK);
        tg_key_text(h->worker_key[i], text[i]);
    }
    snprintf(list, sizeof list, "%s anna\n%s otto\n", text[0], text[1]);
    if (h->secure)
        assert_int_equal(tg_keys_parse(list, &h->allow), TG_OK);
    for (int q = 0; q < h->shards; q++) {
        snprintf(h->address[q], sizeof h->address[q], "tcp://%.31s", port[q]);
        h->addresses[q] = h->address[q];
        if (h->secure)
            assert_int_equal(tg_key_create(&h->key[q]), TG_OK);
        if (h->secure)
            tg_key_text(h->key[q], h->key_text[q]);
        h->key_texts[q] = h->key_text[q];
        open_shard(h, q);
    }
}

/* Stop the servers. */
static inline void house_stop(house *h)
{
    atomic_store(&h->closes, true);
    for (int q = 0; q < h->shards; q++)
        pthread_join(h->thread[q], NULL);
    for (int q = 0; q < h->shards; q++) {
        tg_server_stats stats = {.struct_size = sizeof stats};
        if (h->status[q] != TG_E_STOPPED)
            fail_msg("server %d: %s", q, h->error[q]);
        assert_int_equal(tg_server_get_stats(h->server[q], &stats), TG_OK);
        h->repeated += stats.repeated;
        h->late += stats.late;
        tg_server_destroy(h->server[q]);
        tg_transport_destroy(h->t[q]);
    }
    atomic_store(&h->closes, false);
}

/* Stop the servers, and start them again at the same addresses. */
static inline void house_again(house *h)
{
    house_stop(h);
    for (int q = 0; q < h->shards; q++)
        open_shard(h, q);
}

static inline void house_close(house *h)
{
    house_stop(h);
    for (int q = 0; q < h->shards; q++)
        tg_key_destroy(h->key[q]);
    tg_key_destroy(h->worker_key[0]);
    tg_key_destroy(h->worker_key[1]);
    tg_keys_destroy(h->allow);
    pthread_mutex_destroy(&h->lock);
}

/* Copy a journal that its server may be writing: cp fails if a snapshot takes the place of files
 * that it has listed. */
static inline void house_copy(const char *folder, const char *copy)
{
    char command[300];
    const int64_t until_ns = tg_now_ns(tg_clock_monotonic()) + INT64_C(10000000000);
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s' 2>/dev/null", copy, folder,
             copy);
    while (system(command) != 0)
        if (tg_now_ns(tg_clock_monotonic()) > until_ns)
            fail_msg("%s could not be copied", folder);
}

/* Try to create a server where workers may come. Returns the status, and leaves the text. */
static inline tg_status try_server(const tg_server_config *config)
{
    char port[FREE_PORTS_MAX][32], address[48];
    tg_net *net;
    tg_transport *t;
    tg_server *server = NULL;
    find_ports(1, port);
    snprintf(address, sizeof address, "tcp://%s", port[0]);
    const tg_net_serve_config where = {
        .struct_size = sizeof where, .listen = address, .workers = SEATS, .insecure = true};
    assert_int_equal(tg_net_serve(&where, &net), TG_OK);
    assert_int_equal(tg_transport_tcp(net, &t), TG_OK);
    const tg_status status = tg_server_create(t, 1, config, &server);
    assert_true((status == TG_OK) == (server != NULL));
    tg_server_destroy(server);
    tg_transport_destroy(t);
    return status;
}

/* ---- workers --------------------------------------------------------------------------------- */

static inline tg_net_attach_config attach_config(const house *h)
{
    return (tg_net_attach_config){.struct_size = sizeof(tg_net_attach_config),
                                  .count = h->shards,
                                  .servers = h->addresses,
                                  .server_keys = h->secure ? h->key_texts : NULL,
                                  .job = "hosting",
                                  .key = h->worker_key[0],
                                  .insecure = !h->secure,
                                  .timeout_s = 20};
}

static inline tg_status attach(const tg_net_attach_config *config, tg_net **net_p,
                               tg_transport **t_p)
{
    TG_TRY(tg_net_attach(config, net_p));
    const tg_status status = tg_transport_tcp(*net_p, t_p);
    return status == TG_OK ? tg_transport_worker(*t_p, config->count, t_p) : status;
}

static inline tg_transport *come(const house *h)
{
    const tg_net_attach_config config = attach_config(h);
    tg_net *net;
    tg_transport *t;
    if (attach(&config, &net, &t) != TG_OK)
        fail_msg("%s", tg_error());
    return t;
}

/* ---- token gradients ------------------------------------------------------------------------- */

/* Each life of a worker has tokens of its own: the gradient of its step s is 1 at one element. */
enum { LIVES = 12, TOKEN_STEPS = 10, TOKENS = LIVES * TOKEN_STEPS };

typedef struct spender {
    const house *h;
    int life;
    bool vanishes;         /* after its last step, without a word */
    const char *optimizer; /* NULL: as tokens need */
    const char *method;    /* NULL: dense */
    float w[TOKENS], g[TOKENS];
    char error[400];
} spender;

static inline tg_status spend(spender *p, tg_session *s)
{
    uint32_t id;
    TG_TRY(one_tensor_begin(s, p->w, p->g, TOKENS, &id));
    for (int step = 0; step < TOKEN_STEPS; step++) {
        TG_TRY(tg_session_grad_wait(s, id));
        memset(p->g, 0, sizeof p->g);
        p->g[p->life * TOKEN_STEPS + step] = 1;
        TG_TRY(tg_session_grad_ready(s, id));
        TG_TRY(tg_session_step(s, NULL));
        usleep(500 * (unsigned)(p->life % 3));
    }
    return p->vanishes ? TG_OK : tg_session_finish(s);
}

static inline void *be_spender(void *arg)
{
    spender *p = arg;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = p->method ? p->method : "dense:exchange=star",
                                      .strategy = "server",
                                      .optimizer =
                                          p->optimizer ? p->optimizer : "sgd:lr=1,momentum=0"};
    const tg_net_attach_config to = attach_config(p->h);
    tg_net *net = NULL;
    tg_transport *t = NULL;
    tg_session *s = NULL;
    if (attach(&to, &net, &t) != TG_OK || tg_session_create(&config, t, &s) != TG_OK ||
        spend(p, s) != TG_OK)
        snprintf(p->error, sizeof p->error, "%s", tg_error());
    for (int q = 0; p->vanishes && net && q < p->h->shards; q++)
        (void)shutdown(net->stream[q + 1]->fd, SHUT_RDWR);
    tg_session_destroy(s);
    tg_transport_destroy(t);
    return NULL;
}

/* What a worker begins with: the server's parameters. */
static inline void look(const house *h, float *w)
{
    spender *p = calloc(1, sizeof *p);
    tg_transport *t = come(h);
    tg_session *s;
    uint32_t id;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "dense:exchange=star",
                                      .strategy = "server",
                                      .optimizer = h->optimizer};
    assert_non_null(p);
    assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
    if (one_tensor_begin(s, w, p->g, TOKENS, &id) != TG_OK)
        fail_msg("%s", tg_error());
    tg_session_destroy(s);
    tg_transport_destroy(t);
    free(p);
}

#endif

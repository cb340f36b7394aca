/* Workers that come to servers over TCP, train, and leave, at any time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_by_hand.h"
#include "net_ranks.h"
#include "net/seats.h"
#include "two_tensors.h"
#include "telegrad/server.h"
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { SEATS = 4, SHARDS = 2, ROWS = 40, COLS = 50, REST = 3001, N = ROWS * COLS + REST };

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
    bool secure;
    const char *journal; /* folder; NULL: none */
    uint64_t journal_bytes;
    char address[SHARDS][48], key_text[SHARDS][TG_KEY_TEXT];
    const char *addresses[SHARDS], *key_texts[SHARDS];
    tg_key_pair *key[SHARDS], *worker_key[2];
    tg_keys *allow;
    _Atomic(const tg_keys *) list; /* NULL: as it was */
    tg_transport *t[SHARDS];
    tg_server *server[SHARDS];
    pthread_t thread[SHARDS];
    tg_status status[SHARDS];
    char error[SHARDS][512];
    pthread_mutex_t lock;
    char events[8192]; /* what shard 0 told, a line each */
    atomic_bool closes;
    shard_of at[SHARDS];
};

static void on_event(void *arg, const char *text)
{
    house *h = arg;
    pthread_mutex_lock(&h->lock);
    const size_t len = strlen(h->events);
    snprintf(h->events + len, sizeof h->events - len, "%s\n", text);
    pthread_mutex_unlock(&h->lock);
}

static const tg_keys *list_now(void *arg)
{
    shard_of *at = arg;
    at->stop = atomic_load(&at->h->closes);
    if (at->stop) /* so that it is seen at once */
        at->h->t[at->shard]->ops->wake(at->h->t[at->shard]);
    return atomic_load(&at->h->list);
}

/* Wait until a server has told this. */
static void await_event(house *h, const char *part)
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

static void *serve(void *arg)
{
    const shard_of *at = arg;
    house *h = at->h;
    h->status[at->shard] = tg_server_run(h->server[at->shard]);
    snprintf(h->error[at->shard], sizeof h->error[0], "%s", tg_error());
    return NULL;
}

static void open_shard(house *h, int q)
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
                                        .on_event_arg = h};
    const tg_server_config server = {.struct_size = sizeof server,
                                     .timeout_ms = h->timeout_ms,
                                     .stop = &h->at[q].stop,
                                     .mode = h->mode,
                                     .optimizer = h->optimizer,
                                     .shard = q,
                                     .journal = h->journal,
                                     .journal_bytes = h->journal_bytes};
    h->at[q] = (shard_of){.h = h, .shard = q};
    if (tg_net_serve(&config, &net) != TG_OK || tg_transport_tcp(net, &h->t[q]) != TG_OK ||
        tg_server_create(h->t[q], 1, &server, &h->server[q]) != TG_OK)
        fail_msg("server %d: %s", q, tg_error());
    assert_int_equal(pthread_create(&h->thread[q], NULL, serve, &h->at[q]), 0);
}

/* shards, mode, optimizer, timeout_ms and secure are set. */
static void house_open(house *h)
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
        snprintf(h->address[q], sizeof h->address[q], "tcp://%s", port[q]);
        h->addresses[q] = h->address[q];
        if (h->secure)
            assert_int_equal(tg_key_create(&h->key[q]), TG_OK);
        if (h->secure)
            tg_key_text(h->key[q], h->key_text[q]);
        h->key_texts[q] = h->key_text[q];
        open_shard(h, q);
    }
}

static void house_close(house *h)
{
    atomic_store(&h->closes, true);
    for (int q = 0; q < h->shards; q++)
        pthread_join(h->thread[q], NULL);
    for (int q = 0; q < h->shards; q++) {
        if (h->status[q] != TG_E_STOPPED)
            fail_msg("server %d: %s", q, h->error[q]);
        tg_server_destroy(h->server[q]);
        tg_transport_destroy(h->t[q]);
        tg_key_destroy(h->key[q]);
    }
    tg_key_destroy(h->worker_key[0]);
    tg_key_destroy(h->worker_key[1]);
    tg_keys_destroy(h->allow);
    pthread_mutex_destroy(&h->lock);
}

/* ---- workers --------------------------------------------------------------------------------- */

static tg_net_attach_config attach_config(const house *h)
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

static tg_status attach(const tg_net_attach_config *config, tg_net **net_p, tg_transport **t_p)
{
    TG_TRY(tg_net_attach(config, net_p));
    const tg_status status = tg_transport_tcp(*net_p, t_p);
    return status == TG_OK ? tg_transport_worker(*t_p, config->count, t_p) : status;
}

static tg_transport *come(const house *h)
{
    const tg_net_attach_config config = attach_config(h);
    tg_net *net;
    tg_transport *t;
    if (attach(&config, &net, &t) != TG_OK)
        fail_msg("%s", tg_error());
    return t;
}

/* Attaching so is refused. */
static void refuses(const tg_net_attach_config *config, tg_status status, const char *part)
{
    tg_net *net = NULL;
    const tg_status said = tg_net_attach(config, &net);
    if (said != status || net || !strstr(tg_error(), part))
        fail_msg("%s: %s; expected %s: %s", tg_status_name(said), tg_error(),
                 tg_status_name(status), part);
}

typedef struct trainee {
    const char *method, *strategy;
    float w[N], g[N];
} trainee;

static void draw(void *arg, int step)
{
    trainee *m = arg;
    const tg_rng_key key = {.seed = 9, .purpose = TG_PURPOSE_TEST, .step = (uint64_t)step};
    for (size_t i = 0; i < N; i++)
        m->g[i] = (float)(tg_rng_uniform(&key, i) - 0.5);
}

static uint64_t train(trainee *m, tg_transport *t, const char *optimizer)
{
    uint64_t hash = 0;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = m->method,
                                      .strategy = m->strategy,
                                      .optimizer = optimizer,
                                      .steps_per_epoch = 2,
                                      .bucket_bytes = 8000};
    const two_tensors two = {ROWS, COLS, REST, 6, m->w, m->g, draw, m};
    if (two_tensors_train(&two, &config, t, &hash) != TG_OK)
        fail_msg("%s: %s", m->method, tg_error());
    return hash;
}

/* One worker at servers that come and go is training alone, bit for bit. */
static void test_alone_is_sequential(void **state)
{
    static const char *const optimizers[] = {"sgd:lr=0.01,momentum=0.9", "adam:lr=0.01"};
    trainee *m = calloc(1, sizeof *m);
    (void)state;
    assert_non_null(m);
    for (int i = 0; i < 4; i++) {
        house *h = calloc(1, sizeof *h);
        tg_transport *alone;
        assert_non_null(h);
        h->shards = 1 + i / 2;
        h->mode = "async";
        h->optimizer = optimizers[i % 2];
        h->secure = i == 3;
        house_open(h);
        assert_int_equal(tg_transport_inproc(1, &alone), TG_OK);
        *m = (trainee){.method = "topk:density=0.1", .strategy = "ssgd"};
        const uint64_t expected = train(m, alone, optimizers[i % 2]);
        tg_transport_destroy(alone);
        tg_transport *t = come(h);
        assert_int_equal(t->size, 1);
        assert_int_equal(t->seats, SEATS);
        *m = (trainee){.method = "topk:density=0.1,exchange=star", .strategy = "server"};
        assert_true(train(m, t, optimizers[i % 2]) == expected);
        tg_transport_destroy(t);
        house_close(h);
        free(h);
    }
    free(m);
}

/* ---- token gradients ------------------------------------------------------------------------- */

/* Each life of a worker has tokens of its own: the gradient of its step s is 1 at one element. */
enum { LIVES = 12, TOKEN_STEPS = 10, TOKENS = LIVES * TOKEN_STEPS };

typedef struct spender {
    const house *h;
    int life;
    bool vanishes;         /* after its last step, without a word */
    const char *optimizer; /* NULL: as tokens need */
    float w[TOKENS], g[TOKENS];
    char error[400];
} spender;

static tg_status spend(spender *p, tg_session *s)
{
    uint32_t id;
    const size_t shape = TOKENS;
    const tg_tensor tensor = {.struct_size = sizeof tensor,
                              .name = "w",
                              .shape = &shape,
                              .ndim = 1,
                              .param = tg_array_f32(p->w, TOKENS),
                              .grad = tg_array_f32(p->g, TOKENS)};
    TG_TRY(tg_session_add(s, &tensor, &id));
    TG_TRY(tg_session_begin(s));
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

static void *be_spender(void *arg)
{
    spender *p = arg;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "dense:exchange=star",
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

/* Three times as many workers as there are seats come and go: each token counts once. */
static void test_tokens(void **state)
{
    (void)state;
    for (int shards = 1; shards <= SHARDS; shards++) {
        house *h = calloc(1, sizeof *h);
        spender *p = calloc(LIVES + 1, sizeof *p);
        pthread_t thread[LIVES];
        assert_true(h && p);
        h->shards = shards;
        h->mode = shards == 1 ? "async" : "async:staleness=3";
        h->optimizer = "sgd:lr=1,momentum=0";
        house_open(h);
        for (int i = 0; i < LIVES; i++) {
            p[i] = (spender){.h = h, .life = i, .vanishes = i % 4 == 1};
            assert_int_equal(pthread_create(&thread[i], NULL, be_spender, &p[i]), 0);
        }
        for (int i = 0; i < LIVES; i++)
            pthread_join(thread[i], NULL);
        for (int i = 0; i < LIVES; i++)
            if (*p[i].error)
                fail_msg("worker %d: %s", i, p[i].error);
        /* One more only looks: what it begins with has all tokens. */
        trainee *m = calloc(1, sizeof *m);
        tg_transport *t = come(h);
        tg_session *s;
        uint32_t id;
        const size_t shape = TOKENS;
        const tg_session_config config = {.struct_size = sizeof config,
                                          .method = "dense:exchange=star",
                                          .strategy = "server",
                                          .optimizer = "sgd:lr=1,momentum=0"};
        const tg_tensor tensor = {.struct_size = sizeof tensor,
                                  .name = "w",
                                  .shape = &shape,
                                  .ndim = 1,
                                  .param = tg_array_f32(p[LIVES].w, TOKENS),
                                  .grad = tg_array_f32(p[LIVES].g, TOKENS)};
        assert_non_null(m);
        assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
        assert_int_equal(tg_session_add(s, &tensor, &id), TG_OK);
        assert_int_equal(tg_session_begin(s), TG_OK);
        for (int i = 0; i < TOKENS; i++)
            assert_true(fabsf(p[LIVES].w[i] + 1) < 1e-6F);
        tg_session_destroy(s);
        tg_transport_destroy(t);
        house_close(h);
        free(m);
        free(p);
        free(h);
    }
}

/* ---- those who may not ----------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    (void)state;
    house *h = calloc(1, sizeof *h);
    tg_key_pair *stranger;
    tg_transport *t[SEATS];
    assert_non_null(h);
    h->shards = SHARDS;
    h->mode = "async";
    h->optimizer = "sgd:lr=0.1";
    h->secure = true;
    house_open(h);
    assert_int_equal(tg_key_create(&stranger), TG_OK);
    tg_net_attach_config c = attach_config(h);
    c.timeout_s = 5;
    c.key = stranger;
    refuses(&c, TG_E_PEER, "server 0 at tcp://127.0.0.1");
    await_event(h, "it is not on the list of allowed keys");
    c = attach_config(h);
    c.job = "other";
    refuses(&c, TG_E_MISMATCH, "job \"other\": this server is for job \"hosting\"");
    c = attach_config(h);
    c.count = 1;
    refuses(&c, TG_E_MISMATCH, "shard 0 of 1 is expected here: this is shard 0 of 2");
    c = attach_config(h);
    const char *const swapped[] = {h->address[1], h->address[0]};
    const char *const keys[] = {h->key_text[1], h->key_text[0]};
    c.servers = swapped;
    refuses(&c, TG_E_PEER, "but the expected one is");
    c.server_keys = keys;
    refuses(&c, TG_E_MISMATCH, "shard 0 of 2 is expected here: this is shard 1 of 2");
    c = attach_config(h);
    c.timeout_s = 0.3;
    for (int i = 0; i < SEATS; i++)
        t[i] = come(h);
    refuses(&c, TG_E_PEER, "all 4 seats for workers are taken");
    tg_net_config joins = {.struct_size = sizeof joins,
                           .join = h->address[0],
                           .peer_key = h->key_text[0],
                           .key = h->worker_key[0],
                           .timeout_s = 5};
    net_refuses(&joins, TG_E_MISMATCH, "this is a parameter server, not a meeting point");
    tg_transport_destroy(t[2]);
    t[2] = come(h); /* as soon as the seat is vacant */
    assert_int_equal(t[2]->seat, 2);
    for (int i = 0; i < SEATS; i++)
        tg_transport_destroy(t[i]);
    tg_key_destroy(stranger);
    house_close(h);
    free(h);
}

/* A key is taken off the list: its workers are disconnected, and told why; others stay. */
static void test_key_removed(void **state)
{
    (void)state;
    house *h = calloc(1, sizeof *h);
    char text[TG_KEY_TEXT];
    tg_keys *others;
    assert_non_null(h);
    h->shards = 1;
    h->mode = "async";
    h->optimizer = "sgd:lr=0.1";
    h->secure = true;
    house_open(h);
    tg_net_attach_config c = attach_config(h);
    tg_net *net;
    tg_transport *anna = come(h), *otto;
    c.key = h->worker_key[1];
    assert_int_equal(attach(&c, &net, &otto), TG_OK);
    await_event(h, "worker 1 (otto, 127.0.0.1) has come");
    tg_key_text(h->worker_key[1], text);
    assert_int_equal(tg_keys_parse(text, &others), TG_OK);
    atomic_store(&h->list, others);
    tg_request req;
    uint8_t byte;
    tg_status status = anna->ops->post_recv(anna, 1, 5, &byte, 1, &req);
    bool done = false;
    size_t len;
    while (status == TG_OK && !done) {
        status = anna->ops->poll(anna, tg_now_ns(anna->clock) + 1000000);
        if (status == TG_OK)
            status = anna->ops->test(anna, &req, &done, &len);
    }
    assert_int_equal(status, TG_E_PEER);
    if (!strstr(tg_error(), "server 0 has left: its key was removed"))
        fail_msg("%s", tg_error());
    await_event(h, "worker 0 (");
    await_event(h, "has left: its key was removed from the list of allowed keys");
    assert_int_equal(otto->ops->post_recv(otto, 1, 5, &byte, 1, &req), TG_OK);
    assert_int_equal(otto->ops->poll(otto, tg_now_ns(otto->clock) + 1000000), TG_OK);
    done = false;
    assert_int_equal(otto->ops->test(otto, &req, &done, &len), TG_OK);
    assert_false(done);
    tg_transport_destroy(anna);
    tg_transport_destroy(otto);
    atomic_store(&h->list, h->allow);
    usleep(300000); /* until the server has taken it */
    house_close(h);
    tg_keys_destroy(others);
    free(h);
}

/* A worker that breaks the rules, one that falls silent while another waits for it, and one with
 * another model, are disconnected; the others go on. */
static void test_bad_workers(void **state)
{
    (void)state;
    house *h = calloc(1, sizeof *h);
    trainee *m = calloc(1, sizeof *m);
    spender *p = calloc(2, sizeof *p);
    assert_true(h && m && p);
    h->shards = 1;
    h->mode = "async:staleness=2";
    h->optimizer = "sgd:lr=1,momentum=0";
    h->timeout_ms = 300;
    house_open(h);
    /* A stamp that is none. */
    tg_transport *bad = come(h);
    tg_request req;
    uint8_t byte = 0;
    assert_int_equal(bad->ops->post_send(bad, 1, 7, &byte, 1, &req), TG_OK);
    await_event(h, "has left: a message with tag 7 of 1 bytes is announced");
    tg_transport_destroy(bad);
    /* One begins and is silent, another waits for it until it is put out. */
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "dense:exchange=star",
                                      .strategy = "server",
                                      .optimizer = "sgd:lr=1,momentum=0"};
    const size_t shape = TOKENS;
    const tg_tensor tensor = {.struct_size = sizeof tensor,
                              .name = "w",
                              .shape = &shape,
                              .ndim = 1,
                              .param = tg_array_f32(p[1].w, TOKENS),
                              .grad = tg_array_f32(p[1].g, TOKENS)};
    tg_transport *silent = come(h);
    tg_session *s;
    uint32_t id;
    assert_int_equal(tg_session_create(&config, silent, &s), TG_OK);
    assert_int_equal(tg_session_add(s, &tensor, &id), TG_OK);
    assert_int_equal(tg_session_begin(s), TG_OK);
    p[0] = (spender){.h = h};
    be_spender(&p[0]);
    assert_string_equal(p[0].error, "");
    await_event(h, "sent nothing for 0.");
    tg_session_destroy(s);
    tg_transport_destroy(silent);
    /* Another model, as others have begun. */
    tg_transport *t = come(h);
    *m = (trainee){.method = "dense:exchange=star", .strategy = "server"};
    assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
    const size_t longer = N;
    const tg_tensor other = {.struct_size = sizeof other,
                             .name = "w",
                             .shape = &longer,
                             .ndim = 1,
                             .param = tg_array_f32(m->w, N),
                             .grad = tg_array_f32(m->g, N)};
    assert_int_equal(tg_session_add(s, &other, &id), TG_OK);
    assert_int_equal(tg_session_begin(s), TG_E_PEER);
    if (!strstr(tg_error(), "this server has 0 to 120"))
        fail_msg("%s", tg_error());
    tg_session_destroy(s);
    tg_transport_destroy(t);
    /* What it began is over: nobody is put out because of it. */
    usleep(400000);
    p[0] = (spender){.h = h, .life = 1};
    be_spender(&p[0]);
    assert_string_equal(p[0].error, "");
    house_close(h);
    free(p);
    free(m);
    free(h);
}

/* ---- journal --------------------------------------------------------------------------------- */

/* What a worker begins with: the server's parameters. */
static void look(const house *h, float *w)
{
    spender *p = calloc(1, sizeof *p);
    tg_transport *t = come(h);
    tg_session *s;
    uint32_t id;
    const size_t shape = TOKENS;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "dense:exchange=star",
                                      .strategy = "server",
                                      .optimizer = h->optimizer};
    assert_non_null(p);
    const tg_tensor tensor = {.struct_size = sizeof tensor,
                              .name = "w",
                              .shape = &shape,
                              .ndim = 1,
                              .param = tg_array_f32(w, TOKENS),
                              .grad = tg_array_f32(p->g, TOKENS)};
    assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
    assert_int_equal(tg_session_add(s, &tensor, &id), TG_OK);
    if (tg_session_begin(s) != TG_OK)
        fail_msg("%s", tg_error());
    tg_session_destroy(s);
    tg_transport_destroy(t);
    free(p);
}

static void shell(const char *format, const char *a, const char *b)
{
    char command[300];
    snprintf(command, sizeof command, format, a, b);
    assert_int_equal(system(command), 0);
}

static void spend_all(const house *h, int from, int to)
{
    spender *p = calloc(LIVES, sizeof *p);
    pthread_t thread[LIVES];
    assert_non_null(p);
    for (int i = from; i < to; i++) {
        p[i] = (spender){.h = h, .life = i, .optimizer = h->optimizer};
        assert_int_equal(pthread_create(&thread[i], NULL, be_spender, &p[i]), 0);
    }
    for (int i = from; i < to; i++) {
        pthread_join(thread[i], NULL);
        assert_string_equal(p[i].error, "");
    }
    free(p);
}

/* At any time, what is in the folder makes a server with the bits of the one that wrote it; also
 * when the folder was copied while that one ran. */
static void test_journal(void **state)
{
    static const char *const modes[] = {"async", "async:compensate=0.5", "async:staleness=3"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        house *h = calloc(1, sizeof *h), *after = calloc(1, sizeof *after);
        char folder[] = "/tmp/tg-house-XXXXXX", copy[40];
        float *w = calloc(3 * TOKENS, sizeof *w);
        assert_true(h && after && w && mkdtemp(folder));
        snprintf(copy, sizeof copy, "%s.copy", folder);
        h->shards = 1;
        h->mode = modes[i % 3];
        h->optimizer = i % 2 == 0 ? "adam:lr=0.01" : "sgd:lr=0.1,momentum=0.9";
        h->journal = folder;
        h->journal_bytes = i < 2 ? 20000 : 0; /* many snapshots; only the first one */
        house_open(h);
        spend_all(h, 0, SEATS);
        spend_all(h, SEATS, SEATS + 2);
        look(h, w);
        shell("cp -r '%s' '%s'", folder, copy); /* as if the machine had died now */
        *after = (house){.shards = 1, .mode = h->mode, .optimizer = h->optimizer, .journal = copy};
        house_open(after);
        look(after, w + TOKENS);
        assert_memory_equal(w, w + TOKENS, TOKENS * sizeof *w);
        house_close(after);
        house_close(h); /* in order: a snapshot alone is left */
        *after =
            (house){.shards = 1, .mode = h->mode, .optimizer = h->optimizer, .journal = folder};
        house_open(after);
        spend_all(after, SEATS + 2, SEATS + 3); /* it goes on */
        look(after, w + 2 * TOKENS);
        assert_memory_not_equal(w, w + 2 * TOKENS, TOKENS * sizeof *w);
        house_close(after);
        shell("rm -r '%s' '%s'", folder, copy);
        free(w);
        free(after);
        free(h);
    }
}

/* The folder of another server. */
static void test_journal_of_others(void **state)
{
    static const struct {
        const char *optimizer;
        int shard;
        tg_status status;
        const char *part;
    } cases[] = {{"sgd:lr=0.5,momentum=0", 0, TG_OK, ""},
                 {"sgd:lr=0.1,momentum=0", 0, TG_OK, ""}, /* the rate is the workers' */
                 {"sgd:lr=0.1,momentum=0.9", 0, TG_E_MISMATCH, "momentum=0"},
                 {"adam:lr=0.1", 0, TG_E_MISMATCH, "optimizer=adam"},
                 {"sgd:lr=0.1,momentum=0", 1, TG_E_MISMATCH, "shard=1"}};
    (void)state;
    char folder[] = "/tmp/tg-house-XXXXXX";
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char port[FREE_PORTS_MAX][32], address[48];
        tg_net *net;
        tg_transport *t;
        tg_server *server = NULL;
        find_ports(1, port);
        snprintf(address, sizeof address, "tcp://%s", port[0]);
        const tg_net_serve_config config = {
            .struct_size = sizeof config, .listen = address, .workers = SEATS, .insecure = true};
        const tg_server_config c = {.struct_size = sizeof c,
                                    .mode = "async",
                                    .optimizer = cases[i].optimizer,
                                    .shard = cases[i].shard,
                                    .journal = folder};
        assert_int_equal(tg_net_serve(&config, &net), TG_OK);
        assert_int_equal(tg_transport_tcp(net, &t), TG_OK);
        const tg_status status = tg_server_create(t, 1, &c, &server);
        if (status != cases[i].status || (status != TG_OK && !strstr(tg_error(), cases[i].part)))
            fail_msg("%s: %s: %s", cases[i].optimizer, tg_status_name(status), tg_error());
        tg_server_destroy(server);
        tg_transport_destroy(t);
    }
    shell("rm -r '%s'%s", folder, "");
}

/* Modes that gather need workers that stay. */
static void test_modes(void **state)
{
    static const char *const modes[] = {"sum", "sync", "async:staleness=0"};
    (void)state;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        char port[FREE_PORTS_MAX][32], address[48];
        tg_net *net;
        tg_transport *t;
        tg_server *server = NULL;
        find_ports(1, port);
        snprintf(address, sizeof address, "tcp://%s", port[0]);
        const tg_net_serve_config config = {
            .struct_size = sizeof config, .listen = address, .workers = SEATS, .insecure = true};
        const tg_server_config c = {
            .struct_size = sizeof c, .mode = modes[i], .optimizer = i == 0 ? NULL : "sgd:lr=1"};
        assert_int_equal(tg_net_serve(&config, &net), TG_OK);
        assert_int_equal(tg_transport_tcp(net, &t), TG_OK);
        assert_int_equal(tg_server_create(t, 1, &c, &server), TG_E_UNSUPPORTED);
        assert_non_null(strstr(tg_error(), "these come and go"));
        assert_null(server);
        tg_transport_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_is_sequential),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_key_removed),
        cmocka_unit_test(test_bad_workers),
        cmocka_unit_test(test_journal),
        cmocka_unit_test(test_journal_of_others),
        cmocka_unit_test(test_modes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

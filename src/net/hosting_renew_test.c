/* Workers whose connections break off, and servers that are started again: what was sent is taken
 * exactly once. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "free_ports.h"
#include "net_house.h"

/* A worker that spends its tokens, and cuts its own connections all the time. */
typedef struct cutter {
    const house *h;
    int life;
    uint32_t seed;
    const char *method; /* NULL: dense */
    bool quiet;         /* it cuts nothing */
    bool slow;
    bool early; /* its connections are cut before its first gradient */
    double again_s;
    int64_t timeout_ms; /* of its session */
    atomic_bool stops;  /* while it calls */
    int cuts;
    float w[TOKENS], g[TOKENS];
    float kept[TOKENS]; /* what the server has in the end */
    tg_status status;
    char error[700];
} cutter;

static uint32_t dice(cutter *c, uint32_t sides)
{
    c->seed = c->seed * 1664525u + 1013904223u;
    return (c->seed >> 10) % sides;
}

/* In the worker's own thread, so nothing else uses the connections now. */
static void cut(cutter *c, const tg_net *net)
{
    static const int ways[] = {SHUT_RD, SHUT_WR, SHUT_RDWR};
    const int q = (int)dice(c, (uint32_t)c->h->shards);
    if (c->quiet || dice(c, 3) > 0 || net->stream[q + 1] == NULL)
        return;
    (void)shutdown(net->stream[q + 1]->fd, ways[dice(c, 3)]);
    c->cuts++;
}

static tg_status work(cutter *c, tg_session *s, const tg_net *net)
{
    uint32_t id;
    TG_TRY(one_tensor_begin(s, c->w, c->g, TOKENS, &id));
    for (int q = 0; c->early && q < c->h->shards; q++)
        (void)shutdown(net->stream[q + 1]->fd, SHUT_RDWR);
    usleep(c->early ? 50000 : 0); /* until the servers have seen it */
    for (int step = 0; step < TOKEN_STEPS; step++) {
        TG_TRY(tg_session_grad_wait(s, id));
        memset(c->g, 0, sizeof c->g);
        c->g[c->life * TOKEN_STEPS + step] = 1;
        cut(c, net);
        TG_TRY(tg_session_grad_ready(s, id));
        if (dice(c, 2) > 0)
            TG_TRY(tg_session_progress(s));
        if (dice(c, 2) > 0) /* the answer is on its way, or there */
            usleep(2000);
        cut(c, net);
        TG_TRY(tg_session_step(s, NULL));
        usleep(c->slow ? 30000 : dice(c, 3000));
    }
    return tg_session_finish(s);
}

static bool is_stopped(void *arg)
{
    return atomic_load(&((cutter *)arg)->stops);
}

static void *be_cutter(void *arg)
{
    cutter *c = arg;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = c->method ? c->method : "dense:exchange=star",
                                      .strategy = "server",
                                      .optimizer = c->h->optimizer,
                                      .driver = TG_DRIVER_INLINE,
                                      .timeout_ms = c->timeout_ms};
    tg_net_attach_config to = attach_config(c->h);
    tg_net *net = NULL;
    tg_transport *t = NULL;
    tg_session *s = NULL;
    to.again_s = c->again_s;
    to.stop = is_stopped;
    to.stop_arg = c;
    c->status = attach(&to, &net, &t);
    if (c->status == TG_OK)
        c->status = tg_session_create(&config, t, &s);
    if (c->status == TG_OK)
        c->status = work(c, s, net);
    if (c->status != TG_OK)
        snprintf(c->error, sizeof c->error, "%s", tg_error());
    tg_session_destroy(s);
    tg_transport_destroy(t);
    return NULL;
}

static void start(cutter *c, pthread_t *thread)
{
    if (c->again_s <= 0)
        c->again_s = 30;
    assert_int_equal(pthread_create(thread, NULL, be_cutter, c), 0);
}

/* Each token of lives [0, lives) was taken once, as so much. */
static void count_tokens(const house *h, int lives, float token)
{
    static float w[TOKENS];
    look(h, w);
    for (int i = 0; i < lives * TOKEN_STEPS; i++)
        if (w[i] < -token || w[i] > -token)
            fail_msg("token %d of life %d was taken as %g in place of %g", i % TOKEN_STEPS,
                     i / TOKEN_STEPS, (double)-w[i], (double)token);
}

/* A token is all that there is to send of a gradient; others' tokens come one after the other. */
static const char coded[] = "topk:density=0.02,values=f32,exchange=twoway";

static void test_cuts(void **state)
{
    static const struct {
        int shards;
        const char *mode;
        bool secure, keeps;
        const char *method;
    } cases[] = {{1, "async", false, false, NULL},
                 {2, "async:staleness=3", true, false, NULL},
                 {1, "async:staleness=2", false, true, NULL},
                 {1, "sync", false, true, NULL},
                 {2, "sync", false, false, NULL},
                 {1, "async", false, true, coded},
                 {2, "async", false, false, coded},
                 {2, "async:staleness=3", false, false, coded}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        house *h = calloc(1, sizeof *h);
        cutter *c = calloc(SEATS - 1, sizeof *c);
        pthread_t thread[SEATS - 1];
        char folder[] = "/tmp/tg-house-XXXXXX", command[60];
        int cuts = 0;
        assert_true(h && c && mkdtemp(folder));
        *h = (house){.shards = cases[k].shards,
                     .mode = cases[k].mode,
                     .optimizer = "sgd:lr=1,momentum=0",
                     .secure = cases[k].secure,
                     .journal = cases[k].keeps ? folder : NULL,
                     .min_workers = strcmp(cases[k].mode, "sync") == 0 ? SEATS - 1 : 0,
                     .timeout_ms = 20000};
        house_open(h);
        for (int i = 0; i < SEATS - 1; i++) {
            c[i] = (cutter){.h = h,
                            .life = i,
                            .seed = (uint32_t)(100 * k) + (uint32_t)i,
                            .method = cases[k].method};
            start(&c[i], &thread[i]);
        }
        for (int i = 0; i < SEATS - 1; i++) {
            pthread_join(thread[i], NULL);
            assert_string_equal(c[i].error, "");
            cuts += c[i].cuts;
            for (int e = 0; cases[k].method != NULL && e < TOKENS; e++)
                assert_true(c[i].w[e] == 0 || c[i].w[e] == -1);
        }
        /* with sync, a token is part of a mean */
        count_tokens(h, SEATS - 1, h->min_workers > 0 ? 1 / (float)h->min_workers : 1);
        house_close(h);
        assert_true(cuts > 5);
        print_message("%d cuts, %d messages came again\n", cuts, (int)h->repeated);
        snprintf(command, sizeof command, "rm -r '%s'", folder);
        assert_int_equal(system(command), 0);
        free(c);
        free(h);
    }
}

/* The server is started again, with and without its journal, while a worker works. */
static void restart(const char *journal, const char *method, cutter *c)
{
    house *h = calloc(1, sizeof *h);
    pthread_t thread;
    assert_non_null(h);
    *h = (house){.shards = 1,
                 .mode = "async",
                 .optimizer = "adam:lr=0.01",
                 .journal = journal,
                 .timeout_ms = 20000};
    house_open(h);
    *c = (cutter){.h = h, .method = method, .quiet = true, .slow = true};
    start(c, &thread);
    await_event(h, "has come");
    for (int turn = 0; turn < 3; turn++) {
        usleep(50000);
        house_again(h);
    }
    pthread_join(thread, NULL);
    if (c->status == TG_OK)
        look(h, c->kept);
    house_close(h);
    free(h);
}

static void test_server_again(void **state)
{
    static cutter kept, lost, alone, coder;
    char folder[] = "/tmp/tg-house-XXXXXX", other[] = "/tmp/tg-house-XXXXXX", command[80];
    house *h = calloc(1, sizeof *h);
    pthread_t thread;
    (void)state;
    assert_true(h && mkdtemp(folder) && mkdtemp(other));
    restart(folder, NULL, &kept);
    assert_string_equal(kept.error, "");
    restart(other, coded, &coder); /* the gradients are the same */
    assert_string_equal(coder.error, "");
    assert_memory_equal(coder.kept, kept.kept, sizeof kept.kept);
    restart(NULL, NULL, &lost);
    assert_int_equal(lost.status, TG_E_PEER);
    if (!strstr(lost.error, "does not remember it"))
        fail_msg("%s", lost.error);
    *h = (house){.shards = 1, .mode = "async", .optimizer = "adam:lr=0.01"};
    house_open(h);
    alone = (cutter){.h = h, .quiet = true};
    start(&alone, &thread);
    pthread_join(thread, NULL);
    house_close(h);
    assert_string_equal(alone.error, "");
    assert_memory_equal(kept.w, alone.w, sizeof alone.w); /* bit for bit */
    assert_memory_equal(kept.w, kept.kept, sizeof kept.w);
    snprintf(command, sizeof command, "rm -r '%s' '%s'", folder, other);
    assert_int_equal(system(command), 0);
    free(h);
}

/* A worker that is alone loses its connections before its first gradient: the parameters that it
 * has offered are still there. */
static void test_early(void **state)
{
    (void)state;
    house *h = calloc(1, sizeof *h);
    cutter *c = calloc(1, sizeof *c);
    pthread_t thread;
    assert_true(h && c);
    *h = (house){
        .shards = SHARDS, .mode = "async", .optimizer = "sgd:lr=1,momentum=0", .timeout_ms = 20000};
    house_open(h);
    *c = (cutter){.h = h, .quiet = true, .early = true};
    start(c, &thread);
    pthread_join(thread, NULL);
    assert_string_equal(c->error, "");
    count_tokens(h, 1, 1);
    house_close(h);
    assert_non_null(strstr(h->changes, "came|0||0|\nlost|0||0|"));
    assert_non_null(strstr(h->changes, "back|0||0|\n"));
    assert_null(strstr(h->changes, "dropped"));
    free(c);
    free(h);
}

/* Come, offer parameters, and leave without a gradient, in order or not. What the server has then
 * is in w. */
static void offer(const house *h, bool in_order, float *w)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "dense:exchange=star",
                                      .strategy = "server",
                                      .optimizer = h->optimizer};
    float g[TOKENS] = {0};
    tg_net_attach_config to = attach_config(h);
    tg_net *net;
    tg_transport *t;
    tg_session *s;
    uint32_t id;
    to.again_s = 30;
    assert_int_equal(attach(&to, &net, &t), TG_OK);
    assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
    assert_int_equal(one_tensor_begin(s, w, g, TOKENS, &id), TG_OK);
    if (!in_order)
        (void)shutdown(net->stream[1]->fd, SHUT_RDWR);
    tg_session_destroy(s);
    tg_transport_destroy(t);
}

/* Parameters of which no gradient comes are forgotten: at once when their worker leaves, and when
 * it has not been back for as long as others wait. */
static void test_offers(void **state)
{
    (void)state;
    house *h = calloc(1, sizeof *h);
    float w[TOKENS];
    assert_non_null(h);
    *h = (house){
        .shards = 1, .mode = "async", .optimizer = "sgd:lr=1,momentum=0", .timeout_ms = 300};
    house_open(h);
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < TOKENS; i++)
            w[i] = (float)turn;
        offer(h, turn < 2, w);
        assert_true(w[0] >= (float)turn && w[0] <= (float)turn);
        if (turn >= 2)
            usleep(400000);
    }
    house_close(h);
    free(h);
}

/* A server is away for longer than a session waits for a message. */
static void test_long_away(void **state)
{
    static cutter c;
    char folder[] = "/tmp/tg-house-XXXXXX", command[60];
    house *h = calloc(1, sizeof *h);
    pthread_t thread;
    (void)state;
    assert_true(h && mkdtemp(folder));
    *h = (house){.shards = 1, .mode = "async", .optimizer = "adam:lr=0.01", .journal = folder};
    house_open(h);
    c = (cutter){.h = h, .quiet = true, .slow = true, .timeout_ms = 300};
    start(&c, &thread);
    await_event(h, "has come");
    usleep(50000);
    house_stop(h);
    usleep(900000);
    open_shard(h, 0);
    pthread_join(thread, NULL);
    house_close(h);
    assert_string_equal(c.error, "");
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
    free(h);
}

/* Servers that do not come back, and one that does not want the worker any more. */
static void test_ends(void **state)
{
    static cutter c;
    house *h = calloc(1, sizeof *h);
    pthread_t thread;
    tg_keys *others;
    char text[TG_KEY_TEXT], list[TG_KEY_TEXT + 8];
    (void)state;
    assert_non_null(h);
    for (int i = 0; i < 2; i++) {
        const char *part = i == 0 ? "it was called for 0.3 s" : "key was removed";
        *h = (house){.shards = 1,
                     .mode = "async",
                     .optimizer = "sgd:lr=1,momentum=0",
                     .secure = true,
                     .timeout_ms = 20000};
        house_open(h);
        c = (cutter){.h = h, .quiet = true, .again_s = 0.3, .slow = true};
        start(&c, &thread);
        await_event(h, "has come");
        tg_key_text(h->worker_key[1], text);
        snprintf(list, sizeof list, "%s otto\n", text);
        assert_int_equal(tg_keys_parse(list, &others), TG_OK);
        if (i == 0)
            house_close(h);
        else
            atomic_store(&h->list, others);
        pthread_join(thread, NULL);
        if (i == 1)
            house_close(h);
        tg_keys_destroy(others);
        assert_int_equal(c.status, TG_E_PEER);
        if (!strstr(c.error, part))
            fail_msg("%s", c.error);
    }
    free(h);
}

/* A worker is stopped while its server is away. */
static void test_stop(void **state)
{
    static cutter c;
    house *h = calloc(1, sizeof *h);
    pthread_t thread;
    (void)state;
    assert_non_null(h);
    *h = (house){.shards = 1, .mode = "async", .optimizer = "sgd:lr=1,momentum=0"};
    house_open(h);
    c = (cutter){.h = h, .quiet = true, .again_s = 5, .slow = true};
    start(&c, &thread);
    await_event(h, "has come");
    house_close(h);
    atomic_store(&c.stops, true);
    pthread_join(thread, NULL);
    if (c.status != TG_E_STOPPED)
        fail_msg("%s", c.error);
    free(h);
}

/* A server that gives seats, but closes each connection before it answers anything. */
typedef struct closer {
    tg_net *net;
    tg_transport *t;
    atomic_bool over;
    int calls;
} closer;

static void *be_closer(void *arg)
{
    closer *c = arg;
    tg_request req;
    uint8_t byte;
    size_t len;
    bool done;
    if (c->t->ops->post_recv(c->t, 0, 5, &byte, 1, &req) != TG_OK)
        return NULL;
    while (!atomic_load(&c->over) &&
           c->t->ops->poll(c->t, tg_now_ns(c->t->clock) + 1000000) == TG_OK) {
        if (c->net->stream[0])
            (void)shutdown(c->net->stream[0]->fd, SHUT_RDWR);
        if (c->t->ops->test(c->t, &req, &done, &len) == TG_OK)
            continue;
        c->t->ops->drop(c->t, 0);
        c->calls++;
        if (c->t->ops->post_recv(c->t, 0, 5, &byte, 1, &req) != TG_OK)
            return NULL;
    }
    return NULL;
}

static void test_closer(void **state)
{
    static cutter w;
    house *h = calloc(1, sizeof *h);
    closer c = {.calls = 0};
    pthread_t thread[2];
    char port[FREE_PORTS_MAX][32];
    (void)state;
    assert_non_null(h);
    *h = (house){.shards = 1, .optimizer = "sgd:lr=1,momentum=0"};
    find_ports(1, port);
    snprintf(h->address[0], sizeof h->address[0], "tcp://%.31s", port[0]);
    h->addresses[0] = h->address[0];
    const tg_net_serve_config config = {.struct_size = sizeof config,
                                        .listen = h->address[0],
                                        .workers = 1,
                                        .shards = 1,
                                        .job = "hosting",
                                        .insecure = true};
    assert_int_equal(tg_net_serve(&config, &c.net), TG_OK);
    assert_int_equal(tg_transport_tcp(c.net, &c.t), TG_OK);
    assert_int_equal(pthread_create(&thread[0], NULL, be_closer, &c), 0);
    w = (cutter){.h = h, .quiet = true, .again_s = 0.5};
    start(&w, &thread[1]);
    pthread_join(thread[1], NULL);
    atomic_store(&c.over, true);
    pthread_join(thread[0], NULL);
    tg_transport_destroy(c.t);
    assert_int_equal(w.status, TG_E_PEER);
    if (!strstr(w.error, "it was called for 0.5 s"))
        fail_msg("after %d calls: %s", c.calls, w.error);
    assert_in_range(c.calls, 2, 20);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuts),      cmocka_unit_test(test_server_again),
        cmocka_unit_test(test_early),     cmocka_unit_test(test_offers),
        cmocka_unit_test(test_long_away), cmocka_unit_test(test_ends),
        cmocka_unit_test(test_stop),      cmocka_unit_test(test_closer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

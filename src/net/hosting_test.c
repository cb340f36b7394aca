/* Workers that come to servers over TCP, train, and leave, at any time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "drawn_member.h"
#include "free_ports.h"
#include "net_house.h"
#include "transport/worker.h"
#include "wire/envelope.h"
#include "wire/frame.h"
#include "net_ranks.h"
#include <math.h>

/* Attaching so is refused. */
static void refuses(const tg_net_attach_config *config, tg_status status, const char *part)
{
    tg_net *net = NULL;
    const tg_status said = tg_net_attach(config, &net);
    if (said != status || net || !strstr(tg_error(), part))
        fail_msg("%s: %s; expected %s: %s", tg_status_name(said), tg_error(),
                 tg_status_name(status), part);
}

static uint64_t train(member *m, tg_transport *t, const char *method, const char *strategy,
                      const char *optimizer)
{
    member_train(m, t, 6, method, strategy, optimizer);
    if (m->status != TG_OK)
        fail_msg("%s: %s", method, m->error);
    return m->hash;
}

/* One worker at servers that come and go is training alone, bit for bit. */
static void test_alone_is_sequential(void **state)
{
    static const char *const optimizers[] = {"sgd:lr=0.01,momentum=0.9", "adam:lr=0.01"};
    member *m = calloc(1, sizeof *m);
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
        const uint64_t expected = train(m, alone, "topk:density=0.1", "ssgd", optimizers[i % 2]);
        tg_transport_destroy(alone);
        tg_transport *t = come(h);
        assert_int_equal(t->size, 1);
        assert_int_equal(t->seats, SEATS);
        assert_true(train(m, t, "topk:density=0.1,exchange=star", "server", optimizers[i % 2]) ==
                    expected);
        tg_transport_destroy(t);
        house_close(h);
        free(h);
    }
    free(m);
}

/* Three times as many workers as there are seats come and go: each token counts once. */
static void test_tokens(void **state)
{
    (void)state;
    for (int shards = 1; shards <= SHARDS; shards++) {
        house *h = calloc(1, sizeof *h);
        spender *p = calloc(LIVES, sizeof *p);
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
        float *w = calloc(TOKENS, sizeof *w);
        assert_non_null(w);
        look(h, w);
        for (int i = 0; i < TOKENS; i++)
            assert_true(fabsf(w[i] + 1) < 1e-6F);
        house_close(h);
        free(w);
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
    if (!strstr(tg_error(), "server 0 has disconnected this worker: its key was removed"))
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
    member *m = calloc(1, sizeof *m);
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
    tg_transport *silent = come(h);
    tg_session *s;
    uint32_t id;
    assert_int_equal(tg_session_create(&config, silent, &s), TG_OK);
    assert_int_equal(one_tensor_begin(s, p[1].w, p[1].g, TOKENS, &id), TG_OK);
    p[0] = (spender){.h = h};
    be_spender(&p[0]);
    assert_string_equal(p[0].error, "");
    await_event(h, "sent nothing for ");
    tg_session_destroy(s);
    tg_transport_destroy(silent);
    /* Another model, as others have begun. */
    tg_transport *t = come(h);
    assert_int_equal(tg_session_create(&config, t, &s), TG_OK);
    assert_int_equal(one_tensor_begin(s, m->w, m->g, MEMBER_N, &id), TG_E_PEER);
    if (!strstr(tg_error(), "its tensor 1 is w 5001, the server has w 120"))
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

/* Send a message of a worker as if it were its first: the parameters of a bucket. */
static void send_first(tg_transport *t, uint16_t bucket)
{
    enum { HEAD = 24, ELEMENTS = 8, BYTES = 4 * ELEMENTS };
    enum { TENSORS = 6, MSG = TG__ENVELOPE_BYTES + HEAD + TG__FRAME_HEAD + BYTES + TENSORS };
    static uint8_t stamp[TG__WORKER_STAMP], msg[MSG] __attribute__((aligned(8)));
    const tg__envelope e = {.session = 5, .channel = 1, .bucket = bucket};
    tg_request req[2];
    bool done = false;
    size_t len;
    memset(msg, 0, MSG);
    uint8_t *head = msg + TG__ENVELOPE_BYTES;
    head[0] = 3;  /* version */
    head[1] = 4;  /* parameters */
    head[2] = 64; /* what the tensors are follows */
    head[4] = TENSORS;
    memcpy(msg + MSG - TENSORS, "0 w 8\n", TENSORS);
    tg__frame_head(head + HEAD, 1, TG__FORM_DENSE, 0, ELEMENTS, BYTES);
    tg__envelope_seal(msg, &e, MSG - TG__ENVELOPE_BYTES);
    tg__stamp_write(stamp, &(tg__stamp){.tag = bucket, .worker = 7, .len = MSG, .number = 1});
    assert_int_equal(t->ops->post_send(t, 1, TG__TAG_STAMP, stamp, sizeof stamp, &req[0]), TG_OK);
    assert_int_equal(t->ops->post_send(t, 1, TG__TAG_STAMPED, msg, MSG, &req[1]), TG_OK);
    while (!done) {
        assert_int_equal(t->ops->poll(t, tg_now_ns(t->clock) + 1000000), TG_OK);
        assert_int_equal(t->ops->test(t, &req[1], &done, &len), TG_OK);
    }
}

/* What is said to come again, but never came, is not kept: the journal would not have it. */
static void test_never_came(void **state)
{
    (void)state;
    house *h = calloc(1, sizeof *h);
    tg_net *net;
    tg_transport *t;
    assert_non_null(h);
    *h = (house){.shards = 1, .mode = "async", .optimizer = "sgd:lr=1,momentum=0"};
    house_open(h);
    const tg_net_attach_config config = attach_config(h);
    assert_int_equal(tg_net_attach(&config, &net), TG_OK);
    assert_int_equal(tg_transport_tcp(net, &t), TG_OK);
    send_first(t, 0);
    send_first(t, 1);
    await_event(h, "has left: parameters of bucket 1 are sent again, but never came");
    tg_transport_destroy(t);
    house_close(h);
    free(h);
}

enum {
    LONG = 400
}; /* tensors with names of 190 bytes: more text than is sent as settings, or at all */

typedef struct long_model {
    tg_transport *t;
    tg_session *s;
    uint32_t id[LONG];
    float w[LONG], g[LONG];
} long_model;

static void put_out(long_model *m)
{
    tg_session_destroy(m->s);
    tg_transport_destroy(m->t);
}

/* One tensor is a scalar, the others have one dimension. */
static tg_status come_with(const house *h, size_t scalar, long_model *m)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "dense:exchange=star",
                                      .strategy = "server",
                                      .optimizer = "sgd:lr=1,momentum=0"};
    const size_t one = 1;
    memset(m, 0, sizeof *m);
    m->t = come(h);
    assert_int_equal(tg_session_create(&config, m->t, &m->s), TG_OK);
    for (size_t i = 0; i < LONG; i++) {
        char name[200];
        snprintf(name, sizeof name, "%0190zu", i);
        const tg_tensor tensor = {.struct_size = sizeof tensor,
                                  .name = name,
                                  .shape = &one,
                                  .ndim = i != scalar,
                                  .param = tg_array_f32(&m->w[i], 1),
                                  .grad = tg_array_f32(&m->g[i], 1)};
        assert_int_equal(tg_session_add(m->s, &tensor, &m->id[i]), TG_OK);
    }
    return tg_session_begin(m->s);
}

static void refused_with(const house *h, size_t scalar, const char *words)
{
    long_model m;
    if (come_with(h, scalar, &m) != TG_E_PEER || !strstr(tg_error(), words))
        fail_msg("expected \"%s\", got: %s", words, tg_error());
    put_out(&m);
}

/* Texts that are cut show what differs as far as they go, and that something does. */
static void test_long_list(void **state)
{
    (void)state;
    house *h = calloc(1, sizeof *h);
    long_model m;
    assert_non_null(h);
    *h = (house){.shards = SHARDS, .mode = "async", .optimizer = "sgd:lr=1,momentum=0"};
    house_open(h);
    assert_int_equal(come_with(h, LONG, &m), TG_OK);
    for (size_t i = 0; i < LONG; i++)
        assert_int_equal(tg_session_grad_ready(m.s, m.id[i]), TG_OK);
    assert_int_equal(tg_session_step(m.s, NULL), TG_OK);
    refused_with(h, 9, "other settings: they have tensor 000");
    refused_with(h, 99, "other settings: their tensor 100 is 000");
    refused_with(h, LONG - 1, "other settings: all must be started alike");
    put_out(&m);
    await_event(h, "has left\n");
    refused_with(h, 9, "it trains another model: its tensor 10 is 000");
    refused_with(h, 99, "99 scalar, the server has 000");
    refused_with(h, LONG - 1,
                 "tensors differ from those that the server has, beyond the first 65536");
    assert_int_equal(come_with(h, LONG, &m), TG_OK);
    put_out(&m);
    house_close(h);
    free(h);
}

/* A server that sums needs workers that stay. */
static void test_sum(void **state)
{
    const tg_server_config c = {.struct_size = sizeof c, .mode = "sum"};
    (void)state;
    assert_int_equal(try_server(&c), TG_E_UNSUPPORTED);
    assert_non_null(strstr(tg_error(), "workers that come and go"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone_is_sequential),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_key_removed),
        cmocka_unit_test(test_bad_workers),
        cmocka_unit_test(test_never_came),
        cmocka_unit_test(test_long_list),
        cmocka_unit_test(test_sum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

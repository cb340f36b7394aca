/* The common suite on inproc, shaped and faulty; and tests of inproc only. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "transport_suite.h"
#include "transport_tools.h"
#include "base/thread.h"
#include "telegrad/server.h"
#include "transport/endpoint.h"
#include <stdatomic.h>

#define MAX_SIZE 64

/* ---- the common suite ------------------------------------------------------------------------ */

typedef struct worker {
    tg_transport *t;
    uint32_t storm; /* run only this many rounds of storm; 0: the whole suite */
    char error[SUITE_ERROR];
    bool ok;
    pthread_t thread;
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    suite s = {w->t, w->error};
    w->ok = w->storm ? suite_storm(&s, w->storm, 300) : suite_run(w->t, w->error);
    tg_transport_destroy(w->t); /* by its own thread: others may still be working */
    return NULL;
}

static void run(int size, const char *link, const char *fault, uint32_t storm)
{
    tg_transport *t[MAX_SIZE];
    static worker workers[MAX_SIZE];
    make_ranks(size, link, fault, t);
    for (int r = 0; r < size; r++) {
        workers[r] = (worker){.t = t[r], .storm = storm};
        ok(tg__thread_start("rank", work, &workers[r], &workers[r].thread));
    }
    for (int r = 0; r < size; r++)
        pthread_join(workers[r].thread, NULL);
    for (int r = 0; r < size; r++)
        if (!workers[r].ok)
            fail_msg("%s", workers[r].error);
}

static void suite_inproc(void **state)
{
    (void)state;
    for (int size = 2; size <= 8; size += 1 + size / 4)
        run(size, NULL, NULL, 0);
    run(MAX_SIZE, NULL, NULL, 1);
}

static void suite_shaped(void **state)
{
    (void)state;
    run(2, "1gbit,100us", NULL, 0);
    run(4, "up=2gbit,down=1gbit,jitter=200us", NULL, 0);
}

static void suite_faulty(void **state)
{
    (void)state;
    run(2, NULL, "fault", 0);
    run(3, NULL, "fault:delay=300us", 0);
    run(3, "1gbit,100us", "fault:seed=3", 0);
}

/* ---- inproc ---------------------------------------------------------------------------------- */

static void inproc_arguments(void **state)
{
    (void)state;
    tg_transport *t = NULL;
    tg_request req;
    assert_int_equal(tg_transport_inproc(0, &t), TG_E_ARG);
    assert_int_equal(tg_transport_inproc(4097, &t), TG_E_ARG);
    assert_int_equal(tg_transport_inproc(1, NULL), TG_E_ARG);
    assert_null(t);
    tg_transport_destroy(NULL);
    ok(tg_transport_inproc(1, &t)); /* a single rank: no peers */
    assert_int_equal(post_send(t, 0, 0, NULL, 0, &req), TG_E_ARG);
    ok(t->ops->poll(t, 0));
    tg_transport_destroy(t);
}

/* Matched messages stay delivered, unmatched ones fail, and other ranks are not disturbed. */
static void inproc_leave(void **state)
{
    (void)state;
    tg_transport *t[3];
    tg_request recv[3], send[3], other[2];
    char in[3] = "..", out[] = "ab", third = '.';
    make_ranks(3, NULL, NULL, t);
    ok(post_recv(t[0], 2, 1, &in[0], 1, &recv[0]));
    ok(post_send(t[2], 0, 1, &out[0], 1, &send[0])); /* matched */
    ok(post_recv(t[0], 2, 1, &in[1], 1, &recv[1]));
    ok(post_send(t[2], 0, 2, &out[1], 1, &send[1])); /* another tag: not matched */
    ok(post_send(t[0], 2, 3, &out[0], 1, &send[2]));
    ok(post_recv(t[1], 0, 9, &third, 1, &other[0]));
    tg_transport_destroy(t[2]);

    assert_true(done(t[0], &recv[0]));
    assert_int_equal(in[0], 'a');
    assert_int_equal(test(t[0], &recv[1]), TG_E_PEER);
    assert_string_equal(tg_error(), "rank 2 has left");
    assert_int_equal(test(t[0], &send[2]), TG_E_PEER);
    assert_string_equal(tg_error(), "rank 2 has left");
    assert_int_equal(post_recv(t[0], 2, 2, &in[1], 1, &recv[1]), TG_E_PEER);
    assert_int_equal(post_send(t[1], 2, 2, &out[1], 1, &send[1]), TG_E_PEER);
    assert_int_equal(in[1], '.');

    assert_int_equal(t[0]->ops->blamed(t[0], 2), TG_BLAMED_NOBODY);
    assert_int_equal(t[0]->ops->blamed(t[0], 1), TG_NOT_LEFT);

    assert_false(done(t[1], &other[0]));
    ok(post_send(t[0], 1, 9, &out[1], 1, &other[1]));
    assert_true(done(t[1], &other[0]) && done(t[0], &other[1]));
    assert_int_equal(third, 'b');
    destroy_ranks(2, t);
}

/* One rank after another leaves in the middle of a storm of messages to all. */
typedef struct quitter {
    tg_transport *t;
    pthread_t thread;
    bool ok;
} quitter;

static void *quit(void *arg)
{
    enum { DEPTH = 16, BYTES = 3000 };
    quitter *q = arg;
    tg_transport *t = q->t;
    int size = t->size;
    static _Thread_local uint8_t mem[2][8][DEPTH][BYTES];
    static _Thread_local tg_request reqs[2][8][DEPTH];
    q->ok = true;
    for (int round = 0; round <= t->rank * 3; round++) {
        for (int i = 0; i < 2 * size * DEPTH; i++) {
            int send = i % 2, peer = i / 2 % size, slot = i / 2 / size;
            tg_request *req = &reqs[send][peer][slot];
            req->word[0] = 0;
            if (peer == t->rank)
                continue;
            uint8_t *buf = mem[send][peer][slot];
            tg_status status = send ? post_send(t, peer, 1, buf, BYTES, req)
                                    : post_recv(t, peer, 1, buf, BYTES, req);
            q->ok = q->ok && (status == TG_OK || status == TG_E_PEER);
            if (status != TG_OK)
                req->word[0] = 0;
        }
        int open = round == t->rank * 3 ? 0 : 2 * size * DEPTH; /* the last ones are cut off */
        while (open) {
            open = 0;
            for (int i = 0; i < 2 * size * DEPTH; i++) {
                tg_request *req = &reqs[i % 2][i / 2 % size][i / 2 / size];
                bool is_done = false;
                size_t len;
                if (!req->word[0])
                    continue;
                tg_status status = t->ops->test(t, req, &is_done, &len);
                q->ok = q->ok && (status == TG_OK || status == TG_E_PEER);
                if (status != TG_OK || is_done)
                    req->word[0] = 0;
                else
                    open++;
            }
            if (open)
                q->ok = t->ops->poll(t, INT64_MAX) == TG_OK && q->ok;
        }
    }
    tg_transport_destroy(t);
    memset(mem, 0, sizeof mem); /* nobody may access it any more: TSan and ASan check this */
    return NULL;
}

static void inproc_leave_in_storm(void **state)
{
    (void)state;
    enum { SIZE = 8 };
    for (int repeat = 0; repeat < 5; repeat++) {
        tg_transport *t[SIZE];
        quitter q[SIZE];
        make_ranks(SIZE, NULL, NULL, t);
        for (int r = 0; r < SIZE; r++) {
            q[r] = (quitter){.t = t[r]};
            ok(tg__thread_start("rank", quit, &q[r], &q[r].thread));
        }
        for (int r = 0; r < SIZE; r++) {
            pthread_join(q[r].thread, NULL);
            assert_true(q[r].ok);
        }
    }
}

/* A sender that leaves while its message is being copied: `shut` returns when nobody reads the
 * buffer any more. */
typedef struct copier {
    tg_transport *t;
    _Atomic bool starts;
    uint8_t *in;
    bool ok;
} copier;

enum { COPY_BYTES = 32000000 };

static void *receive(void *arg)
{
    copier *c = arg;
    suite s = {c->t, NULL};
    tg_request req;
    atomic_store(&c->starts, true);
    tg_status status = post_recv(c->t, 1, 1, c->in, COPY_BYTES, &req);
    if (status == TG_OK)
        status = suite_wait(&s, &req, NULL);
    c->ok = status == TG_E_PEER; /* the sender left first */
    if (status == TG_OK)
        c->ok = c->in[0] == 1 && memcmp(c->in, c->in + 1, COPY_BYTES - 1) == 0;
    return NULL;
}

static void inproc_leave_while_copied(void **state)
{
    (void)state;
    uint8_t *out = malloc(COPY_BYTES), *in = malloc(COPY_BYTES);
    assert_true(out && in);
    for (int repeat = 0; repeat < 8; repeat++) {
        tg_transport *t[2];
        tg_request req;
        pthread_t thread;
        make_ranks(2, NULL, NULL, t);
        copier c = {.t = t[0], .in = in};
        memset(out, 1, COPY_BYTES);
        ok(post_send(t[1], 0, 1, out, COPY_BYTES, &req));
        ok(tg__thread_start("receive", receive, &c, &thread));
        while (!atomic_load(&c.starts))
            continue;
        const tg_clock *clock = tg_clock_monotonic();
        clock->sleep_until_ns(clock->arg, tg_now_ns(clock) + repeat * 100000);
        tg_transport_destroy(t[1]);
        memset(out + COPY_BYTES / 4 * 3, 2, 100000); /* a later read would see it */
        pthread_join(thread, NULL);
        assert_true(c.ok);
        tg_transport_destroy(t[0]);
    }
    free(out);
    free(in);
}

/* ---- decorators ------------------------------------------------------------------------------ */

static int64_t moved_ns(tg_transport *t, int peer, bool send)
{
    (void)t;
    return 100 * peer + send;
}

/* They say what the inner transport says, and nothing of one that cannot tell. */
static void decorators_say_what_moves(void **state)
{
    const tg_link link = {.struct_size = sizeof link, .up_bps = 1e9};
    (void)state;
    for (int kind = 0; kind < 3; kind++)
        for (int tells = 0; tells < 2; tells++) {
            tg_transport *inner[2], *t;
            ok(tg_transport_inproc(2, inner));
            tg_transport_ops ops = *inner[0]->ops;
            ops.moved_ns = tells ? moved_ns : NULL;
            inner[0]->ops = &ops;
            ok(kind == 0   ? tg_transport_faulty(inner[0], "fault:drop=0.5", &t)
               : kind == 1 ? tg_transport_shaped(inner[0], &link, &t)
                           : tg_transport_worker(inner[0], 1, &t));
            assert_int_equal(tg__moved_ns(t, 1, false), tells ? 100 : 0);
            assert_int_equal(tg__moved_ns(t, 1, true), tells ? 101 : 0);
            assert_int_equal(tg__active_ns(t, 1), tells ? 101 : 0);
            tg_transport_destroy(t);
            tg_transport_destroy(inner[1]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(suite_inproc),          cmocka_unit_test(decorators_say_what_moves),
        cmocka_unit_test(suite_shaped),          cmocka_unit_test(suite_faulty),
        cmocka_unit_test(inproc_arguments),      cmocka_unit_test(inproc_leave),
        cmocka_unit_test(inproc_leave_in_storm), cmocka_unit_test(inproc_leave_while_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

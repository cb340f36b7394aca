/* Servers: what they count, ranks that leave or fall silent, and what is not a rank's message. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "served_ranks.h"
#include "exchange/star.h"
#include "telegrad/reducer.h"
#include "transport/worker.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { P = 3, N = 1000 };

typedef struct outcome {
    tg_status status;
    char error[400];
} outcome;

typedef struct play {
    outcome rank[P];
    const char *method;
    int steps, odd_steps; /* of all ranks, and of rank 1 */
    bool silent;          /* then rank 1 stays without a word, otherwise it leaves */
    bool nan;             /* rank 1's last gradient */
    bool late;            /* rank 1's first gradient: others wait for it */
    int64_t timeout_ms;   /* of ranks */
    _Atomic int over;     /* ranks that are */
} play;

static tg_status train(play *p, tg_transport *t)
{
    const tg_reducer_config config = {
        .struct_size = sizeof config, .timeout_ms = p->timeout_ms, .steps_per_epoch = 10};
    const int steps = t->rank == 1 ? p->odd_steps : p->steps;
    static const char *const fallback = "dense:exchange=star";
    tg_reducer *r;
    float g[N], mean[N];
    TG_TRY(tg_reducer_create(p->method != NULL ? p->method : fallback, t, N, &config, &r));
    tg_status status = TG_OK;
    if (p->late && t->rank == 1)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    for (int step = 0; step < steps && status == TG_OK; step++) {
        for (int i = 0; i < N; i++)
            g[i] = (float)(i % 7 + t->rank + step);
        if (p->nan && t->rank == 1 && step == steps - 1)
            g[7] = NAN;
        status = tg_reducer_mean(r, g, mean);
        for (int i = 0; status == TG_OK && i < N; i++)
            assert_true(mean[i] == (float)(i % 7 + 1 + step)); /* ranks 0, 1 and 2 */
    }
    const bool waits = p->silent && t->rank == 1 && status == TG_OK;
    while (waits && p->over < P - 1)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    tg_reducer_destroy(r);
    return status;
}

static void be_rank(tg_transport *t, void *arg)
{
    play *p = arg;
    outcome *o = &p->rank[t->rank];
    o->status = train(p, t);
    if (o->status != TG_OK)
        snprintf(o->error, sizeof o->error, "%s", tg_error());
    p->over++;
}

static void expect(const outcome *o, tg_status status, const char *part)
{
    if (o->status != status || strstr(o->error, part) == NULL)
        fail_msg("%s: %s; expected %s: %s", tg_status_name(o->status), o->error,
                 tg_status_name(status), part);
}

static void expect_server(const served_one *o, tg_status status, const char *part)
{
    if (o->status != status || strstr(o->error, part) == NULL)
        fail_msg("%s: %s; expected %s: %s", tg_status_name(o->status), o->error,
                 tg_status_name(status), part);
}

static void counts(void **state)
{
    (void)state;
    play p = {.steps = 5, .odd_steps = 5, .timeout_ms = 20000};
    served_job job = {.ranks = P, .servers = 2, .be_rank = be_rank, .arg = &p};
    served_run(&job);
    uint64_t elements = 0;
    for (int r = 0; r < P; r++)
        assert_int_equal(p.rank[r].status, TG_OK);
    for (int s = 0; s < 2; s++) {
        const tg_server_stats *stats = &job.server[s].stats;
        assert_int_equal(job.server[s].status, TG_OK);
        assert_int_equal(stats->sums, 5);
        assert_int_equal(stats->ranks, 0);
        assert_true(stats->bytes_in > 4 * stats->elements &&
                    stats->bytes_out > 4 * stats->elements);
        assert_int_equal(stats->gradient_elements, stats->elements);
        assert_int_equal(stats->gradient_bytes, stats->bytes_in);
        assert_int_equal(stats->answer_elements, stats->elements);
        assert_int_equal(stats->answer_bytes, stats->bytes_out);
        assert_int_equal(stats->parameters + stats->staleness_sum, 0);
        elements += stats->elements;
    }
    assert_int_equal(elements, 5 * P * N);
}

static void nonfinite_gradients_are_refused_by_all(void **state)
{
    (void)state;
    play p = {.steps = 3, .odd_steps = 3, .nan = true, .timeout_ms = 20000};
    served_job job = {.ranks = P, .servers = 2, .be_rank = be_rank, .arg = &p};
    served_run(&job);
    for (int r = 0; r < P; r++)
        assert_int_equal(p.rank[r].status, TG_E_NONFINITE);
    assert_int_equal(job.server[0].status, TG_OK);
}

/* A rank that leaves while others wait for it is named by the server and by all of them. */
static void leaves_too_early(void **state)
{
    (void)state;
    play p = {.steps = 5, .odd_steps = 2, .timeout_ms = 20000};
    served_job job = {.ranks = P, .servers = 1, .be_rank = be_rank, .arg = &p};
    served_run(&job);
    expect_server(&job.server[0], TG_E_PEER, "rank 1 has left, but other ranks wait");
    expect(&p.rank[0], TG_E_PEER, "because of rank 1");
    expect(&p.rank[2], TG_E_PEER, "because of rank 1");
}

static void falls_silent(void **state)
{
    (void)state;
    play p = {.steps = 5, .odd_steps = 2, .silent = true, .timeout_ms = 20000};
    served_job job = {.ranks = P, .servers = 1, .timeout_ms = 1000, .be_rank = be_rank, .arg = &p};
    served_run(&job);
    expect_server(&job.server[0], TG_E_PEER, "rank 1 sent nothing for ");
    expect(&p.rank[0], TG_E_PEER, "because of rank 1");
    expect(&p.rank[2], TG_E_PEER, "because of rank 1");
}

static const tg_transport_ops *usual;
static tg_transport_ops watched;
static atomic_bool polls, polls_past;

static tg_status watch_poll(tg_transport *t, int64_t deadline_ns)
{
    atomic_store(&polls, true);
    if (deadline_ns < 0)
        atomic_store(&polls_past, true);
    return usual->poll(t, deadline_ns);
}

static tg_transport *watch(tg_transport *t)
{
    usual = t->ops;
    watched = *usual;
    watched.poll = watch_poll;
    t->ops = &watched;
    return t;
}

/* The longest timeout is over at the end of time, not in the past: the server would not sleep. */
static void sleeps_with_the_longest_timeout(void **state)
{
    (void)state;
    play p = {.steps = 2, .odd_steps = 2, .late = true, .timeout_ms = 20000};
    served_job job = {
        .ranks = P, .servers = 1, .timeout_ms = INT64_MAX / 1000000, .be_rank = be_rank, .arg = &p};
    served_wrap_server = watch;
    served_run(&job);
    served_wrap_server = NULL;
    assert_int_equal(job.server[0].status, TG_OK);
    assert_true(atomic_load(&polls) && !atomic_load(&polls_past));
}

static void what_servers_cannot_do_is_refused(void **state)
{
    (void)state;
    play p = {.method = "atomo:exchange=star", .steps = 1, .odd_steps = 1};
    served_job job = {.ranks = P, .servers = 1, .be_rank = be_rank, .arg = &p};
    served_run(&job);
    expect(&p.rank[0], TG_E_SPEC, "star");
    assert_int_equal(job.server[0].status, TG_OK);
    p = (play){.steps = 1, .odd_steps = 1};
    job = (served_job){.ranks = P, .servers = 0, .be_rank = be_rank, .arg = &p};
    served_run(&job);
    expect(&p.rank[0], TG_E_UNSUPPORTED, "exchange=star: this job has no server");
}

/* ---- what is not a rank's message ------------------------------------------------------------ */

enum { MSG = TG__ENVELOPE_BYTES + TG__STAR_HEAD + TG__FRAME_HEAD + 4 * 8 };

typedef struct spoilt {
    void (*spoil)(uint8_t stamp[TG__WORKER_STAMP], uint8_t msg[MSG]);
    bool twice;
    tg_status status;
    const char *part;
} spoilt;

static void good(uint8_t stamp[TG__WORKER_STAMP], uint8_t msg[MSG])
{
    const tg__envelope e = {.session = 5, .sender = 0, .step = 3};
    uint8_t *payload = msg + TG__ENVELOPE_BYTES, *frame = payload + TG__STAR_HEAD;
    memset(msg, 0, MSG);
    tg__star_head(payload, &(tg__star){.combine = &tg__combine_mean});
    (void)tg__f32_frame(frame, 8);
    tg__envelope_seal(msg, &e, MSG - TG__ENVELOPE_BYTES);
    tg__stamp_write(stamp, &(tg__stamp){.len = MSG});
}

static void seal_again(uint8_t msg[MSG])
{
    tg__envelope e;
    tg__envelope_peek(msg, &e);
    tg__envelope_seal(msg, &e, MSG - TG__ENVELOPE_BYTES);
}

static void spoil_length(uint8_t *stamp, uint8_t *msg)
{
    (void)msg;
    memset(stamp + 8, 0xff, 8);
}
static void spoil_short(uint8_t *stamp, uint8_t *msg)
{
    (void)msg;
    tg__put64(stamp + 8, TG__ENVELOPE_BYTES);
}
static void spoil_longer(uint8_t *stamp, uint8_t *msg)
{
    (void)msg;
    tg__put64(stamp + 8, MSG + 8);
}
static void spoil_tag(uint8_t *stamp, uint8_t *msg)
{
    (void)msg;
    tg__put32(stamp, TG_TAG_LIMIT);
}
static void spoil_bit(uint8_t *stamp, uint8_t *msg)
{
    (void)stamp;
    msg[MSG - 1] ^= 1;
}
static void spoil_sender(uint8_t *stamp, uint8_t *msg)
{
    const tg__envelope e = {.session = 5, .sender = 1, .step = 3};
    (void)stamp;
    tg__envelope_seal(msg, &e, MSG - TG__ENVELOPE_BYTES);
}
static void spoil_version(uint8_t *stamp, uint8_t *msg)
{
    (void)stamp;
    msg[TG__ENVELOPE_BYTES] = 9;
    seal_again(msg);
}
static void spoil_combine(uint8_t *stamp, uint8_t *msg)
{
    (void)stamp;
    msg[TG__ENVELOPE_BYTES + 1] = 77;
    seal_again(msg);
}
static void spoil_head(uint8_t *stamp, uint8_t *msg)
{
    (void)stamp;
    msg[TG__ENVELOPE_BYTES + 5] = 1;
    seal_again(msg);
}
static void spoil_count(uint8_t *stamp, uint8_t *msg)
{
    (void)stamp;
    tg__put32(msg + TG__ENVELOPE_BYTES + TG__STAR_HEAD + 4, UINT32_MAX);
    seal_again(msg);
}
static void spoil_codec(uint8_t *stamp, uint8_t *msg)
{
    (void)stamp;
    msg[TG__ENVELOPE_BYTES + TG__STAR_HEAD] = 200;
    seal_again(msg);
}

/* Send two messages, the second one when the first has arrived. Fails when the server leaves. */
static tg_status send_stamped(tg_transport *t, const uint8_t *stamp, const uint8_t *msg)
{
    tg_request head, body;
    bool done = false;
    size_t len;
    TG_TRY(t->ops->post_send(t, P, TG__TAG_STAMP, stamp, TG__WORKER_STAMP, &head));
    TG_TRY(t->ops->post_send(t, P, TG__TAG_STAMPED, msg, MSG, &body));
    while (!done) {
        TG_TRY(t->ops->test(t, &body, &done, &len));
        TG_TRY(t->ops->poll(t, tg_now_ns(t->clock) + 1000000));
    }
    return t->ops->test(t, &head, &done, &len);
}

/* Rank 0 sends. All stay until the server leaves. */
static void be_spoilt(tg_transport *t, void *arg)
{
    const spoilt *p = arg;
    uint8_t stamp[TG__WORKER_STAMP], msg[MSG], none;
    tg_request never;
    bool done = false;
    size_t len;
    good(stamp, msg);
    if (p->spoil != NULL)
        p->spoil(stamp, msg);
    tg_status status = TG_OK;
    for (int i = 0; t->rank == 0 && status == TG_OK && i < (p->twice ? 2 : 1); i++)
        status = send_stamped(t, stamp, msg);
    if (status == TG_OK)
        status = t->ops->post_recv(t, P, 5, &none, 1, &never);
    while (status == TG_OK && (status = t->ops->test(t, &never, &done, &len)) == TG_OK)
        status = t->ops->poll(t, tg_now_ns(t->clock) + 1000000);
    assert_int_equal(status, TG_E_PEER);
}

static void nonsense_is_refused(void **state)
{
    static const spoilt all[] = {
        {spoil_length, false, TG_E_CORRUPT,
         "from rank 0: a message with tag 0 of 18446744073709551615"},
        {spoil_short, false, TG_E_CORRUPT, "from rank 0: a message with tag 0 of 48 bytes"},
        {spoil_longer, false, TG_E_CORRUPT, "bytes arrived: expected"},
        {spoil_tag, false, TG_E_CORRUPT, "a message with tag 16777216"},
        {spoil_bit, false, TG_E_CORRUPT, "checksum"},
        {spoil_sender, false, TG_E_PEER, "sender=1: expected 0"},
        {spoil_version, false, TG_E_VERSION, "version=9"},
        {spoil_combine, false, TG_E_CORRUPT, "combine=77"},
        {spoil_head, false, TG_E_CORRUPT, "flags=0, 256 bytes of coding"},
        {spoil_count, false, TG_E_CORRUPT, "4294967295 elements"},
        {spoil_codec, false, TG_E_CORRUPT, "codec id=200"},
        {NULL, true, TG_E_CORRUPT, "the same message came twice"},
    };
    (void)state;
    for (size_t i = 0; i < TG_COUNT(all); i++) {
        spoilt p = all[i];
        served_job job = {
            .ranks = P, .servers = 1, .timeout_ms = 20000, .be_inner = be_spoilt, .arg = &p};
        served_run(&job);
        expect_server(&job.server[0], p.status, p.part);
    }
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void arguments_are_checked(void **state)
{
    tg_transport *t[3], *w;
    tg_server *s;
    const tg_server_config negative = {.struct_size = sizeof negative, .timeout_ms = -1};
    (void)state;
    assert_int_equal(tg_transport_inproc(3, t), TG_OK);
    assert_int_equal(tg_transport_worker(t[0], 0, &w), TG_E_ARG);
    assert_int_equal(tg_transport_worker(t[0], 3, &w), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "servers=3 on a transport of 3: allowed: 1..2"));
    assert_int_equal(tg_transport_worker(t[2], 1, &w), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "rank=2 is a server: allowed: ranks 0..1"));
    assert_int_equal(tg_server_create(t[1], 1, NULL, &s), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "rank=1 is no server: allowed: 2..2"));
    assert_int_equal(tg_server_create(t[2], 1, &negative, &s), TG_E_ARG);
    assert_int_equal(tg_transport_worker(t[0], 1, &w), TG_OK);
    t[0] = w;
    assert_int_equal(tg_transport_worker(t[0], 1, &w), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "has servers already"));
    assert_int_equal(tg_server_create(t[2], 1, NULL, &s), TG_OK);
    tg_server_destroy(s); /* it has never run */
    for (int i = 0; i < 3; i++)
        tg_transport_destroy(t[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts),
        cmocka_unit_test(nonfinite_gradients_are_refused_by_all),
        cmocka_unit_test(leaves_too_early),
        cmocka_unit_test(falls_silent),
        cmocka_unit_test(sleeps_with_the_longest_timeout),
        cmocka_unit_test(what_servers_cannot_do_is_refused),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(arguments_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

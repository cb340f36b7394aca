/* A session's state in memory: bad bytes are refused, and so is the state of another job, step or
 * rank. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "session/session_ckpt.h"
#include "session_fixture.h"

typedef struct saved {
    char bytes[4096];
    size_t len;
} saved;

/* One rank, alone or of two. */
typedef struct player {
    tg_session_config config;
    tg_transport *transport;
    uint64_t steps;    /* before it saves */
    const saved *from; /* NULL: begin */
    size_t ranks;      /* that saved `from`; 0: this rank alone */
    saved *to;
    tg_status status;
    float w;
    char error[256];
} player;

static tg_status begin(const player *p, tg_session *s)
{
    const void *bytes[2] = {NULL, NULL};
    size_t len[2] = {0};
    if (p->from == NULL)
        return tg_session_begin(s);
    for (size_t i = 0; i < p->ranks && i < 2; i++) {
        bytes[i] = p->from[i].bytes;
        len[i] = p->from[i].len;
    }
    return p->ranks == 0 ? tg_session_load_memory(s, p->from->bytes, p->from->len)
                         : tg_session_take_memory(s, bytes, len, p->ranks);
}

static tg_status play(player *p, tg_session *s)
{
    float g = 0.5f;
    uint32_t id;
    const void *bytes;
    const tg_tensor t = {.struct_size = sizeof t,
                         .name = "w",
                         .param = tg_array_f32(&p->w, 1),
                         .grad = tg_array_f32(&g, 1)};
    TG_TRY(tg_session_add(s, &t, &id));
    TG_TRY(begin(p, s));
    for (uint64_t i = 0; i < p->steps; i++) {
        TG_TRY(tg_session_grad_ready(s, id));
        TG_TRY(tg_session_step(s, NULL));
    }
    if (p->to == NULL)
        return TG_OK;
    TG_TRY(tg_session_save_memory(s, &bytes, &p->to->len));
    assert_true(p->to->len <= sizeof p->to->bytes);
    memcpy(p->to->bytes, bytes, p->to->len);
    return TG_OK;
}

static void *run(void *arg)
{
    player *p = arg;
    tg_session *s;
    p->status = tg_session_create(&p->config, p->transport, &s);
    if (p->status == TG_OK) {
        p->status = play(p, s);
        snprintf(p->error, sizeof p->error, "%s", p->status == TG_OK ? "" : tg_error());
        tg_session_destroy(s);
    }
    tg_transport_destroy(p->transport);
    return NULL;
}

static player player_of(const char *optimizer)
{
    return (player){.w = 1,
                    .config = {.struct_size = sizeof(tg_session_config),
                               .optimizer = optimizer,
                               .timeout_ms = 10000}};
}

static void alone(player *p)
{
    assert_int_equal(tg_transport_inproc(1, &p->transport), TG_OK);
    run(p);
}

static void pair(player p[2])
{
    tg_transport *t[2];
    pthread_t other;
    assert_int_equal(tg_transport_inproc(2, t), TG_OK);
    p[0].transport = t[0];
    p[1].transport = t[1];
    assert_int_equal(pthread_create(&other, NULL, run, &p[1]), 0);
    run(&p[0]);
    pthread_join(other, NULL);
}

static void expect(const player *p, tg_status status, const char *text)
{
    if (p->status != status || strstr(p->error, text) == NULL)
        fail_msg("status %d: %s; expected %d: %s", (int)p->status, p->error, (int)status, text);
}

static void bad_bytes(void **state)
{
    (void)state;
    static saved good, bad;
    player p = player_of("sgd:lr=0.5,momentum=0.5");
    p.steps = 3;
    p.to = &good;
    alone(&p);
    expect(&p, TG_OK, "");
    p.to = NULL;
    p.from = &bad;
    p.steps = 0;
    for (size_t at = 0; at < good.len; at += 7) {
        bad = good;
        bad.bytes[at] ^= 4;
        alone(&p);
        assert_true(p.status == TG_E_CORRUPT || p.status == TG_E_VERSION);
    }
    for (size_t len = 0; len < good.len; len += 13) {
        bad = good;
        bad.len = len;
        alone(&p);
        expect(&p, TG_E_CORRUPT, "in memory");
    }
    bad = good;
    const float w = p.w;
    p.w = 0;
    alone(&p);
    expect(&p, TG_OK, "");
    assert_true(p.w != 0 && w != 1);
    p.config.optimizer = "sgd:lr=0.25,momentum=0.5";
    alone(&p);
    expect(&p, TG_E_MISMATCH, "optimizer");
    p.config.optimizer = "external";
    p.w = 1;
    alone(&p);
    assert_int_equal(p.status, TG_E_ARG); /* it takes no gradients */
}

static void other_ranks(void **state)
{
    (void)state;
    static saved two[2], later[2];
    player p[2] = {player_of(NULL), player_of(NULL)};
    for (int r = 0; r < 2; r++) {
        p[r].steps = 2;
        p[r].to = &two[r];
    }
    pair(p);
    expect(&p[0], TG_OK, "");
    for (int r = 0; r < 2; r++) {
        p[r].steps = 1;
        p[r].from = &two[r];
        p[r].to = &later[r];
    }
    pair(p);
    expect(&p[1], TG_OK, "");
    p[0].to = p[1].to = NULL;
    p[0].from = &two[1];
    p[1].from = &two[0];
    pair(p);
    expect(&p[0], TG_E_MISMATCH, "was saved by rank 1 of 2; this is rank 0 of 2");
    p[0].from = &two[0];
    p[1].from = &later[1];
    pair(p);
    expect(&p[0], TG_E_MISMATCH, "rank 0 found a checkpoint of step 2, rank 1 one of step 3");
    p[1].from = NULL;
    pair(p);
    expect(&p[0], TG_E_MISMATCH, "start");
    p[0].from = &two[0];
    alone(&p[0]);
    expect(&p[0], TG_E_MISMATCH, "was saved by rank 0 of 2; this is rank 0 of 1");
    p[0].from = two;
    p[0].ranks = 2;
    alone(&p[0]); /* session_takeover_test takes over for every method and strategy */
    expect(&p[0], TG_OK, "");
    const saved mixed[2] = {two[0], later[1]}, swapped[2] = {two[1], two[0]};
    p[0].from = mixed;
    alone(&p[0]);
    expect(&p[0], TG_E_MISMATCH,
           "the file of rank 1 of 2 in step 2 is one of rank 1 of 2 in step 3");
    p[0].from = swapped;
    alone(&p[0]);
    expect(&p[0], TG_E_MISMATCH,
           "checkpoint 0 of 2 in memory was saved by rank 1 of 2: give those of all");
    p[0].from = two;
    p[0].ranks = 1;
    alone(&p[0]);
    expect(&p[0], TG_E_MISMATCH, "checkpoint 0 of 1 in memory was saved by rank 0 of 2");
    p[0].ranks = 1 + TG_RANKS_MAX;
    alone(&p[0]);
    expect(&p[0], TG_E_ARG, "allowed: 1 to");
}

/* An epoch_shift that no run has, for which the arithmetic of epochs would overflow. */
static void bad_epochs(void **state)
{
    static const struct {
        uint64_t t;
        int64_t shift;
    } bad[] = {{UINT64_MAX, -1}, {6, INT64_MIN}, {6, INT64_MAX}, {6, 7}, {1ull << 63, INT64_MIN}};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        for (int world = 1; world <= 2; world++) {
            const tg__counters c = {.t = bad[i].t, .steps_per_epoch = 4, .world = world};
            tg__ckpt_writer *w;
            void *bytes;
            static saved crafted[2];
            assert_int_equal(tg__ckpt_create(NULL, "", &w), TG_OK);
            assert_int_equal(tg__ckpt_put(w, "session", &c, sizeof c), TG_OK);
            assert_int_equal(
                tg__ckpt_put(w, TG__SECTION_EPOCHS, &bad[i].shift, sizeof bad[i].shift), TG_OK);
            assert_int_equal(tg__ckpt_commit_memory(w, &bytes, &crafted[0].len), TG_OK);
            assert_true(crafted[0].len <= sizeof crafted[0].bytes);
            memcpy(crafted[0].bytes, bytes, crafted[0].len);
            free(bytes);
            crafted[1] = crafted[0];
            player p = player_of(NULL);
            p.config.steps_per_epoch = 5;
            p.from = crafted;
            p.ranks = (size_t)world;
            alone(&p);
            expect(&p, TG_E_CORRUPT, "epoch_shift");
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_bytes),
        cmocka_unit_test(other_ranks),
        cmocka_unit_test(bad_epochs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Requests about a server's state: how long a state may be, on both sides, and states of several
 * sessions at the same time. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "keeping_ranks.h"
#include "exchange/star_state.h"
#include "hostile_transport.h"
#include "server/server_impl.h"

/* ---- requests one by one --------------------------------------------------------------------- */

enum { ROOM = TG__ASK_LEAST - TG__ASK_HEAD, WORDS = 400 };

typedef struct asked {
    tg_transport *t[2];
    tg_server *s;
    tg__gathering *g;
    uint8_t *request;
} asked;

static int make(void **state)
{
    asked *a = calloc(1, sizeof *a);
    assert_non_null(a);
    assert_int_equal(tg_transport_inproc(2, a->t), TG_OK);
    assert_int_equal(tg_server_create(a->t[1], 1, NULL, &a->s), TG_OK);
    a->g = calloc(1, sizeof *a->g + sizeof a->g->rank[0]);
    assert_non_null(a->g);
    a->g->n = TG__ASK_LEAST / sizeof(float);
    assert_int_equal(tg__gathering_allocate(a->g, &a->s->store), TG_OK);
    a->request = (uint8_t *)tg__gathering_values(a->g);
    *state = a;
    return 0;
}

static int release(void **state)
{
    asked *a = *state;
    tg__store_give(&a->s->store, a->g->answer);
    free(a->g);
    tg_server_destroy(a->s);
    for (int i = 0; i < 2; i++)
        tg_transport_destroy(a->t[i]);
    free(a);
    return 0;
}

/* Send a request, with `body` (len), on a channel. Returns the answer's head. */
static tg__state_head ask(asked *a, uint16_t channel, enum tg__state_request what, uint64_t at,
                          const void *body, size_t len)
{
    a->g->id.channel = channel;
    memset(a->request, 0, TG__ASK_LEAST);
    tg__state_head_write(a->request, (tg__state_head){what, (uint32_t)len, at});
    if (len > 0)
        memcpy(a->request + TG__ASK_HEAD, body, len);
    tg__keeping_answer(a->s, a->g);
    return tg__state_head_read(a->request);
}

static tg__state_head expect(asked *a, uint16_t channel, uint64_t len, tg__state_of of)
{
    uint8_t body[16];
    tg__put64(body, of.elements);
    tg__put64(body + 8, of.tensors);
    return ask(a, channel, TG__ASK_EXPECT, len, body, sizeof body);
}

static void done(tg__state_head head)
{
    assert_int_equal(head.what, TG_OK);
}

static void refused(const asked *a, tg__state_head head, const char *words)
{
    char text[ROOM + 1] = "";
    assert_in_range(head.len, 1, ROOM);
    memcpy(text, a->request + TG__ASK_HEAD, head.len);
    if (head.what != TG_E_CORRUPT || strstr(text, words) == NULL)
        fail_msg("%s: %s; expected %s", tg_status_name((tg_status)head.what), text, words);
}

/* What is written to a server has a length that fits the session, and is not longer than that. */
static void what_is_written(void **state)
{
    asked *a = *state;
    const uint8_t bytes[ROOM] = {0};
    const tg__state_of of = {.elements = 1000, .tensors = 2};
    const uint64_t most = 64 * 1000 + 2 * (256 << 10) + (1 << 20);
    refused(a, expect(a, 3, most + 1, of),
            "a state of 1636865 bytes: allowed: at most 1636864, for 1000 elements in 2 tensors");
    refused(a, expect(a, 3, UINT64_MAX, of), "a state of 18446744073709551615 bytes: allowed");
    refused(a, expect(a, 3, 1, (tg__state_of){UINT64_MAX / 64, 1}), "allowed: at most 2^40 in");
    refused(a, expect(a, 3, 1, (tg__state_of){1, UINT64_MAX / 2}), "allowed: at most 2^40 in 2^24");
    refused(a, ask(a, 3, TG__ASK_WRITE, 0, bytes, 1),
            "1 bytes of a state from byte 0 on: it has 0");
    done(expect(a, 3, most, of));
    done(expect(a, 3, ROOM + 5, of));
    done(ask(a, 3, TG__ASK_WRITE, 0, bytes, ROOM));
    refused(a, ask(a, 3, TG__ASK_TAKE, 0, NULL, 0), "a state of 1013 bytes, of which 1008 have");
    done(expect(a, 3, ROOM + 5, of));
    done(ask(a, 3, TG__ASK_WRITE, 0, bytes, ROOM));
    refused(a, ask(a, 3, TG__ASK_WRITE, ROOM, bytes, 6),
            "6 bytes of a state from byte 1008 on: it has 1013 bytes");
    refused(a, ask(a, 3, TG__ASK_WRITE, 0, bytes, 5), "from byte 0 on, in a message of 1008: 1008");
    done(ask(a, 3, TG__ASK_WRITE, ROOM, bytes, 5));
    assert_in_range(a->s->copies->given_cap, ROOM + 5, 4 * (ROOM + 5));
    refused(a, ask(a, 3, TG__ASK_TAKE, 0, NULL, 0), "checkpoint");
    refused(a, ask(a, 3, TG__ASK_EXPECT + 1, 0, NULL, 0), "request 7 about a state: allowed: 1 to");
}

/* A state with one piece of equal words. */
static size_t state_with(uint16_t channel, uint32_t word, void **bytes_p)
{
    uint32_t words[WORDS];
    const tg__kept_key key = {channel, 0, TG__KEPT_RESIDUAL, 0};
    tg__kept_writer w;
    size_t len;
    for (int i = 0; i < WORDS; i++)
        words[i] = word;
    assert_int_equal(tg__kept_begin(&w, channel, "server mode=sum\n"), TG_OK);
    assert_int_equal(tg__kept_put(&w, &(tg__piece){key, 0, WORDS, 1, 0, NULL, words}), TG_OK);
    assert_int_equal(tg__kept_end(&w, bytes_p, &len), TG_OK);
    return len;
}

/* Two sessions of a transport save, and load, at the same time: each has its own. */
static void states_of_two_channels(void **state)
{
    asked *a = *state;
    void *given[2], *got[2];
    const size_t len = state_with(0, 100, &given[0]);
    assert_int_equal(state_with(1, 101, &given[1]), len);
    for (uint16_t c = 0; c < 2; c++)
        done(expect(a, c, len, (tg__state_of){WORDS, 1}));
    for (size_t at = 0; at < len; at += ROOM)
        for (uint16_t c = 0; c < 2; c++)
            done(ask(a, c, TG__ASK_WRITE, at, (uint8_t *)given[c] + at, TG__MIN(ROOM, len - at)));
    for (uint16_t c = 0; c < 2; c++)
        done(ask(a, c, TG__ASK_TAKE, 0, NULL, 0));
    for (uint16_t c = 0; c < 2; c++) {
        const tg__state_head head = ask(a, c, TG__ASK_COLLECT, 0, NULL, 0);
        done(head);
        assert_int_equal(head.at, len);
        got[c] = calloc(1, len);
        assert_non_null(got[c]);
    }
    for (size_t at = 0; at < len; at += ROOM)
        for (uint16_t c = 0; c < 2; c++) {
            const tg__state_head head = ask(a, c, TG__ASK_READ, at, NULL, 0);
            done(head);
            assert_int_equal(head.len, TG__MIN(ROOM, len - at));
            memcpy((uint8_t *)got[c] + at, a->request + TG__ASK_HEAD, head.len);
        }
    for (uint16_t c = 0; c < 2; c++) {
        assert_memory_equal(got[c], given[c], len);
        free(got[c]);
        free(given[c]);
    }
}

/* ---- a server that says that its state is too long ------------------------------------------- */

static const uint64_t lie = UINT64_C(1) << 40;

/* The answer to COLLECT is short, and its head says how long the state is. */
static void say_too_much(void *arg, uint64_t number, uint16_t *flags_p, uint8_t *payload,
                         size_t *len_p)
{
    (void)arg, (void)number, (void)flags_p;
    if (*len_p == TG__F32_BYTES(TG__ASK_LEAST / sizeof(float)))
        tg__put64((uint8_t *)tg__f32_values(payload) + 8, lie);
}

static tg_transport *lies(tg_transport *inner)
{
    return hostile_transport(inner, say_too_much, NULL);
}

static void what_a_server_says(void **state)
{
    (void)state;
    const job j = {.method = "topk:density=0.05,exchange=twoway",
                   .strategy = "ssgd",
                   .optimizer = "sgd:lr=0.01",
                   .mode = "sum",
                   .ranks = 2,
                   .servers = 1,
                   .save_dir = "/tmp/none",
                   .in_memory = true};
    char text[128];
    snprintf(text, sizeof text, "server 0: a state of %llu bytes: allowed: at most %llu, for %zu",
             (unsigned long long)lie,
             (unsigned long long)tg__state_most((tg__state_of){elements(&j), TENSORS}),
             elements(&j));
    served_wrap_server = lies;
    run(&j);
    served_wrap_server = NULL;
    for (int r = 0; r < j.ranks; r++)
        if (members[r].status != TG_E_CORRUPT || strstr(members[r].error, text) == NULL)
            fail_msg("rank %d: %s; expected %s", r, members[r].error, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written, make, release),
        cmocka_unit_test_setup_teardown(states_of_two_channels, make, release),
        cmocka_unit_test(what_a_server_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

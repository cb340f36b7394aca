/* The cost of exchanges over emulated links (transport "shaped"), on a clock that the test sets:
 * time and bytes match cost() within 10 %, for real frames. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange_fixture.h"
#include "telegrad/clock.h"

enum { MAX_RANKS = 8 };

static int64_t hand_ns;

static int64_t hand_now(void *arg)
{
    (void)arg;
    return hand_ns;
}

static void hand_sleep(void *arg, int64_t when_ns)
{
    (void)arg;
    hand_ns = TG__MAX(hand_ns, when_ns);
}

static const tg_clock hand = {
    .struct_size = sizeof hand, .now_ns = hand_now, .sleep_until_ns = hand_sleep};

static const int64_t tick_ns = 100000;

typedef struct play { /* all ranks of one case, in this thread */
    tg_transport *t[MAX_RANKS];
    tg_codec *codec[MAX_RANKS];
    tg__pump p[MAX_RANKS];
    tg__flight f[MAX_RANKS];
} play;

/* The number of bytes of the whole vector as one frame. */
static double frame_bytes(const tg__exchange *x)
{
    double sum = TG__FRAME_HEAD;
    for (size_t i = 0; i < x->nparts; i++)
        sum += (double)(x->parts[i].len - TG__FRAME_HEAD);
    return sum;
}

/* Returns the seconds taken; *most_p: bytes of the rank that sent most; *frame_p: the mean
 * frame. */
static double run_shaped(int size, const fixture_case *c, const char *link, double *most_p,
                         double *frame_p)
{
    static play s;
    tg_link parsed;
    memset(&s, 0, sizeof s);
    hand_ns = 1000000000;
    *most_p = *frame_p = 0;
    assert_int_equal(tg_link_parse(link, &parsed), TG_OK);
    assert_int_equal(tg_transport_inproc(size, s.t), TG_OK);
    for (int r = 0; r < size; r++) {
        s.t[r]->clock = &hand;
        assert_int_equal(tg_transport_shaped(s.t[r], &parsed, &s.t[r]), TG_OK);
        assert_int_equal(fixture_create(c, r, size, &s.codec[r], &s.f[r].x), TG_OK);
        assert_int_equal(fixture_encode(s.f[r].x, 1), TG_OK);
        *frame_p += frame_bytes(s.f[r].x) / size;
        tg__pump_init(&s.p[r], s.t[r], 8, INT64_MAX / 4);
        assert_int_equal(tg__pump_launch(&s.p[r], &s.f[r]), TG_OK);
    }
    for (bool busy = true; busy; hand_ns += tick_ns) {
        busy = false;
        for (int r = 0; r < size; r++) {
            if (tg__pump_run(&s.p[r], hand_ns) != TG_OK)
                fail_msg("rank %d: %s", r, tg_error());
            busy |= !s.f[r].finished;
        }
    }
    int64_t end_ns = 0;
    for (int r = 0; r < size; r++) {
        end_ns = TG__MAX(end_ns, s.f[r].end_ns);
        *most_p = fmax(*most_p, (double)s.f[r].bytes_sent);
        tg__flight_fini(&s.f[r]);
        tg__exchange_destroy(s.f[r].x);
        tg_codec_destroy(s.codec[r]);
        tg__pump_fini(&s.p[r]);
        tg_transport_destroy(s.t[r]);
    }
    return (double)(end_ns - 1000000000) * 1e-9;
}

static void cost_is_what_links_show(void **state)
{
    static const fixture_case cases[] = {
        {"direct", "f32", 20000},
        {"direct", "int8", 40000},
        {"ring", "f32", 20000},
        {"ring", "int8", 40000},
        {"ring", "fp16", 40000},
        {"halving", "f32", 20000},
        {"allgather", "f32", 500},     /* one shot */
        {"allgather", "fp16", 100000}, /* in messages of several units */
        {"allgather", "topk:density=0.01", 100000},
        {"reducescatter", "topk:density=0.01", 100000},
        {"reducescatter", "topk:density=0.01,values=int8", 100000},
        {"reducescatter", "fp16", 40000},
        {"gtopk", "topk:density=0.01", 100000},
        {"none", "f32", 1000},
    };
    static const int sizes[] = {1, 2, 3, 4, 7, 8};
    (void)state;
    size_t count, seen = 0;
    const tg__exchange_ops *const *all = tg__exchanges(&count);
    for (size_t i = 0; i < count; i++) { /* every exchange without servers must be in the list */
        seen += all[i]->served;
        for (size_t c = 0; c < TG_COUNT(cases); c++)
            if (strcmp(all[i]->entry.name, cases[c].exchange) == 0) {
                seen++;
                break;
            }
    }
    assert_int_equal(seen, count);
    for (size_t c = 0; c < TG_COUNT(cases); c++)
        for (size_t p = 0; p < TG_COUNT(sizes); p++) {
            double most, frame;
            tg__cost cost;
            const double took = run_shaped(sizes[p], &cases[c], "20mbit,5ms", &most, &frame);
            tg__exchange_find(cases[c].exchange)->cost(sizes[p], cases[c].n, frame, &cost);
            const double want = cost.delays * 0.005 + cost.serial * 8 / 20e6;
            if (fabs(took - want) > 0.1 * want || fabs(most - cost.bytes) > 0.1 * cost.bytes)
                fail_msg("%s, %s, %d ranks: %.4f s and %.0f bytes, cost says %.4f s and %.0f bytes",
                         cases[c].exchange, cases[c].codec, sizes[p], took, most, want, cost.bytes);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cost_is_what_links_show),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

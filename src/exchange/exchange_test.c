/* Exchanges on threads: results with the pump and the in-process transport; and the exchange
 * objects. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange_ranks.h"
#include "telegrad/spec.h"

/* ---- results --------------------------------------------------------------------------------- */

static tg_status conform(job *j)
{
    return fixture_conformance(j->t, 60000 * ms);
}

static void test_conformance(void **state)
{
    static const int sizes[] = {1, 2, 3, 4, 7, 8};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(sizes); i++) {
        job jobs[MAX_RANKS];
        run_ranks(sizes[i], conform, NULL, -1, NULL, jobs);
        all_ok(jobs, sizes[i]);
    }
}

static void test_conformance_over_links(void **state)
{
    (void)state;
    job jobs[MAX_RANKS];
    run_ranks(3, conform, NULL, -1, "1gbit,delay=100us,jitter=200us", jobs);
    all_ok(jobs, 3);
}

static const fixture_case many[] = {{"direct", "topk:density=0.1", 1000},
                                    {"ring", "f32", 333},
                                    {"allgather", "2bit:threshold=0.5", 700},
                                    {"direct", "f32", 5},
                                    {"allgather", "fp16", 4097},
                                    {"halving", "f32", 1000},
                                    {"reducescatter", "topk:density=0.05", 2000},
                                    {"gtopk", "topk:density=0.05", 2000}};
enum { MANY = 8 };
_Static_assert(MANY == TG_COUNT(many), "");

/* Several exchanges in flight at once, launched in a different order on every rank. */
static tg_status run_many(job *j)
{
    tg__flight f[MANY] = {{0}};
    tg_codec *codec[MANY];
    float dst[4097];
    tg__pump p;
    tg__pump_init(&p, j->t, 5, 60000 * ms);
    for (int i = 0; i < MANY; i++)
        TG_TRY(fixture_create(&many[i], j->t->rank, j->t->size, &codec[i], &f[i].x));
    for (uint64_t step = 0; step < 4; step++) {
        for (int k = 0; k < MANY; k++) {
            int i = (k + j->t->rank) % MANY;
            TG_TRY(fixture_encode(f[i].x, step));
            f[i].step = step;
            f[i].bucket = (uint16_t)i;
            f[i].sequence = (uint32_t)(step * MANY + (uint64_t)i);
            TG_TRY(tg__pump_launch(&p, &f[i]));
        }
        while (p.active)
            TG_TRY(tg__pump_run(&p, INT64_MAX));
        for (int i = 0; i < MANY; i++) {
            if (!f[i].finished || f[i].end_ns < f[i].begin_ns)
                return tg_fail(TG_E_STATE, "flight %d did not finish", i);
            f[i].x->ops->result(f[i].x, dst);
            TG_TRY(fixture_compare(&many[i], j->t->rank, j->t->size, step, dst));
        }
    }
    uint64_t bytes = p.own.bytes_sent;
    for (int i = 0; i < MANY; i++) {
        tg__flight_fini(&f[i]);
        tg__exchange_destroy(f[i].x);
        tg_codec_destroy(codec[i]);
    }
    tg__pump_fini(&p);
    return bytes > 0 ? TG_OK : tg_fail(TG_E_STATE, "no bytes counted");
}

static void test_many_at_once(void **state)
{
    (void)state;
    job jobs[MAX_RANKS];
    run_ranks(5, run_many, NULL, -1, NULL, jobs);
    all_ok(jobs, 5);
}

/* Rank 1 wants to stop, the last rank has a NaN. */
static tg_status run_flags(job *j)
{
    const fixture_case *c = j->arg;
    tg_codec *codec = NULL;
    tg__flight f = {.sequence = 3};
    tg__pump p;
    float dst[64];
    TG_TRY(fixture_create(c, j->t->rank, j->t->size, &codec, &f.x));
    tg__pump_init(&p, j->t, 5, 60000 * ms);
    f.flags_out = (uint16_t)(TG__FLAG_CLOSES | (j->t->rank == 1 ? TG__FLAG_STOP : 0) |
                             (j->t->rank == j->t->size - 1 ? TG__FLAG_NONFINITE : 0));
    TG_TRY(fixture_run(&p, &f, 0, dst));
    j->flags = f.flags_in | f.flags_out;
    tg__flight_fini(&f);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    return TG_OK;
}

static void test_flags_reach_everyone(void **state)
{
    static const fixture_case cases[] = {{"direct", "f32", 3},
                                         {"ring", "f32", 64},
                                         {"ring", "fp16", 64},
                                         {"allgather", "topk:density=0.1", 64},
                                         {"halving", "f32", 64},
                                         {"reducescatter", "topk:density=0.1", 64},
                                         {"gtopk", "topk:density=0.1", 64}};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(cases); i++)
        for (int size = 2; size <= 7; size++) {
            job jobs[MAX_RANKS];
            run_ranks(size, run_flags, &cases[i], -1, NULL, jobs);
            all_ok(jobs, size);
            for (int r = 0; r < size; r++)
                assert_int_equal(jobs[r].flags,
                                 TG__FLAG_CLOSES | TG__FLAG_STOP | TG__FLAG_NONFINITE);
        }
}

/* ---- the objects ----------------------------------------------------------------------------- */

static void refused(const fixture_case *c, int rank, int size, tg_status want, const char *text)
{
    tg_codec *codec = NULL;
    tg__exchange *x = NULL;
    assert_int_equal(fixture_create(c, rank, size, &codec, &x), want);
    if (!strstr(tg_error(), text))
        fail_msg("\"%s\" lacks \"%s\"", tg_error(), text);
}

static void test_refusals(void **state)
{
    (void)state;
    refused(&(fixture_case){"ring", "topk", 10}, 0, 2, TG_E_UNSUPPORTED, "every element");
    refused(&(fixture_case){"halving", "topk", 10}, 0, 2, TG_E_UNSUPPORTED, "allowed: f32");
    refused(&(fixture_case){"ring", "f32", 10}, 0, 3000, TG_E_UNSUPPORTED, "at most 2049");
    refused(&(fixture_case){"direct", "f32", 10}, 2, 2, TG_E_ARG, "rank=2 of 2");
    refused(&(fixture_case){"direct", "f32", 10}, 0, 0, TG_E_ARG, "rank=0 of 0");
    refused(&(fixture_case){"direct", "f32", TG_MAX_ELEMENTS + 1}, 0, 2, TG_E_ARG, "allowed");
    tg__exchange_destroy(NULL);
}

static void test_list(void **state)
{
    (void)state;
    size_t count, entries;
    const tg__exchange_ops *const *ops = tg__exchanges(&count);
    const tg_entry *const *entry = tg__exchange_entries(&entries);
    assert_int_equal(count, entries);
    for (size_t i = 0; i < count; i++) {
        tg__cost cost;
        assert_ptr_equal(entry[i], &ops[i]->entry);
        assert_ptr_equal(tg__exchange_find(entry[i]->name), ops[i]);
        if (ops[i]->served) /* a single rank has servers, too, and they decode */
            continue;
        assert_true(ops[i]->decodes_own);
        ops[i]->cost(1, 1000, 4012, &cost);
        assert_true(cost.rounds == 0 && cost.delays == 0 && cost.bytes == 0 && cost.serial == 0);
    }
    assert_false(tg__exchange_find("broadcast")->decodes_own);
    assert_false(tg__exchange_find("push")->decodes_own);
    assert_null(tg__exchange_find("carrier-pigeon"));
    assert_true(tg__dense_bytes(4, 1000) == 6000);
    assert_true(tg__dense_bytes(1, 1000) == 0);
}

static void expect_rank(int rank)
{
    char name[16];
    snprintf(name, sizeof name, "rank %d", rank);
    assert_non_null(strstr(tg_error(), name));
}

/* Frames with errors that a checksum cannot detect: a peer that computes wrongly. */
static void test_bad_frames(void **state)
{
    static const fixture_case cases[] = {{"direct", "f32", 64},
                                         {"ring", "f32", 64},
                                         {"halving", "f32", 64},
                                         {"allgather", "topk:density=0.1", 64},
                                         {"reducescatter", "topk:density=0.1", 64},
                                         {"gtopk", "topk:density=0.1", 64},
                                         {"broadcast", "f32", 64},
                                         {"push", "f32", 64}};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(cases); i++)
        for (int damage = 0; damage < 4; damage++) {
            tg_codec *codec = NULL;
            tg__exchange *x = NULL;
            tg__wish wish[16];
            /* on every rank except gtopk's rank 0, rank 0 is the first peer */
            int rank = cases[i].exchange[0] != 'g', other = 1 - rank;
            assert_int_equal(fixture_create(&cases[i], rank, 2, &codec, &x), TG_OK);
            assert_int_equal(fixture_encode(x, 0), TG_OK);
            assert_int_equal(x->ops->start(x), TG_OK);
            assert_true(x->ops->wants(x, wish, 16) > 0);
            assert_false(wish[0].send);
            uint8_t *frame = wish[0].msg + TG__ENVELOPE_BYTES;
            size_t n = strchr("abgp", cases[i].exchange[0]) ? 64 : 32; /* blocks */
            size_t len = TG__FRAME_HEAD;
            uint8_t id = x->codec->ops->wire_id;
            tg__frame_head(frame, damage == 0 ? (uint8_t)(id + 1) : id, TG__FORM_ZERO, 0,
                           damage == 1 ? n + 1 : n, 0);
            if (damage == 2)
                len--;
            if (damage == 3)
                len = 0;
            tg_status status = x->ops->done(x, wish[0].id, len);
            assert_true(status == TG_E_CORRUPT || status == TG_E_MISMATCH);
            expect_rank(other);
            tg__exchange_destroy(x);
            tg_codec_destroy(codec);
        }
}

/* Finite vectors whose sum is not finite: an owner that encodes it again reports it, and sends
 * zeros. */
static void test_sum_beyond_f32(void **state)
{
    static const fixture_case c = {"reducescatter", "f32", 32};
    (void)state;
    tg_codec *codec = NULL;
    tg__exchange *x = NULL;
    tg__wish wish[4];
    float v[32];
    assert_int_equal(fixture_create(&c, 0, 2, &codec, &x), TG_OK);
    for (size_t i = 0; i < 32; i++)
        v[i] = 3e38f;
    assert_int_equal(tg__codec_encode(codec, NULL, v, 32, x->parts, x->nparts, NULL), TG_OK);
    assert_int_equal(x->ops->start(x), TG_OK);
    assert_true(x->ops->wants(x, wish, 4) > 0);
    uint8_t *frame = wish[0].msg + TG__ENVELOPE_BYTES;
    memcpy(frame, x->parts[0].dst, x->parts[0].len);
    assert_false(x->overflow);
    assert_int_equal(x->ops->done(x, wish[0].id, x->parts[0].len), TG_OK);
    assert_true(x->overflow);
    size_t count = x->ops->wants(x, wish, 4);
    assert_true(count > 0 && wish[count - 1].send);
    assert_int_equal(wish[count - 1].msg[TG__ENVELOPE_BYTES + 1], TG__FORM_ZERO);
    tg__exchange_destroy(x);
    tg_codec_destroy(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conformance),  cmocka_unit_test(test_conformance_over_links),
        cmocka_unit_test(test_many_at_once), cmocka_unit_test(test_flags_reach_everyone),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_list),
        cmocka_unit_test(test_bad_frames),   cmocka_unit_test(test_sum_beyond_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

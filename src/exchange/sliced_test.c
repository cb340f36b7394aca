/* Exchanges in slices: the same sums, in any order, with priorities and faults; and which messages
 * come first. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "exchange_ranks.h"
#include "exchange/message.h"
#include "exchange/sliced.h"
#include "telegrad/clock.h"
#include "telegrad/random.h"

enum { N_MAX = 300000 };

/* The expected result: direct adds in rank order; in a ring, a block of a slice begins at the rank
 * after its owner. */
static float want(const fixture_case *c, int size, uint64_t step, size_t element)
{
    if (strcmp(c->exchange, "broadcast") == 0)
        return fixture_value(0, step, element);
    const int slices = (int)tg__slice_count(size, c->n, 4.0 * (double)c->n, 2);
    int i = 0, owner = 0;
    while (tg__block_begin(c->n, slices, i + 1) <= element)
        i++;
    const size_t begin = tg__block_begin(c->n, slices, i);
    const size_t n = tg__block_begin(c->n, slices, i + 1) - begin;
    while (tg__block_begin(n, size, owner + 1) <= element - begin)
        owner++;
    const int first = strcmp(c->exchange, "ring") == 0 ? owner + 1 : 0;
    float sum = 0;
    for (int k = 0; k < size; k++)
        sum += fixture_value((first + k) % size, step, element);
    return sum * (1.0f / (float)size);
}

static tg_status compare(const fixture_case *c, int rank, int size, uint64_t step, const float *dst)
{
    /* only some, because there are many */
    for (size_t e = 0; e < c->n; e += e % 16384 < 64 ? 1 : 61) {
        float w = want(c, size, step, e);
        if (memcmp(&w, &dst[e], sizeof w) != 0)
            return tg_fail(TG_E_STATE, "%s, rank %d of %d: element %zu is %a, not %a", c->exchange,
                           rank, size, e, (double)dst[e], (double)w);
    }
    return TG_OK;
}

static void test_count(void **state)
{
    (void)state;
    const double block = TG__SLICE_BYTES / 4;
    const size_t n = 2 * TG__SLICE_BYTES / 4;
    assert_true(block == 32768);
    assert_int_equal(tg__slice_count(2, n, 4.0 * (double)n, 2), 1);
    assert_int_equal(tg__slice_count(2, n + 1, 4.0 * (double)(n + 1), 2), 2);
    assert_int_equal(tg__slice_count(1, n + 1, 4.0 * (double)(n + 1), 2), 1);
    assert_int_equal(tg__slice_count(2, n + 1, 3.0 * (double)n, 2), 1);
    assert_int_equal(tg__slice_count(2, n + 1, 4.0 * (double)(n + 1), 66), 1);
    assert_int_equal(tg__slice_count(2, 100 * n, 400.0 * (double)n, 2), TG__SLICES);
}

/* ---- several at once ------------------------------------------------------------------------- */

static const fixture_case many[] = {
    {"direct", "f32", N_MAX},    {"ring", "f32", 150000}, {"direct", "f32", 140001},
    {"allgather", "fp16", 5000}, {"ring", "f32", 200},    {"direct", "topk:density=0.1", 20000},
    {"broadcast", "f32", 200000}};
enum { MANY = 7 }; /* a prime: strides */
_Static_assert(MANY == TG_COUNT(many), "");

/* Launched in a different order on every rank and in every step, with priorities that all ranks
 * share or, in odd steps, that differ between ranks; with progress in between. */
static tg_status run_many(job *j)
{
    static const uint32_t per_step = MANY;
    tg__flight f[MANY] = {{0}};
    tg_codec *codec[MANY];
    tg__pump p;
    float *dst = malloc(N_MAX * sizeof *dst);
    tg__pump_init(&p, j->t, 5, 60000 * ms);
    for (int i = 0; i < MANY; i++)
        TG_TRY(fixture_create(&many[i], j->t->rank, j->t->size, &codec[i], &f[i].x));
    for (uint64_t step = 0; step < 6; step++) {
        const tg_rng_key key = {
            .seed = 3, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)j->t->rank, .step = step};
        const int first = (int)(tg_rng_uniform(&key, 0) * MANY),
                  stride = 1 + (int)step % (MANY - 1);
        for (int k = 0; k < MANY; k++) {
            const int i = (first + k * stride) % MANY;
            TG_TRY(fixture_encode(f[i].x, step));
            f[i].step = step;
            f[i].bucket = (uint16_t)i;
            f[i].priority =
                step % 2 == 0 ? i % 3 : (int)(tg_rng_uniform(&key, 1 + (uint64_t)i) * 4);
            f[i].sequence = (uint32_t)step * per_step + (uint32_t)i;
            TG_TRY(tg__pump_launch(&p, &f[i]));
            if (tg_rng_uniform(&key, 20 + (uint64_t)i) < 0.5)
                TG_TRY(tg__pump_run(&p, tg_now_ns(j->t->clock)));
        }
        while (p.active)
            TG_TRY(tg__pump_run(&p, INT64_MAX));
        if (p.own.total_under_way != 0)
            return tg_fail(TG_E_STATE, "%zu bytes under way at the end", p.own.total_under_way);
        for (int i = 0; i < MANY; i++) {
            f[i].x->ops->result(f[i].x, dst);
            TG_TRY(strcmp(many[i].codec, "f32") == 0
                       ? compare(&many[i], j->t->rank, j->t->size, step, dst)
                       : fixture_compare(&many[i], j->t->rank, j->t->size, step, dst));
        }
    }
    for (int i = 0; i < MANY; i++) {
        tg__flight_fini(&f[i]);
        tg__exchange_destroy(f[i].x);
        tg_codec_destroy(codec[i]);
    }
    tg__pump_fini(&p);
    free(dst);
    return TG_OK;
}

static void test_any_order(void **state)
{
    static const int sizes[] = {1, 2, 3, 5};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(sizes); i++) {
        job jobs[MAX_RANKS];
        run_ranks(sizes[i], run_many, NULL, -1, NULL, jobs);
        all_ok(jobs, sizes[i]);
    }
}

static void test_any_order_over_links(void **state)
{
    (void)state;
    job jobs[MAX_RANKS];
    run_ranks(3, run_many, NULL, -1, "2gbit,delay=500us,jitter=500us", jobs);
    all_ok(jobs, 3);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static tg_status run_until_failure(job *j)
{
    const fixture_case *c = j->arg;
    tg_codec *codec = NULL;
    tg__flight f = {.bucket = 3};
    tg__pump p;
    float *dst = malloc(c->n * sizeof *dst);
    TG_TRY(fixture_create(c, j->t->rank, j->t->size, &codec, &f.x));
    tg__pump_init(&p, j->t, 5, 1000 * ms);
    tg_status status = TG_OK;
    for (uint64_t step = 0; step < 12 && status == TG_OK; step++) {
        f.sequence = (uint32_t)step;
        status = fixture_run(&p, &f, step, dst);
        if (status == TG_OK)
            status = compare(c, j->t->rank, j->t->size, step, dst);
    }
    if (status != TG_OK)
        (void)j->t->ops->shut(j->t);
    tg__flight_fini(&f);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    free(dst);
    return status;
}

/* A vector that takes longer than the timeout is sent in slices that do not. */
static tg_status run_slowly(job *j)
{
    static const fixture_case c = {"broadcast", "f32", N_MAX};
    tg_codec *codec = NULL;
    tg__flight f = {.bucket = 3};
    tg__pump p;
    float *dst = malloc(c.n * sizeof *dst);
    TG_TRY(fixture_create(&c, j->t->rank, j->t->size, &codec, &f.x));
    tg__pump_init(&p, j->t, 5, 2500 * ms);
    TG_TRY(fixture_run(&p, &f, 0, dst));
    TG_TRY(compare(&c, j->t->rank, j->t->size, 0, dst));
    tg__flight_fini(&f);
    tg__exchange_destroy(f.x);
    tg_codec_destroy(codec);
    tg__pump_fini(&p);
    free(dst);
    return TG_OK;
}

static void test_slow_broadcast(void **state)
{
    (void)state;
    job jobs[MAX_RANKS];
    run_ranks(2, run_slowly, NULL, -1, "2.4mbit", jobs); /* 1.2 MB: 4 s */
    all_ok(jobs, 2);
}

/* Every rank ends with an error. Ranks that receive directly from the faulty one name it, or a rank
 * that gave up before them. */
static void test_faults(void **state)
{
    static const fixture_case cases[] = {
        {"direct", "f32", 200000}, {"ring", "f32", 200000}, {"allgather", "f32", 200000}};
    static const char *const faults[] = {"fault:stall=20",
                                         "fault:kill=20",
                                         "fault:corrupt=0.1,seed=4",
                                         "fault:truncate=0.1,seed=5",
                                         "fault:oversize=0.1,seed=6",
                                         "fault:replay=0.1,seed=7",
                                         "fault:drop=0.1,seed=3"};
    (void)state;
    for (size_t i = 0; i < TG_COUNT(cases) * TG_COUNT(faults); i++) {
        const fixture_case *c = &cases[i % TG_COUNT(cases)];
        const char *fault = faults[i / TG_COUNT(cases)];
        job jobs[MAX_RANKS];
        run_ranks(3, run_until_failure, c, 1, fault, jobs);
        bool named = false;
        for (int r = 0; r < 3; r++) {
            if (jobs[r].status == TG_OK)
                fail_msg("%s, %s: rank %d finished", c->exchange, fault, r);
            if (r != 1)
                expect_text(&jobs[r], "rank ");
            named |= r != 1 && strstr(jobs[r].error, "rank 1") != NULL;
        }
        assert_true(named);
    }
}

/* ---- priority -------------------------------------------------------------------------------- */

/* A small exchange launched after a large one finishes before the large one has sent half of its
 * bytes. */
static tg_status run_overtake(job *j)
{
    static const fixture_case large = {"direct", "f32", 2000000}, small = {"direct", "f32", 3000};
    tg_codec *codec[2] = {NULL};
    tg__flight slow = {.sequence = 1, .priority = 1, .bucket = 1}, fast = {.sequence = 2};
    tg__pump p;
    tg__cost cost;
    TG_TRY(fixture_create(&large, j->t->rank, j->t->size, &codec[0], &slow.x));
    TG_TRY(fixture_create(&small, j->t->rank, j->t->size, &codec[1], &fast.x));
    slow.x->ops->cost(j->t->size, large.n, 4.0 * (double)large.n, &cost);
    tg__pump_init(&p, j->t, 5, 60000 * ms);
    TG_TRY(fixture_encode(slow.x, 0));
    TG_TRY(fixture_encode(fast.x, 0));
    TG_TRY(tg__pump_launch(&p, &slow));
    TG_TRY(tg__pump_launch(&p, &fast));
    while (!fast.finished)
        TG_TRY(tg__pump_run(&p, INT64_MAX));
    const double sent = (double)slow.bytes_sent / cost.bytes;
    while (p.active)
        TG_TRY(tg__pump_run(&p, INT64_MAX));
    /* cost counts a frame head for each part; a frame of exactly 4 n bytes has none */
    if (fabs((double)slow.bytes_sent / cost.bytes - 1) > 1e-4)
        return tg_fail(TG_E_STATE, "%llu bytes, cost says %.0f",
                       (unsigned long long)slow.bytes_sent, cost.bytes);
    tg__flight_fini(&slow);
    tg__flight_fini(&fast);
    tg__exchange_destroy(slow.x);
    tg__exchange_destroy(fast.x);
    tg_codec_destroy(codec[0]);
    tg_codec_destroy(codec[1]);
    tg__pump_fini(&p);
    return sent < 0.5 ? TG_OK
                      : tg_fail(TG_E_STATE, "%.2f of the large exchange was sent before", sent);
}

static void test_priority(void **state)
{
    (void)state;
    job jobs[MAX_RANKS];
    /* Slow enough for a rank to begin more than a second after the other. */
    run_ranks(2, run_overtake, NULL, -1, "20mbit", jobs);
    all_ok(jobs, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_slow_broadcast),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_any_order_over_links),
        cmocka_unit_test(test_priority),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

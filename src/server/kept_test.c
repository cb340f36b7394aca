/* What waits for a server: pieces of several vectors, from servers that had other parts of them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "server/kept.h"
#include <stdlib.h>

enum { CHANNEL = 3, N = 96, LO = N / 3, LEN = N / 3 }; /* blocks are multiples of 16 */

static tg__kept_key key_of(int bucket, enum tg__kept_kind kind)
{
    return (tg__kept_key){CHANNEL, (uint16_t)bucket, (uint16_t)kind, 0};
}

/* The state of one server, which has these pieces. */
static void add(tg__kept *k, const tg__piece *pieces, size_t count)
{
    tg__kept_writer w;
    void *bytes;
    size_t len;
    assert_int_equal(tg__kept_begin(&w, CHANNEL, "mode=sum\n"), TG_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(tg__kept_put(&w, &pieces[i]), TG_OK);
    assert_int_equal(tg__kept_end(&w, &bytes, &len), TG_OK);
    assert_int_equal(tg__kept_add(k, bytes, len, CHANNEL, "mode=sum\n"), TG_OK);
    free(bytes);
}

/* Two servers had halves of two vectors; now there are three, and this is the second of them. */
static void of_other_servers(void **state)
{
    (void)state;
    float v[N], got[N] = {0};
    tg__kept k = {0};
    for (int i = 0; i < N; i++)
        v[i] = (float)i;
    for (int half = 0; half < 2; half++) {
        const uint64_t at = (uint64_t)half * N / 2;
        const tg__piece both[] = {
            {key_of(7, TG__KEPT_RESIDUAL), at, N / 2, 1, 0, NULL, v + at},
            {key_of(2, TG__KEPT_RESIDUAL), at, N / 2, 1, 0, NULL, v + at},
        };
        add(&k, both, 2);
    }
    tg__kept_cut(&k, CHANNEL, 1, 3);
    assert_true(tg__kept_any(&k, CHANNEL));
    assert_false(tg__kept_any(&k, CHANNEL - 1) || tg__kept_any(&k, CHANNEL + 1));
    assert_false(tg__kept_waits(&k, key_of(7, TG__KEPT_RESIDUAL), TG__KEPT_W));
    assert_true(tg__kept_waits(&k, key_of(7, TG__KEPT_W), TG__KEPT_RESIDUAL));
    assert_true(tg__kept_take(&k, key_of(7, TG__KEPT_RESIDUAL), LO, LEN, got + LO));
    assert_memory_equal(got + LO, v + LO, LEN * sizeof *v);
    assert_true(got[LO - 1] == 0 && got[LO + LEN] == 0);
    assert_false(tg__kept_waits(&k, key_of(7, TG__KEPT_W), TG__KEPT_RESIDUAL));
    assert_false(tg__kept_take(&k, key_of(7, TG__KEPT_RESIDUAL), LO, LEN, got));
    size_t count = 0;
    for (const tg__piece *p = tg__kept_next(&k, NULL); p != NULL; p = tg__kept_next(&k, p)) {
        assert_int_equal(p->key.bucket, 2);
        count++;
    }
    assert_int_equal(count, 2);
    assert_true(tg__kept_take(&k, key_of(2, TG__KEPT_RESIDUAL), 0, N, got));
    assert_memory_equal(got, v, sizeof v);
    assert_false(tg__kept_any(&k, CHANNEL));
    assert_null(tg__kept_next(&k, NULL));
    tg__kept_free(&k);
}

/* A piece of just the elements that are taken comes before others that have some of them. Runs are
 * found by any of their elements. */
static void the_piece_that_fits(void **state)
{
    (void)state;
    const float wide[] = {1, 1, 1, 1}, just[] = {2, 2};
    const uint32_t run[] = {3, 1}, words[] = {10, 11, 20, 21};
    const tg__kept_key w = key_of(1, TG__KEPT_W), updates = key_of(1, TG__KEPT_UPDATES);
    float got[4] = {0};
    tg__kept k = {0};
    const tg__piece pieces[] = {{w, 0, 4, 1, 0, NULL, wide},
                                {w, 1, 2, 1, 0, NULL, just},
                                {updates, 4, 4, 2, 2, run, words}};
    add(&k, pieces, TG_COUNT(pieces));
    assert_true(tg__kept_take(&k, w, 1, 2, got));
    assert_true(got[0] == 2 && got[1] == 2);
    assert_true(tg__kept_take(&k, w, 0, 4, got));
    assert_memory_equal(got, wide, sizeof wide);
    assert_null(tg__kept_at(&k, updates, 3, 2));
    assert_null(tg__kept_at(&k, updates, 4, 1));
    assert_int_equal(tg__kept_at(&k, updates, 6, 2)[0], 10);
    assert_int_equal(tg__kept_at(&k, updates, 7, 2)[1], 21);
    assert_false(tg__kept_take(&k, updates, 4, 4, got));
    tg__kept_free(&k);
}

/* Many vectors, taken in another order than that in which they came. */
static void many(void **state)
{
    (void)state;
    enum { MANY = 2000 };
    static float v[MANY];
    static tg__piece pieces[MANY];
    tg__kept k = {0};
    for (int i = 0; i < MANY; i++) {
        v[i] = (float)i;
        pieces[i] = (tg__piece){key_of(i * 37 % MANY, TG__KEPT_RESIDUAL), 0, 1, 1, 0, NULL, &v[i]};
    }
    add(&k, pieces, MANY);
    tg__kept_cut(&k, CHANNEL, 0, 1);
    for (int i = MANY - 1; i >= 0; i--) {
        float got = -1;
        assert_true(tg__kept_take(&k, pieces[i].key, 0, 1, &got));
        assert_true(got >= v[i] && got <= v[i]);
        assert_int_equal(tg__kept_any(&k, CHANNEL), i > 0);
    }
    tg__kept_free(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_other_servers),
                                       cmocka_unit_test(the_piece_that_fits),
                                       cmocka_unit_test(many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Takeover: weights, means, pieces. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "state/takeover.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A new rank's weights add up to 1, an old rank's to P'/P, and a new rank needs few. */
static void weights_keep_sums(void **state)
{
    (void)state;
    for (int old = 1; old <= 17; old++)
        for (int size = 1; size <= 17; size++) {
            int of_old[17] = {0};
            for (int rank = 0; rank < size; rank++) {
                const tg__heir h = {rank, size, old};
                int sum = 0, some = 0;
                for (int from = 0; from < old; from++) {
                    const int weight = tg__heir_weight(h, from);
                    assert_in_range(weight, 0, old);
                    if (weight > 0 && some++ == 0)
                        assert_int_equal(from, tg__heir_first(h));
                    sum += weight;
                    of_old[from] += weight;
                }
                assert_int_equal(sum, old);
                assert_true(some <= old / size + 2);
            }
            for (int from = 0; from < old; from++)
                assert_int_equal(of_old[from], size);
        }
    assert_int_equal(tg__heir_weight((tg__heir){1, 3, 4}, 1), 2);
    assert_int_equal(tg__heir_weight((tg__heir){5, 8, 4}, 2), 4);
    assert_int_equal(tg__heir_weight((tg__heir){1 << 20, 1 << 21, 1 << 20}, 1 << 19), 1 << 20);
}

/* Equal vectors do not change, to the bit; sums of huge ones do not overflow. */
static void means_are_rounded_once(void **state)
{
    (void)state;
    const float x[] = {0.1f, -3e38f, 1e-40f, 7}, y[] = {0.1f, -3e38f, 1e-40f, 10};
    float dst[4];
    tg__blend b = {0};
    tg__owned o = {0};
    for (int i = 0; i < 3; i++)
        assert_int_equal(tg__blend_add(&o, &b, dst, i < 2 ? x : y, 4, 1, 3), TG_OK);
    assert_memory_equal(dst, x, 3 * sizeof *x);
    assert_true(dst[3] == 8);
    assert_null(b.sum);
    const float zero = -0.0f; /* a single one is copied */
    b = (tg__blend){0};
    assert_int_equal(tg__blend_add(&o, &b, dst, &zero, 1, 5, 5), TG_OK);
    assert_memory_equal(dst, &zero, sizeof zero);
    assert_true(o.count == 0);
    tg__owned_free(&o);
}

enum { OLD = 4, NEW = 3, LEN = 12 };

/* A rank's state: a residual, an owner's piece of a vector of LEN, a threshold, and a replicated
 * slot. */
static void make(tg__state **s_p, int rank, int size, float *v[4])
{
    static const char *const tensor[] = {"w"};
    const size_t n[] = {2, LEN / (size_t)size}, at = n[1] * (size_t)rank;
    assert_int_equal(tg__state_create(s_p), TG_OK);
    tg__state *s = *s_p;
    assert_int_equal(tg__state_block(s, TG__ROLE_RANK, TG__RESCALE_SUM, "r", tensor, n, 1, &v[0]),
                     TG_OK);
    assert_int_equal(
        tg__state_block(s, TG__ROLE_OWNER, TG__RESCALE_COPY, "o", tensor, n + 1, 1, &v[1]), TG_OK);
    tg__state_pieces(s, &at, 1);
    assert_int_equal(tg__state_block(s, TG__ROLE_RANK, TG__RESCALE_COPY, "t", tensor, n, 1, &v[2]),
                     TG_OK);
    assert_int_equal(
        tg__state_block(s, TG__ROLE_REPLICATED, TG__RESCALE_COPY, "g", tensor, n, 1, &v[3]), TG_OK);
}

static void write_old(const char *path, int rank)
{
    tg__state *s;
    float *v[4];
    tg__ckpt_writer *w;
    make(&s, rank, OLD, v);
    for (int i = 0; i < 2; i++)
        v[0][i] = (float)(4 * rank + i);
    for (int i = 0; i < LEN / OLD; i++)
        v[1][i] = (float)(rank * LEN / OLD + i);
    v[2][0] = (float)rank;
    v[3][0] = 42;
    assert_int_equal(tg__ckpt_create(path, "a=b\nnodes=0x4\n", &w), TG_OK);
    assert_int_equal(tg__ckpt_put_state(w, s), TG_OK);
    assert_int_equal(tg__ckpt_commit(w), TG_OK);
    tg__state_destroy(s);
}

static void slots_are_filled(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-takeover-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    for (int rank = 0; rank < OLD; rank++) {
        snprintf(path, sizeof path, "%s/%d", dir, rank);
        write_old(path, rank);
    }
    for (int rank = 0; rank < NEW; rank++) {
        tg__state *s;
        tg__takeover *t;
        float *v[4];
        tg__owned o = {0};
        const tg__heir h = {rank, NEW, OLD};
        make(&s, rank, NEW, v);
        assert_int_equal(tg__takeover_create(&o, s, h, h, NULL, &t), TG_OK);
        for (int from = 0; from < OLD; from++) {
            tg__ckpt_reader *r;
            if (from == 0)
                assert_int_equal(tg__takeover_end(t), TG_E_CORRUPT);
            snprintf(path, sizeof path, "%s/%d", dir, from);
            assert_true(tg__takeover_needs(t, from)); /* there are pieces in it */
            assert_int_equal(tg__ckpt_open(path, NULL, &r), TG_OK);
            assert_int_equal(tg__ckpt_check(r, "a=b\n", "nodes="), TG_OK);
            assert_int_equal(tg__ckpt_check(r, "a=c\n", "nodes="), TG_E_MISMATCH);
            assert_int_equal(tg__takeover_add(t, r, from), TG_OK);
            tg__ckpt_close(r);
        }
        assert_int_equal(tg__takeover_end(t), TG_OK);
        tg__owned_free(&o);
        const float residual[NEW] = {1, 6, 11}; /* 3/4 of 0 and 1/4 of 4; half of 4 and 8; ... */
        assert_true(v[0][0] == residual[rank] && v[0][1] == residual[rank] + 1);
        for (int i = 0; i < LEN / NEW; i++)
            assert_true(v[1][i] == (float)(rank * LEN / NEW + i));
        assert_true(v[2][0] == (float)(rank * OLD / NEW));
        assert_true(v[3][0] == 42);
        tg__state_destroy(s);
    }
    for (int rank = 0; rank < OLD; rank++) {
        snprintf(path, sizeof path, "%s/%d", dir, rank);
        unlink(path);
    }
    assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_keep_sums),
        cmocka_unit_test(means_are_rounded_once),
        cmocka_unit_test(slots_are_filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

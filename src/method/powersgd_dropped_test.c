/* PowerSGD among ranks: what steps that are not coded, or dropped, leave in its memory. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "powersgd_world.h"

static uint64_t hash_state(const world *w, int r)
{
    const tg__state *s = w->ranks[r].state;
    uint64_t hash = TG_HASH_START;
    for (size_t i = 0; i < s->count; i++)
        hash = tg_hash(hash, s->slot[i].data, s->slot[i].len);
    return hash;
}

static void dense_steps_leave_the_state_alone(void **state)
{
    (void)state;
    world w = open_world("powersgd:rank=2,start=1ep", 2, NULL); /* of five steps */
    uint64_t before = hash_state(&w, 0);
    for (uint64_t t = 0; t < 9; t++) {
        const bool coded = t != 7;
        draw_all(&w, t, 1);
        before = hash_state(&w, 0);
        assert_int_equal(step(&w, t, coded, -1), t < 5 || !coded ? 1 : 2);
        assert_alike(&w);
        if (t >= 5 && coded) {
            assert_true(hash_state(&w, 0) != before);
            continue;
        }
        assert_true(hash_state(&w, 0) == before);
        drop(&w);
        assert_true(hash_state(&w, 0) == before);
        for (size_t i = 0; i < N; i++)
            assert_true(output(&w, 0)[i] == (w.ranks[0].g[i] + w.ranks[1].g[i]) * 0.5f);
    }
    close_world(&w);
}

/* After a step that rank 1 flagged: the others' gradients are in their residuals, its own is as it
 * was, all start from the basis they had, and the coming steps lose nothing. */
static void a_dropped_step_is_taken_back(void **state)
{
    (void)state;
    static double e[3][N], after[N], total[N];
    enum { DROPPED = 3 };
    size_t n, m;
    world w = open_world("powersgd:rank=2", 3, NULL);
    memset(total, 0, sizeof total);
    for (uint64_t t = 0; t < 8; t++) {
        const bool flagged = t == DROPPED;
        draw_all(&w, t, 1);
        float basis[2 * (75 + 12 + 40)];
        const float *now = slot(&w, 0, "basis", &n);
        assert_int_equal(n, TG_COUNT(basis));
        memcpy(basis, now, sizeof basis);
        for (int r = 0; r < 3; r++)
            residual(&w, r, 2, e[r]);
        (void)step(&w, t, true, flagged ? 1 : -1);
        if (flagged) {
            drop(&w);
            for (int r = 0; r < 3; r++)
                assert_memory_equal(slot(&w, r, "basis", &n), basis, sizeof basis);
        }
        for (int r = 0; r < 3; r++) {
            if (r > 0) {
                assert_memory_equal(slot(&w, r, "basis", &n), slot(&w, 0, "basis", &m),
                                    sizeof basis);
                assert_memory_equal(slot(&w, r, "left", &n), slot(&w, 0, "left", &m),
                                    2 * (18 + 130 + 40) * sizeof(float));
            }
            residual(&w, r, 2, after);
            for (size_t i = 0, at = 0; i < TENSORS; at += rows[i] * cols[i], i++)
                for (size_t a = at; a < at + rows[i] * cols[i]; a++) {
                    if (!flagged || r != 1)
                        total[a] += w.ranks[r].g[a];
                    if (!flagged)
                        total[a] -= output(&w, 0)[a];
                    if (flagged && !pays(i, 2) && r != 1)
                        total[a] -= w.ranks[r].g[a]; /* no memory: lost, as in any method */
                    const double want = e[r][a] + (r == 1 ? 0 : (double)w.ranks[r].g[a]);
                    if (flagged && pays(i, 2))
                        assert_true(fabs(after[a] - want) < 1e-5 * (1 + fabs(want)));
                }
        }
    }
    for (int r = 0; r < 3; r++) {
        residual(&w, r, 2, after);
        for (size_t i = 0; i < N; i++)
            total[i] -= after[i];
    }
    assert_true(largest(total) < 1e-3);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_steps_leave_the_state_alone),
        cmocka_unit_test(a_dropped_step_is_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

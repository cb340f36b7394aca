/* Slots: zeroed, contiguous, unique. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "state/slots.h"
#include <string.h>

static const char *const names[] = {"fc1.weight", "fc1.bias", "fc2.weight"};
static const size_t sizes[] = {33, 0, 7};

static void makes_blocks(void **state)
{
    (void)state;
    tg__state *s;
    float *a, *b;
    uint64_t *counter;
    assert_int_equal(tg__state_create(&s), TG_OK);
    assert_int_equal(
        tg__state_block(s, TG__ROLE_RANK, TG__RESCALE_SUM, "residual", names, sizes, 3, &a), TG_OK);
    assert_int_equal(
        tg__state_block(s, TG__ROLE_OWNER, TG__RESCALE_SUM, "residual", names, sizes, 3, &b),
        TG_OK);
    assert_int_equal(tg__state_bytes(s, TG__ROLE_RANK, TG__RESCALE_COPY, "", "counter",
                                     sizeof *counter, &counter),
                     TG_OK);
    assert_int_equal((uintptr_t)a % 64, 0);
    assert_int_equal((uintptr_t)b % 64, 0);
    assert_int_equal((uintptr_t)counter % 64, 0);
    assert_int_equal(*counter, 0);
    for (size_t i = 0; i < 40; i++)
        assert_true(a[i] == 0 && b[i] == 0);
    assert_int_equal(s->count, 7);
    assert_ptr_equal(s->slot[0].data, a);
    assert_ptr_equal(s->slot[2].data, a + 33);
    assert_int_equal(s->slot[2].len, 7 * sizeof(float));
    assert_string_equal(s->slot[2].key, "slot:rank:10:fc2.weight:residual|sum");
    tg__state_destroy(s);
    tg__state_destroy(NULL);
}

static void keys_are_unique(void **state)
{
    (void)state;
    tg__state *s;
    float *a = NULL, *untouched = NULL;
    assert_int_equal(tg__state_create(&s), TG_OK);
    assert_int_equal(
        tg__state_block(s, TG__ROLE_RANK, TG__RESCALE_SUM, "residual", names + 2, sizes, 1, &a),
        TG_OK);
    /* The third tensor's slot exists, with another rule: the two before it must be removed
     * again. */
    assert_int_equal(tg__state_block(s, TG__ROLE_RANK, TG__RESCALE_COPY, "residual", names, sizes,
                                     3, &untouched),
                     TG_E_STATE);
    assert_null(untouched);
    assert_string_equal(tg_error(),
                        "slot \"residual\" of tensor \"fc2.weight\" (rank) exists already");
    assert_int_equal(s->count, 1);
    void *bytes = NULL;
    assert_int_equal(
        tg__state_bytes(s, TG__ROLE_RANK, TG__RESCALE_COPY, "fc2.weight", "residual", 4, &bytes),
        TG_E_STATE);
    assert_null(bytes);
    assert_int_equal(
        tg__state_block(s, TG__ROLE_RANK, TG__RESCALE_SUM, "residual", names, sizes, 2, &a), TG_OK);
    /* The end of the tensor's name is part of the key. */
    assert_int_equal(tg__state_bytes(s, TG__ROLE_RANK, TG__RESCALE_COPY, "a:b", "c", 4, &bytes),
                     TG_OK);
    assert_int_equal(tg__state_bytes(s, TG__ROLE_RANK, TG__RESCALE_COPY, "a", "b:c", 4, &bytes),
                     TG_OK);
    assert_int_equal(tg__state_bytes(s, TG__ROLE_RANK, TG__RESCALE_COPY, "a|b", "c", 0, &bytes),
                     TG_OK);
    tg__state_destroy(s);
}

static void too_large_is_refused(void **state)
{
    (void)state;
    tg__state *s;
    float *a = NULL;
    assert_int_equal(tg__state_create(&s), TG_OK);
    const size_t huge[] = {SIZE_MAX / 8, SIZE_MAX / 8, 5};
    assert_int_equal(tg__state_block(s, TG__ROLE_RANK, TG__RESCALE_SUM, "r", names, huge, 3, &a),
                     TG_E_NOMEM);
    assert_null(a);
    assert_int_equal(s->count, 0);
    tg__state_destroy(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_blocks),
        cmocka_unit_test(keys_are_unique),
        cmocka_unit_test(too_large_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a list owns is released once, the latest first; scratch memory grows in place. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/owned.h"
#include <stdlib.h>

enum { THINGS = 40 };

static int released[THINGS + 1], count;

static void release(void *thing)
{
    released[count++] = *(int *)thing;
}

static void latest_first(void **state)
{
    (void)state;
    tg__owned o = {0};
    int thing[THINGS];
    count = 0;
    for (int i = 0; i < THINGS; i++) {
        thing[i] = i;
        assert_int_equal(tg__owned_add(&o, &thing[i], release), TG_OK);
    }
    assert_int_equal(tg__owned_add(&o, NULL, release), TG_OK);
    tg__owned_drop(&o, &thing[7]);
    tg__owned_drop(&o, NULL);
    assert_int_equal(count, 1);
    assert_int_equal(released[0], 7);
    tg__owned_free(&o);
    assert_int_equal(count, THINGS);
    for (int i = 1, want = THINGS - 1; i < THINGS; i++, want--) {
        want -= want == 7;
        assert_int_equal(released[i], want);
    }
    tg__owned_free(&o); /* an empty list */
    assert_int_equal(count, THINGS);
}

static void scratch_grows(void **state)
{
    (void)state;
    tg__owned o = {0};
    double *a = NULL, *b = NULL;
    char *none = NULL, *kept;
    assert_int_equal(tg__owned_alloc(&o, 3, 1, &kept), TG_OK);
    assert_int_equal(tg__owned_room(&o, &a, 10, sizeof *a), TG_OK);
    assert_int_equal(tg__owned_room(&o, &b, 10, sizeof *b), TG_OK);
    assert_true(a != b);
    double *const before = a;
    a[9] = 1;
    assert_int_equal(tg__owned_room(&o, &a, 5, sizeof *a), TG_OK);
    assert_true(a == before && a[9] == 1);
    for (size_t n = 11; n < 100000; n *= 3) {
        assert_int_equal(tg__owned_room(&o, &a, n, sizeof *a), TG_OK);
        for (size_t i = 0; i < n; i++)
            assert_true(a[i] == 0);
        a[n - 1] = b[9] = 1;
    }
    double *const largest = a;
    assert_int_equal(tg__owned_room(&o, &a, SIZE_MAX / 4, sizeof *a), TG_E_NOMEM);
    assert_true(a == largest);
    assert_int_equal(tg__owned_room(&o, &none, 0, 1), TG_OK);
    assert_non_null(none);
    assert_int_equal(o.count, 4);
    tg__owned_free(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latest_first),
        cmocka_unit_test(scratch_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

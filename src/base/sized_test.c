/* Callers of older and newer versions: structures that are shorter or longer than the library's. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "base/sized.h"
#include <string.h>

/* One structure in three versions: the first one, this library's, and a newer one. */
typedef struct first_version {
    size_t struct_size;
    uint64_t a;
} first_version;

typedef struct this_version {
    size_t struct_size;
    uint64_t a;
    double b;
} this_version;

typedef struct next_version {
    size_t struct_size;
    uint64_t a;
    double b;
    void *c;
} next_version;

#define FIRST TG__FIRST_SIZE(this_version, a)

static void refused(tg_status status, const char *words)
{
    assert_int_equal(status, TG_E_ARG);
    if (strstr(tg_error(), words) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", tg_error(), words);
}

static tg_status take(this_version *own, const void *from)
{
    return tg__sized_in("f: x", own, sizeof *own, FIRST, from);
}

static void members_that_an_older_caller_lacks_are_zero(void **state)
{
    (void)state;
    struct {
        first_version x;
        uint64_t behind;
    } old = {{.struct_size = sizeof old.x, .a = 7}, UINT64_MAX};
    this_version own = {.b = 3};
    assert_int_equal(take(&own, &old.x), TG_OK);
    assert_int_equal(own.struct_size, sizeof own);
    assert_int_equal(own.a, 7);
    assert_true(own.b == 0);
}

static void members_of_a_newer_caller_must_be_zero(void **state)
{
    (void)state;
    next_version new = {.struct_size = sizeof new, .a = 7, .b = 2};
    this_version own = {0};
    assert_int_equal(take(&own, &new), TG_OK);
    assert_int_equal(own.struct_size, sizeof own);
    assert_true(own.a == 7 && own.b == 2);
    memset((char *)&new.c + 3, 1, 1);
    own.b = 5;
    refused(take(&own, &new), "f: x: byte 27 of 32 is 1: telegrad ");
    refused(tg__sized_check("f: x", &new, sizeof own, FIRST), "byte 27 of 32 is 1");
    assert_true(own.b == 5);
}

static void sizes_have_limits(void **state)
{
    (void)state;
    static const size_t wrong[] = {0, 8, FIRST - 1, TG__STRUCT_MAX + 1, SIZE_MAX};
    union {
        this_version x;
        unsigned char bytes[TG__STRUCT_MAX];
    } given = {.bytes = {0}};
    this_version own;
    for (size_t i = 0; i < TG_COUNT(wrong); i++) {
        given.x.struct_size = wrong[i];
        refused(take(&own, &given), "allowed: 16 to 4096");
        refused(tg__sized_check("f: x", &given, sizeof own, FIRST), "allowed: 16 to 4096");
        refused(tg__sized_room("f: x", &given, FIRST), "allowed: 16 to 4096");
    }
    given.x.struct_size = TG__STRUCT_MAX;
    assert_int_equal(take(&own, &given), TG_OK);
    given.bytes[TG__STRUCT_MAX - 1] = 9;
    refused(take(&own, &given), "byte 4095 of 4096 is 9");
}

static void outputs_fill_what_the_caller_has(void **state)
{
    (void)state;
    const this_version own = {.struct_size = sizeof own, .a = 4, .b = 1.5};
    struct {
        first_version x;
        uint64_t behind;
    } old = {{.struct_size = sizeof old.x}, UINT64_MAX};
    assert_int_equal(tg__sized_room("f: x", &old, FIRST), TG_OK);
    tg__sized_out(&old.x, &own, sizeof own);
    assert_true(old.x.struct_size == sizeof old.x && old.x.a == 4 && old.behind == UINT64_MAX);

    next_version new = {.struct_size = sizeof new, .c = &new};
    assert_int_equal(tg__sized_room("f: x", &new, FIRST), TG_OK); /* whatever its contents */
    tg__sized_out(&new, &own, sizeof own);
    assert_true(new.struct_size == sizeof new &&new.a == 4 && new.b == 1.5 && new.c == NULL);
}

static void arrays_have_entries_of_the_callers_size(void **state)
{
    (void)state;
    const this_version own[2] = {{sizeof *own, 1, 1.5}, {sizeof *own, 2, 2.5}};
    this_version back[3];
    first_version old[3] = {{.struct_size = sizeof *old}, {0}, {.a = 77}};
    assert_int_equal(tg__sized_array("f: x", old, FIRST), TG_OK);
    tg__sized_array_out(old, own, sizeof *own, 2);
    assert_true(old[0].a == 1 && old[1].a == 2 && old[2].a == 77);
    assert_int_equal(old[1].struct_size, sizeof *old);
    assert_int_equal(tg__sized_array_in("f: x", back, sizeof *back, FIRST, old, 3), TG_OK);
    assert_true(back[1].a == 2 && back[1].b == 0 && back[2].a == 77);
    assert_int_equal(back[1].struct_size, sizeof *back);

    next_version new[2] = {{.struct_size = sizeof *new, .c = new}, {.c = new}};
    tg__sized_array_out(new, own, sizeof *own, 2);
    assert_true(new[1].a == 2 && new[1].b == 2.5 && new[1].c == NULL);
    assert_int_equal(tg__sized_array_in("f: x", back, sizeof *back, FIRST, new, 2), TG_OK);
    assert_true(back[1].b == 2.5);
    memset(&new[1].c, 1, 1);
    refused(tg__sized_array_in("f: x", back, sizeof *back, FIRST, new, 2), "f: x[1]: byte ");

    new[0].struct_size = FIRST + 1;
    refused(tg__sized_array("f: x", new, FIRST), "multiples of 8");
    new[0].struct_size = FIRST - 8;
    refused(tg__sized_array("f: x", new, FIRST), "allowed: 16 to 4096");
    tg__sized_array_out(new, own, sizeof *own, 0); /* reads nothing */
}

static void has(void **state)
{
    (void)state;
    this_version x = {.struct_size = sizeof(first_version)};
    assert_true(TG_HAS(this_version, &x, a));
    assert_false(TG_HAS(this_version, &x, b));
    x.struct_size = sizeof x - 1;
    assert_false(TG_HAS(this_version, &x, b));
    x.struct_size++;
    assert_true(TG_HAS(this_version, &x, b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_that_an_older_caller_lacks_are_zero),
        cmocka_unit_test(members_of_a_newer_caller_must_be_zero),
        cmocka_unit_test(sizes_have_limits),
        cmocka_unit_test(outputs_fill_what_the_caller_has),
        cmocka_unit_test(arrays_have_entries_of_the_callers_size),
        cmocka_unit_test(has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The first difference between two lists of settings, and how much of it is shown. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "base/settings.h"
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

static tg__settings of(const char *text)
{
    return (tg__settings){text, strlen(text)};
}

/* a, b: what is shown of each; a NULL: they are equal */
static void expect(const char *one, const char *other, const char *a, const char *b)
{
    tg__unlike u = {{false, false}, {"", ""}};
    const bool differ = tg__settings_differ(of(one), of(other), "except", &u);
    if (differ != (a != NULL) || (a && (strcmp(u.text[0], a) != 0 || strcmp(u.text[1], b) != 0)))
        fail_msg("\"%s\", \"%s\": \"%s\", \"%s\"", one, other, u.text[0], u.text[1]);
    assert_true(!differ || (u.has[0] && u.has[1]));
}

/* Of specs with the same name, the first key whose value differs. */
static void keys(void **state)
{
    (void)state;
    expect("a=1\nb=2\n", "a=1\nb=2\n", NULL, NULL);
    expect("a=1\nexcept=3\nb=2", "a=1\nb=2", NULL, NULL);
    expect("a=1\nb=2\n", "a=1\nb=3\n", "b=2", "b=3");
    expect("m=topk:d=0.1,v=x,k=2", "m=topk:d=0.1,v=xy,k=3", "m=topk:v=x", "m=topk:v=xy");
    expect("m=topk:d=0.1", "m=topk:d=0.15", "m=topk:d=0.1", "m=topk:d=0.15");
    expect("m=topk:d=0.1,k=2", "m=top:d=0.1,k=2", "m=topk", "m=top"); /* other names */
    expect("m=dense", "m=topk:d=0.1", "m=dense", "m=topk");
    expect("r=*.bias=a:k=1", "r=*.bias=b:k=1", "r=*.bias=a:k=1", "r=*.bias=b:k=1");
    expect("m=a:o=[s:x=1,y=2],z=3", "m=a:o=[s:x=1,y=4],z=3", "m=a:o=[s:x=1,y=2]",
           "m=a:o=[s:x=1,y=4]");
    /* others are shown whole */
    expect("m=a:k=1", "m=a:k=1,z=2", "m=a:k=1", "m=a:k=1,z=2");
    expect("m=a:k=1,y=2", "m=a:k=1,z=2", "m=a:k=1,y=2", "m=a:k=1,z=2");
    expect("s=a,b:1", "s=a,c:1", "s=a,b:1", "s=a,c:1");
    expect("one=1", "two=1", "one=1", "two=1");
}

static void missing(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"a=1\nb=2\nc=3", "a=1\nc=3"}, {"a=1\nb=2", "a=1\n"}};
    tg__unlike u;
    for (size_t i = 0; i < 2 * TG_COUNT(pairs); i++) {
        const size_t with = i % 2;
        const tg__settings s[] = {of(pairs[i / 2][0]), of(pairs[i / 2][1])};
        assert_true(tg__settings_differ(s[with], s[1 - with], NULL, &u));
        assert_true(u.has[with] && !u.has[1 - with]);
        assert_string_equal(u.text[with], "b=2");
        assert_string_equal(u.text[1 - with], "b");
    }
    assert_int_equal(tg__settings_find(of("ab=1\nb=23\n"), "b=").len, 4);
    assert_int_equal(tg__settings_find(of("ab=1\n"), "b=").len, 0);
}

/* A difference far into a long line. */
static void long_lines(void **state)
{
    (void)state;
    char a[1000], b[1000];
    tg__unlike u;
    memset(a, 'x', sizeof a);
    memcpy(a, "job=", 4);
    memcpy(b, a, sizeof a);
    b[500] = 'y';
    assert_true(
        tg__settings_differ((tg__settings){a, sizeof a}, (tg__settings){b, sizeof b}, NULL, &u));
    assert_memory_equal(u.text[1], "job=...xxxx", 11);
    assert_int_equal(strlen(u.text[1]), 7 + 200);
    assert_int_equal(strchr(u.text[1], 'y') - u.text[1], 7 + 20);
}

/* Lines of more bytes than an int counts, in pages that are never written. */
static void huge_lines(void **state)
{
    (void)state;
#ifdef TG_SANITIZED
    skip(); /* slow */
#endif
    const size_t at = (size_t)INT_MAX + 1, room = at + 4;
    tg__unlike u;
    char *text = mmap(NULL, room, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (text == MAP_FAILED)
        skip();
    memset(text, 'x', 1000);
    memcpy(text, "k=/", 3);
    memcpy(text + at, ":a=1", 4);
    assert_true(
        tg__settings_differ((tg__settings){text, room}, (tg__settings){text, room - 1}, NULL, &u));
    assert_memory_equal(u.text[0], "k=/xxx", 6);
    assert_string_equal(u.text[0] + 200, "a=1");
    assert_string_equal(u.text[1] + 200, "a=");
    munmap(text, room);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(keys), cmocka_unit_test(missing),
                                       cmocka_unit_test(long_lines), cmocka_unit_test(huge_lines)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

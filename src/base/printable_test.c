/* What is shown of texts of other ranks. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/printable.h"
#include <string.h>

static void texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *shown;
    } cases[] = {
        {"", ""},
        {"rank 1: no memory", "rank 1: no memory"},
        {"na\xc3\xafve \xe4\xb8\xad \xf0\x9f\x98\x80",
         "na\xc3\xafve \xe4\xb8\xad \xf0\x9f\x98\x80"},
        {"\x1b]0;owned\x07", "?]0;owned?"},
        {"a\nb\tc\x7f", "a?b?c?"},
        {"\xc2\x9b"
         "31m",
         "??31m"}, /* a control character of two bytes */
        {"\x9b"
         "31m",
         "?31m"},
        {"\xe2\x80\xae"
         "cod",
         "???cod"}, /* from right to left */
        {"cut \xe4\xb8", "cut ??"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        strcpy(text, cases[i].text);
        assert_true(tg__is_printable(text, strlen(text)) ==
                    (strcmp(cases[i].text, cases[i].shown) == 0));
        tg__make_printable(text);
        assert_string_equal(text, cases[i].shown);
        assert_true(tg__is_printable(text, strlen(text)));
    }
    assert_false(tg__is_printable("a\0b", 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(texts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

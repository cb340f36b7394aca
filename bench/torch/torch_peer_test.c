/* The dialogue with the other process, which a shell plays. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "bench/torch/torch_peer.h"

static void test_long_questions(void **state)
{
    (void)state;
    char question[5001], answer[64];
    torch_peer p;
    assert_int_equal(
        torch_peer_open(
            &p, "sh", (const char *[]){"echo ready 1; while read -r x; do echo ${#x}; done", NULL}),
        TG_OK);
    assert_int_equal(torch_peer_ask(&p, "four", answer, sizeof answer), TG_OK);
    assert_string_equal(answer, "4");
    memset(question, 'x', 5000);
    question[5000] = '\0';
    assert_int_equal(torch_peer_ask(&p, question, answer, sizeof answer), TG_OK);
    assert_string_equal(answer, "5000");
    torch_peer_close(&p);
}

static void test_failures(void **state)
{
    (void)state;
    char answer[64];
    torch_peer p;
    assert_int_equal(torch_peer_open(&p, "sh", (const char *[]){"echo missing it", NULL}), TG_E_IO);
    assert_non_null(strstr(tg_error(), "has no PyTorch (it)"));
    torch_peer_close(&p);
    assert_int_equal(
        torch_peer_open(&p, "sh",
                        (const char *[]){"echo ready 1; read -r x; echo failed too large", NULL}),
        TG_OK);
    assert_int_equal(torch_peer_ask(&p, "one", answer, sizeof answer), TG_E_STATE);
    assert_string_equal(tg_error(), "PyTorch: too large");
    assert_int_equal(torch_peer_ask(&p, "two", answer, sizeof answer), TG_E_STATE);
    assert_string_equal(tg_error(), "PyTorch failed in \"two\"");
    torch_peer_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_questions),
        cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

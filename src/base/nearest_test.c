/* Suggestions for mistyped words. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "telegrad/tools.h"
#include <string.h>

/* The suggestion from words ("a|b") for wanted; "" for none. */
static const char *near(const char *wanted, const char *words)
{
    static tg_nearest n;
    tg_nearest_begin(&n, wanted);
    tg_nearest_offer_list(&n, words);
    return n.word;
}

static void edits_are_counted(void **state)
{
    (void)state;
    static const struct {
        const char *wanted, *words, *meant;
    } cases[] = {
        {"densty", "density|values|warmup", "density"}, /* a letter missing */
        {"densitty", "density", "density"},             /* a letter too many */
        {"dcg", "dense|dgc|csc", "dgc"},                /* swapped letters: one edit */
        {"tarin", "train|data", "train"},
        {"wermup", "density|warmup", "warmup"}, /* a letter changed */
        {"Topk", "dense|topk", "topk"},
        {"top-k", "topk|blocktopk", "topk"},
        {"vgg", "lenet5|vgg11", "vgg11"}, /* wanted is its beginning */
        {"resnet", "vgg11|resnet20|resnet18", "resnet20"},
        {"stratgeies", "methods|strategies", "strategies"},
        {"cd", "cdd|cd", "cd"}, /* fewest edits */
        {"ad", "od|cd", "od"},  /* the first of two */
        {"magic", "dense|topk", ""},
        {"walk", "train|data|advise", ""},
        {"x", "k", ""}, /* no letter is right */
        {"", "k", ""},
        {"k", "", ""},
        {"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvw", "abc", ""},
        {"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstu",
         "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstv",
         "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstv"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(near(cases[i].wanted, cases[i].words), cases[i].meant);
    assert_string_equal(near("dense", NULL), "");
}

static void hint_is_a_question(void **state)
{
    (void)state;
    tg_nearest n;
    tg_nearest_begin(&n, "densty");
    assert_string_equal(tg_nearest_hint(&n), "");
    tg_nearest_offer(&n, "density=", 7);
    assert_string_equal(tg_nearest_hint(&n), "did you mean \"density\"? ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(edits_are_counted),
                                       cmocka_unit_test(hint_is_a_question)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

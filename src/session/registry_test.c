/* What the registry says is complete. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "telegrad/registry.h"
#include <string.h>

enum { LONGEST = 200 };

static void assert_phrase(const char *method, const char *field, const char *text)
{
    if (text == NULL || text[0] == '\0')
        fail_msg("method %s: its card has no \"%s\"", method, field);
    if (strlen(text) > LONGEST || strpbrk(text, "\n`") != NULL)
        fail_msg("method %s: \"%s\": one line of at most %d characters, no code: %s", method, field,
                 LONGEST, text);
}

static void test_every_method_has_a_card(void **state)
{
    (void)state;
    size_t count;
    const tg_entry *const *methods = tg_registry_entries(TG_KIND_METHOD, &count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        const char *name = methods[i]->name;
        const tg_method_card *card = tg_registry_method_card(name);
        assert_non_null(card);
        assert_phrase(name, "summary", methods[i]->summary);
        assert_phrase(name, "sends", card->sends);
        assert_phrase(name, "bits", card->bits);
        assert_phrase(name, "keeps", card->keeps);
        assert_phrase(name, "cost", card->cost);
        assert_phrase(name, "use", card->use);
        assert_phrase(name, "limit", card->limit);
    }
    assert_null(tg_registry_method_card("no such method"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_method_has_a_card)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

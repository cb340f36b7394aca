/* Which exchanges a method can use, and what its help says of them, follow from the exchanges. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "method/method.h"
#include "method/method_keys.h"
#include <stdio.h>
#include <string.h>

static const tg_key *exchange_key(const char *method)
{
    size_t count;
    const tg_entry *const *entries = tg__method_entries(&count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i]->name, method) == 0)
            for (const tg_key *key = entries[i]->keys; key->name != NULL; key++)
                if (strcmp(key->name, "exchange") == 0)
                    return key;
    fail_msg("method %s has no key exchange", method);
    return NULL;
}

static void choices(void **state)
{
    (void)state;
    static const struct {
        const char *method, *choices, *usual;
    } cases[] = {
        {"dense", "direct|ring|halving|allgather|star|auto|none", "direct"},
        {"randomk", "direct|ring|halving|allgather|star|auto|none", "direct"},
        {"powersgd", "direct|ring|halving|allgather|star|auto|none", "direct"},
        {"efsign", "allgather|direct|star|twoway|auto|none", "allgather"},
        {"topk", "allgather|direct|reducescatter|gtopk|star|twoway|auto|none", "allgather"},
        {"qsgd", "allgather|direct|reducescatter|star|twoway|auto|none", "allgather"},
        {"int8", "allgather|direct|ring|reducescatter|star|twoway|auto|none", "allgather"},
        {"atomo", "allgather|auto|none", "allgather"},
    };
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        const tg_key *key = exchange_key(cases[i].method);
        assert_string_equal(key->choices, cases[i].choices);
        assert_string_equal(key->def, cases[i].usual);
    }
}

/* Whatever a method sends, it can be summed, and there is room for all texts. */
static void all_that_can_be_sent(void **state)
{
    (void)state;
    size_t count;
    const tg__exchange_ops *const *all = tg__exchanges(&count);
    tg__exchange_keys();
    for (unsigned sends = 1; sends <= TG__SUMS_ALL; sends++) {
        char list[512] = "|";
        size_t sums = 0;
        strncat(list, tg__exchange_choices[sends], sizeof list - 2);
        strcat(list, "|");
        assert_non_null(strstr(list, "|auto|"));
        for (size_t i = 0; i < count; i++) {
            char name[64];
            snprintf(name, sizeof name, "|%s|", all[i]->entry.name);
            assert_int_equal(strstr(list, name) != NULL, (all[i]->sums & sends) != 0);
            snprintf(name, sizeof name, "%s: ", all[i]->entry.name);
            if (!(all[i]->sums & sends))
                continue;
            assert_non_null(strstr(tg__exchange_help[sends], name));
            assert_non_null(strstr(tg__exchange_help[sends], all[i]->brief));
            sums += !all[i]->apart;
        }
        assert_true(sums > 0);
    }
}

static void specs(void **state)
{
    (void)state;
    tg_spec *spec;
    const tg__method_def *def;
    assert_int_equal(tg__method_parse("topk:exchange=none", &spec, &def), TG_OK);
    assert_true(tg__method_is_apart(spec));
    tg_spec_free(spec);
    assert_int_equal(tg__method_parse("topk:exchange=auto", &spec, &def), TG_OK);
    assert_false(tg__method_is_apart(spec));
    tg_spec_free(spec);
    assert_int_equal(tg__method_parse("atomo:exchange=direct", &spec, &def), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "exchange=direct: allowed: allgather, auto, none"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices),
        cmocka_unit_test(all_that_can_be_sent),
        cmocka_unit_test(specs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The registry's entries are complete. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "comma_locale.h"
#include "one_tensor.h"
#include "telegrad/codec.h"
#include "telegrad/optimizer.h"
#include "telegrad/registry.h"
#include "telegrad/transport.h"
#include <stdio.h>
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
        assert_int_equal(card->struct_size, sizeof *card);
        assert_phrase(name, "summary", methods[i]->summary);
        assert_phrase(name, "sends", card->sends);
        assert_phrase(name, "bits", card->bits);
        assert_phrase(name, "keeps", card->keeps);
        assert_phrase(name, "cost", card->cost);
        assert_phrase(name, "use", card->use);
        assert_phrase(name, "limit", card->limit);
        assert_phrase(name, "family", card->family);
    }
    assert_null(tg_registry_method_card("no such method"));
}

/* Published combinations of strategy and method need only one name. */
static void test_methods_of_strategies(void **state)
{
    (void)state;
    static const struct {
        const char *strategy, *method;
    } cases[] = {{"demo", "dct"},
                 {"sparseloco", "blocktopk"},
                 {"sparseloco:every=4", "blocktopk"},
                 {"sparse", "dense"},
                 {"ssgd", "dense"},
                 {"cd:k=5", "2bit"},
                 {"od", "dense"},
                 {"", "dense"},
                 {NULL, "dense"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(tg_registry_strategy_method(cases[i].strategy), cases[i].method);
    size_t count;
    const tg_entry *const *strategies = tg_registry_entries(TG_KIND_STRATEGY, &count);
    for (size_t i = 0; i < count; i++)
        assert_non_null(tg_registry_method_card(tg_registry_strategy_method(strategies[i]->name)));
}

/* Adam and momentum need each rank's own gradients if methods send them in parts. */
static void test_default_strategies(void **state)
{
    (void)state;
    static const struct {
        const char *method, *optimizer, *strategy;
    } cases[] = {{"topk:density=0.1", "adamw:lr=0.001", "updates"},
                 {"2bit", "adam", "updates"},
                 {"powersgd", "adamw", "ssgd"},
                 {"cltk", "adamw", "updates"},
                 {"strom", "adam", "updates"},
                 {"1bit:threshold=mean", "adam", "updates"},
                 {"qsgd:feedback=residual", "adamw", "ssgd"},
                 {"topk:density=1", "adamw", "ssgd"},
                 {"2bit:threshold=0.5", "adamw", "ssgd"},
                 {"qsgd", "adamw", "ssgd"},
                 {"topk:feedback=none", "adamw", "ssgd"},
                 {"dense", "adamw", "ssgd"},
                 {"signum", "adamw", "ssgd"},
                 {"dgc", "adamw", "ssgd"},
                 {"fetchsgd", "adamw", "ssgd"},
                 {"topk", "sgd:momentum=0.9", "updates"},
                 {"efsign", "sgd:momentum=0.5,nesterov=yes", "updates"},
                 {"topk", "sgd:momentum=0", "ssgd"},
                 {"powersgd", "sgd:momentum=0.9", "ssgd"},
                 {"qsgd", "sgd:momentum=0.9", "ssgd"},
                 {"topk", "lars", "ssgd"},
                 {"topk", "external", "ssgd"},
                 {"topk", NULL, "ssgd"},
                 {NULL, "adamw", "ssgd"},
                 {"topp", "adamw", "ssgd"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(
            tg_registry_default_strategy(cases[i].method, NULL, 0, cases[i].optimizer),
            cases[i].strategy);
    const char *const rules[] = {"*.bias=dense", "*.weight=topk", "*.gamma=signsgd"};
    assert_string_equal(tg_registry_default_strategy("dense", rules, 1, "adamw"), "ssgd");
    assert_string_equal(tg_registry_default_strategy("dense", rules, 2, "adamw"), "updates");
    assert_string_equal(tg_registry_default_strategy("topk", rules, 3, "adamw"), "ssgd");
    assert_string_equal(tg_registry_default_strategy("2bit", rules, 2, "sgd"), "ssgd");
}

static void test_optimizers_of_strategies(void **state)
{
    (void)state;
    assert_string_equal(tg_registry_strategy_optimizer("demo"), "sgd:lr=0.001");
    assert_null(tg_registry_strategy_optimizer("ssgd"));
    assert_null(tg_registry_strategy_optimizer("cd:k=5"));
    assert_null(tg_registry_strategy_optimizer("demon"));
    assert_null(tg_registry_strategy_optimizer(NULL));
}

/* A learning-rate hint is complete, and its factor is within the range known to train. */
static void test_rate_hints(void **state)
{
    (void)state;
    static const tg_kind kinds[] = {TG_KIND_METHOD, TG_KIND_STRATEGY};
    for (size_t k = 0; k < 2; k++) {
        size_t count;
        const tg_entry *const *entries = tg_registry_entries(kinds[k], &count);
        for (size_t i = 0; i < count; i++) {
            const tg_rate_hint *hint = tg_registry_rate_hint(kinds[k], entries[i]->name);
            if (hint == NULL)
                continue;
            assert_int_equal(hint->struct_size, sizeof *hint);
            assert_true(hint->factor > 0 || hint->expect != NULL || hint->methods ||
                        hint->dense != NULL);
            assert_true(hint->factor == 0 ||
                        (hint->low <= hint->factor && hint->factor <= hint->high));
            if (hint->expect != NULL)
                assert_phrase(entries[i]->name, "expect", hint->expect);
            tg_spec *spec;
            assert_int_equal(tg_registry_parse(kinds[k], entries[i]->name, &spec), TG_OK);
            assert_true(hint->key == NULL || tg_spec_has(spec, hint->key));
            const char *conditions[] = {hint->dense_if, hint->unless};
            for (size_t c = 0; c < 2; c++) {
                char key[32];
                if (conditions[c] != NULL) {
                    assert_int_equal(sscanf(conditions[c], "%31[a-z_]=%*u", key), 1);
                    assert_true(tg_spec_has(spec, key));
                }
            }
            tg_spec_free(spec);
            assert_true((hint->instead != NULL) == (hint->expect != NULL));
        }
    }
    const tg_rate_hint *hint = tg_registry_rate_hint(TG_KIND_METHOD, "randomk:density=0.05");
    assert_ptr_equal(hint, tg_registry_rate_hint(TG_KIND_METHOD, "randomk"));
    assert_true(hint->factor == 1 && hint->plain);
    assert_true(tg_registry_rate_hint(TG_KIND_METHOD, "signsgd")->factor == 0.02);
    assert_non_null(tg_registry_rate_hint(TG_KIND_STRATEGY, "eager:every=3")->expect);
    assert_non_null(tg_registry_rate_hint(TG_KIND_STRATEGY, "od:warmup=2")->dense);
    assert_string_equal(tg_registry_rate_hint(TG_KIND_STRATEGY, "cd")->dense_if, "k=1");
    assert_null(tg_registry_rate_hint(TG_KIND_METHOD, "dense"));
    assert_null(tg_registry_rate_hint(TG_KIND_METHOD, "random"));
    assert_null(tg_registry_rate_hint(TG_KIND_METHOD, "eager"));
    assert_null(tg_registry_rate_hint(TG_KIND_STRATEGY, "ssgd"));
    assert_null(tg_registry_rate_hint(TG_KIND_CODEC, "sign"));
    assert_null(tg_registry_rate_hint(TG_KIND_METHOD, NULL));
    assert_null(tg_registry_rate_hint(TG_KIND_STRATEGY, ""));
}

/* ---- locales --------------------------------------------------------------------------------- */

enum { ANSWER = 2000 };

static tg_status begin(const char *method, const char *strategy, char *specs, size_t room)
{
    enum { N = 64 };
    float w[N] = {0}, g[N] = {0};
    uint32_t id;
    tg_session *s = NULL;
    tg_transport *t;
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = method,
                                      .strategy = strategy,
                                      .optimizer = "sgd:lr=0.25",
                                      .driver = TG_DRIVER_INLINE,
                                      .timeout_ms = 1000};
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    tg_status status = tg_session_create(&config, t, &s);
    if (status == TG_OK)
        status = one_tensor_begin(s, w, g, N, &id);
    if (status == TG_OK)
        snprintf(specs, room, "%s %s", tg_session_spec(s, TG_KIND_METHOD),
                 tg_session_spec(s, TG_KIND_STRATEGY));
    tg_session_destroy(s);
    tg_transport_destroy(t);
    return status;
}

static tg_status create(tg_kind kind, const char *spec, char *specs, size_t room)
{
    tg_codec *codec = NULL;
    tg_optimizer *optimizer = NULL;
    tg_lr_schedule *schedule = NULL;
    tg_status status = TG_OK;
    switch (kind) {
    case TG_KIND_METHOD:
        return begin(spec, NULL, specs, room);
    case TG_KIND_STRATEGY:
        return begin(NULL, spec, specs, room);
    case TG_KIND_CODEC:
        status = tg_codec_create(spec, &codec);
        break;
    case TG_KIND_OPTIMIZER:
        status = tg_optimizer_create(spec, &optimizer);
        break;
    case TG_KIND_LR_SCHEDULE:
        status = tg_lr_schedule_create(spec, 0.25, 100, 10, &schedule);
        if (status == TG_OK)
            snprintf(specs, room, "%s", tg_lr_schedule_text(schedule));
        break;
    default: /* a feedback or an exchange is created with a method */
        break;
    }
    tg_codec_destroy(codec);
    tg_optimizer_destroy(optimizer);
    tg_lr_schedule_destroy(schedule);
    return status;
}

/* What an entry becomes, with its defaults and with all of them written out. */
static void ask(tg_kind kind, const char *name, char answer[ANSWER])
{
    tg_spec *spec;
    char specs[2][600] = {"", ""};
    assert_int_equal(tg_registry_parse(kind, name, &spec), TG_OK);
    const char *const text[] = {name, tg_spec_text(spec)};
    for (size_t i = 0; i < 2; i++) {
        const tg_status status = create(kind, text[i], specs[i], sizeof specs[i]);
        if (status != TG_OK)
            snprintf(specs[i], sizeof specs[i], "%s: %s", tg_status_name(status), tg_error());
    }
    snprintf(answer, ANSWER, "%s|%s|%s", tg_spec_text(spec), specs[0], specs[1]);
    tg_spec_free(spec);
}

/* Ask every entry, and keep the answers or compare them with those that were kept. */
static void ask_all(char (*answers)[ANSWER], size_t room, bool compare)
{
    size_t at = 0, count;
    for (tg_kind kind = 0; kind < TG_KIND_COUNT; kind++) {
        const tg_entry *const *entries = tg_registry_entries(kind, &count);
        assert_true(at + count <= room);
        for (size_t i = 0; i < count; i++, at++) {
            char answer[ANSWER];
            ask(kind, entries[i]->name, compare ? answer : answers[at]);
            if (compare)
                assert_string_equal(answer, answers[at]);
        }
    }
}

/* Every entry is the same in a locale with a decimal comma. */
static void test_locales(void **state)
{
    (void)state;
    enum { MOST = 200 };
    char(*answers)[ANSWER] = test_calloc(MOST, sizeof *answers);
    ask_all(answers, MOST, false);
    const bool commas = comma_locale_enter();
    if (commas)
        ask_all(answers, MOST, true);
    comma_locale_leave();
    test_free(answers);
    if (!commas)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_method_has_a_card),
                                       cmocka_unit_test(test_methods_of_strategies),
                                       cmocka_unit_test(test_default_strategies),
                                       cmocka_unit_test(test_optimizers_of_strategies),
                                       cmocka_unit_test(test_rate_hints),
                                       cmocka_unit_test(test_locales)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Any text as a spec string for everything in the registry. It is refused with a message, or
 * accepted; then its normal form is accepted and has the same normal form. */
#include "base/mem.h"
#include "strategy/strategy.h"
#include "telegrad/codec.h"
#include "telegrad/registry.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_refused(tg_status status)
{
    if ((status != TG_E_SPEC && status != TG_E_NOMEM) || !*tg_error())
        abort();
}

static void try_parse(const char *kind, const tg_entry *const *entries, size_t count,
                      const char *text)
{
    tg_spec *spec, *again;
    tg_status status = tg_spec_parse(kind, entries, count, text, &spec);
    if (status != TG_OK) {
        check_refused(status);
        return;
    }
    if (tg_spec_parse(kind, entries, count, tg_spec_text(spec), &again) != TG_OK ||
        strcmp(tg_spec_text(spec), tg_spec_text(again)) != 0)
        abort();
    tg_spec_free(again);
    tg_spec_free(spec);
}

static void try_strategy(const char *text)
{
    tg_optimizer *optimizer;
    tg__strategy *s;
    tg__wtensor tensor = {.n = 3};
    if (tg_optimizer_create("sgd:momentum=0.9", &optimizer) != TG_OK)
        abort();
    const tg__strategy setup = {.optimizer = optimizer,
                                .steps_per_epoch = 10,
                                .size = 2,
                                .tensor = &tensor,
                                .ntensors = 1,
                                .nbuckets = 1};
    tg_status status = tg__strategy_create(text, &setup, &s);
    if (status == TG_OK)
        tg__strategy_destroy(s);
    else
        check_refused(status);
    tg_optimizer_destroy(optimizer);
}

static void try_optimizer(const char *text)
{
    tg_optimizer *o;
    tg_status status = tg_optimizer_create(text, &o);
    if (status == TG_OK)
        tg_optimizer_destroy(o);
    else
        check_refused(status);
}

static void try_codec(const char *text)
{
    tg_codec *c;
    tg_status status = tg_codec_create(text, &c);
    if (status == TG_OK)
        tg_codec_destroy(c);
    else
        check_refused(status);
}

static void try_lr_schedule(const char *text)
{
    tg_lr_schedule *s;
    tg_status status = tg_lr_schedule_create(text, 0.1, 100, 10, &s);
    if (status != TG_OK) {
        check_refused(status);
        return;
    }
    for (uint64_t t = 0; t < 110; t++)
        if (!(tg_lr_schedule_at(s, t) >= 0 && tg_lr_schedule_at(s, t) <= 0.1 * (1 + 1e-12)))
            abort();
    tg_lr_schedule_destroy(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    if (size)
        memcpy(text, data, size);
    text[size] = '\0';
    size_t count;
    for (int kind = 0; kind < TG_KIND_COUNT; kind++) {
        const tg_entry *const *entries = tg_registry_entries((tg_kind)kind, &count);
        try_parse(tg_kind_name((tg_kind)kind), entries, count, text);
    }
    try_codec(text);
    try_strategy(text);
    try_optimizer(text);
    try_lr_schedule(text);
    free(text);
    return 0;
}

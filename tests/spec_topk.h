/* For tests of spec strings: a method that has keys of all types, and one that has none. */
#ifndef TG_SPEC_TOPK_H
#define TG_SPEC_TOPK_H

#include "base/mem.h"
#include "base/spec_value.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const tg_key topk_keys[] = {
    {.name = "density", .type = TG_KEY_REAL, .def = "0.01", .max = 1, .min_open = true},
    {.name = "values", .type = TG_KEY_CHOICE, .def = "f32", .choices = "f32|f16|bf16"},
    {.name = "warmup", .type = TG_KEY_DURATION, .def = "0", .max = INFINITY},
    {.name = "exact", .type = TG_KEY_FLAG, .def = "no"},
    {.name = "k", .type = TG_KEY_INT, .min = 1, .max = INFINITY},
    {.name = "inner", .type = TG_KEY_SPEC},
    {.name = "any", .type = TG_KEY_REAL, .min = -INFINITY, .max = INFINITY},
    {.name = "count", .type = TG_KEY_INT, .min = -INFINITY, .max = INFINITY},
    {.name = "low", .type = TG_KEY_INT, .min = -INFINITY, .max = 4294967295},
    {.name = "period", .type = TG_KEY_DURATION, .min = 1, .max = 100},
    {0}};
static const tg_entry topk = {.name = "topk", .keys = topk_keys};
static const tg_entry dense = {.name = "dense"};
static const tg_entry *const entries[] = {&dense, &topk};

static inline tg_spec *parse(const char *text)
{
    tg_spec *spec = NULL;
    if (tg_spec_parse("method", entries, 2, text, &spec) != TG_OK)
        fail_msg("%s", tg_error());
    return spec;
}

static inline void assert_refused(const char *text, const char *want)
{
    tg_spec *spec = NULL;
    assert_int_equal(tg_spec_parse("method", entries, 2, text, &spec), TG_E_SPEC);
    assert_null(spec);
    assert_string_equal(tg_error(), want);
}

/* The same for a value: the message begins with the method's name. */
static inline void assert_value_refused(const char *text, const char *want)
{
    char full[512];
    snprintf(full, sizeof full, "method \"topk\": %s", want);
    assert_refused(text, full);
}

#endif

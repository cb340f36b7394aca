/* Models for tokens: their tensors, and the specs that are refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>
#include "trainer/model/model.h"
#include "telegrad/random.h"
#include "telegrad/registry.h"

#define OK(expr) assert_int_equal((expr), TG_OK)

enum { CLASSES = 11, CONTEXT = 6, BATCH = 4, TOKENS = BATCH * CONTEXT };

static const model_input input = {.context = CONTEXT, .classes = CLASSES};
static const model_pass training = {.training = true};

/* Tokens of a stream, with the next token as the label of each. */
static void fill(int32_t *x, int32_t *labels, size_t n)
{
    const tg_rng_key key = {.seed = 3, .purpose = TG_PURPOSE_TEST};
    for (size_t i = 0; i <= n; i++) {
        const int32_t token = (int32_t)(tg_rng_uniform(&key, i) * CLASSES);
        if (i < n)
            x[i] = token;
        if (i > 0)
            labels[i - 1] = token;
    }
}

static model *create(const char *spec, size_t batch, size_t context)
{
    const model_input in = {.context = context, .classes = CLASSES};
    model *m;
    OK(model_create(spec, &in, batch, 5, &m));
    return m;
}

static model_result forward(model *m, const int32_t *x, const int32_t *labels, size_t count)
{
    const model_batch batch = {.tokens = x, .labels = labels, .count = count};
    model_result result;
    OK(model_forward(m, &batch, &training, NULL, &result));
    return result;
}

static tg_status on_write(void *arg, size_t tensor)
{
    if (tensor == 0)
        *(int *)arg = *(int *)arg * 10 + 1;
    return TG_OK;
}
static tg_status on_ready(void *arg, size_t tensor)
{
    *(int *)arg = *(int *)arg * 10 + (tensor == 0 ? 3 : 2);
    return TG_OK;
}

static void check_tensor(const model *m, size_t t, const char *name, size_t rows, size_t columns)
{
    assert_string_equal(m->tensors[t].name, name);
    assert_int_equal(m->tensors[t].shape[0], rows);
    assert_int_equal(m->tensors[t].ndim, columns ? 2 : 1);
    assert_int_equal(m->tensors[t].n, rows * (columns ? columns : 1));
}

static double deviation(const model *m, size_t t)
{
    const float *w = m->params + m->tensors[t].offset;
    double squares = 0;
    for (size_t i = 0; i < m->tensors[t].n; i++)
        squares += (double)w[i] * (double)w[i];
    return sqrt(squares / (double)m->tensors[t].n);
}

static void test_tensors(void **state)
{
    (void)state;
    const model_input words = {.context = 2, .classes = 33278},
                      characters = {.context = 128, .classes = 65};
    model *m;
    OK(model_create("lstm", &words, 1, 1, &m));
    assert_int_equal(m->params_total, 7332078);
    assert_int_equal(m->ntensors, 10);
    check_tensor(m, 0, "encoder.weight", 33278, 200);
    check_tensor(m, 5, "rnn.weight_ih_l1", 800, 200);
    check_tensor(m, 6, "rnn.weight_hh_l1", 800, 200);
    check_tensor(m, 8, "rnn.bias_hh_l1", 800, 0);
    check_tensor(m, 9, "decoder.bias", 33278, 0);
    assert_true(fabs(deviation(m, 0) / (0.1 / sqrt(3)) - 1) < 0.01);
    assert_true(fabs(deviation(m, 6) / sqrt(1.0 / 600) - 1) < 0.01);
    assert_true(deviation(m, 8) > 0 && deviation(m, 9) == 0);
    model_destroy(m);

    OK(model_create("gpt:context=128", &characters, 1, 1, &m));
    assert_int_equal(m->params_total, 818048);
    assert_int_equal(m->ntensors, 2 + 4 * 12 + 2);
    assert_int_equal(m->nstate, 0);
    check_tensor(m, 0, "transformer.wte.weight", 65, 128);
    check_tensor(m, 1, "transformer.wpe.weight", 128, 128);
    check_tensor(m, 4, "transformer.h.0.attn.c_attn.weight", 384, 128);
    check_tensor(m, 6, "transformer.h.0.attn.c_proj.weight", 128, 128);
    check_tensor(m, 51, "transformer.ln_f.bias", 128, 0);
    assert_true(fabs(deviation(m, 4) / 0.02 - 1) < 0.02);
    assert_true(fabs(deviation(m, 6) / (0.02 / sqrt(8)) - 1) < 0.03);
    model_destroy(m);

    /* A shared weight is first written and last ready. */
    int order = 0;
    int32_t x[TOKENS], labels[TOKENS];
    fill(x, labels, TOKENS);
    m = create("lstm:layers=1,hidden=4,embed=4", BATCH, CONTEXT);
    const model_hooks hooks = {.arg = &order, .grad_write = on_write, .grad_ready = on_ready};
    forward(m, x, labels, BATCH);
    OK(model_backward(m, &hooks));
    assert_int_equal(order, 1222223);
    model_destroy(m);
}

/* The context given in a spec is also that of its data. */
static void test_usual_data(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *data;
        size_t context;
    } cases[] = {{"gpt", "shakespeare", 128},
                 {"gpt:context=64", "shakespeare", 64},
                 {"lstm", "wikitext-2", 35}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *data;
        model_input in;
        model *m;
        OK(model_usual_data(cases[i].spec, &data, &in));
        assert_string_equal(data, cases[i].data);
        assert_int_equal(in.context, cases[i].context);
        OK(model_create(cases[i].spec, &in, 1, 1, &m));
        model_destroy(m);
    }
}

/* What a model names is an optimizer with a rate of its own. */
static void test_usual_optimizer(void **state)
{
    (void)state;
    size_t count, named = 0;
    const tg_entry *const *entries = model_entries(&count);
    const char *text;
    tg_spec *spec;
    for (size_t i = 0; i < count; i++) {
        OK(model_usual_optimizer(entries[i]->name, &text));
        if (text == NULL)
            continue;
        OK(tg_registry_parse(TG_KIND_OPTIMIZER, text, &spec));
        assert_true(tg_spec_given(spec, "lr"));
        tg_spec_free(spec);
        named++;
    }
    assert_int_equal(named, 2);
    OK(model_usual_optimizer("gpt:layers=1", &text));
    assert_string_equal(text, "adamw:lr=0.001,weight_decay=0.1");
    OK(model_usual_optimizer("lenet5", &text));
    assert_null(text);
    assert_int_equal(model_usual_optimizer("lenet6", &text), TG_E_SPEC);
}

static void test_refused(void **state)
{
    (void)state;
    const model_input images = {28, 28, 1, 0, 10, false};
    model *m;
    assert_int_equal(model_create("lstm:hidden=8,embed=4", &input, 2, 1, &m), TG_E_SPEC);
    assert_non_null(strstr(tg_error(), "hidden=8, embed=4"));
    assert_int_equal(model_create("gpt:embed=10,heads=4", &input, 2, 1, &m), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "4 heads"));
    assert_int_equal(model_create("gpt:context=5", &input, 2, 1, &m), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "has 6 tokens"));
    assert_int_equal(model_create("lstm", &images, 2, 1, &m), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "images"));
    assert_int_equal(model_create("gpt", &images, 2, 1, &m), TG_E_ARG);
    assert_int_equal(model_create("lenet5", &input, 2, 1, &m), TG_E_ARG);

    int32_t x[TOKENS], labels[TOKENS];
    fill(x, labels, TOKENS);
    m = create("lstm:hidden=12,embed=12", BATCH, CONTEXT);
    const model_batch batch = {.tokens = x, .labels = labels, .count = BATCH};
    model_result result;
    for (int i = 0; i < 2; i++) {
        x[7] = i ? -1 : CLASSES;
        assert_int_equal(model_forward(m, &batch, &training, NULL, &result), TG_E_ARG);
        assert_non_null(strstr(tg_error(), "token 8 of the batch"));
    }
    model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors), cmocka_unit_test(test_usual_data),
        cmocka_unit_test(test_usual_optimizer), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The graph: descriptions and passes that make no sense. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "trainer/model/net_fixture.h"
#include "telegrad/tools.h"

static net_value unused(net *n)
{
    dense(n, net_input(n), "a");
    return dense(n, net_input(n), "b");
}

static net_value too_many_readers(net *n)
{
    const net_value v = dense(n, net_input(n), "a");
    net_value sum = v;
    for (int i = 0; i < NET_SOURCES; i++)
        sum = net_add(n, sum, tanh_of(n, v), false);
    return sum;
}

static net_value unlike(net *n)
{
    return net_add(n, net_input(n), dense(n, net_input(n), "a"), false);
}

static net_value unlike_shortcut(net *n)
{
    return net_batchnorm_add(n, dense(n, net_input(n), "a"), net_input(n), "bn");
}

static net_value input_shortcut(net *n)
{
    const net_value v = net_dense(n, net_input(n), "a", (net_dense_spec){.out = 2, .bias = true});
    return net_batchnorm_add(n, v, net_input(n), "bn");
}

static net_value fewer_channels(net *n)
{
    return net_shortcut(n, dense(n, net_input(n), "a"), 4);
}

static net_value large_kernel(net *n)
{
    return net_conv(n, net_input(n), "conv", (net_conv_spec){4, 8, 1, 1, true, {0}});
}

static net_value large_window(net *n)
{
    return net_maxpool(n, net_input(n), 4);
}

static net_value all_dropped(net *n)
{
    return net_dropout(n, net_input(n), 1);
}

static net_value not_shared(net *n)
{
    return gain(n, net_input(n), "w", true, false);
}

/* (5, 2) where (4, 5) is needed. */
static net_value tied_to_another_shape(net *n)
{
    const net_value v = dense(n, net_input(n), "a");
    return net_dense_tied(n, v, "b", "a", (net_dense_spec){.out = 4});
}

/* The first failure is the one that is told. */
static net_value two_failures(net *n)
{
    return net_maxpool(n, net_dropout(n, net_input(n), -1), 9);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        describe f;
        const char *says;
    } cases[] = {
        {unused, "not used"},
        {too_many_readers, "more than 8"},
        {unlike, "3 x 3 x 2"},
        {unlike_shortcut, "bn"},
        {input_shortcut, "input"},
        {fewer_channels, "from 5 channels to 4"},
        {large_kernel, "images of 3 x 3 with 1"},
        {large_window, "window of 4"},
        {all_dropped, "dropout=1"},
        {not_shared, "w.weight"},
        {two_failures, "dropout=-1"},
        {tied_to_another_shape, "a.weight"},
    };
    for (size_t i = 0; i < TG_COUNT(cases); i++) {
        net *n;
        model *m = NULL;
        OK(net_create(&input, 2, &n));
        const net_value last = net_flatten(n, cases[i].f(n));
        assert_int_equal(net_model(n, out(n, last), 1, &m), TG_E_ARG);
        if (!strstr(tg_error(), cases[i].says))
            fail_msg("case %zu: \"%s\" does not say \"%s\"", i, tg_error(), cases[i].says);
        assert_null(m);
    }
    net *n;
    model *m;
    OK(net_create(&input, 2, &n)); /* logits of the wrong shape */
    assert_int_equal(net_model(n, dense(n, net_input(n), "a"), 1, &m), TG_E_ARG);
    OK(net_create(&(model_input){.context = 5, .classes = 4}, 2, &n));
    assert_int_equal(net_model(n, dense(n, net_image_input(n), "a"), 1, &m), TG_E_ARG);
    assert_non_null(strstr(tg_error(), "tokens"));
}

static void test_passes_refused(void **state)
{
    (void)state;
    model *m = make(two_readers, 2);
    model_result result;
    const model_pass pass = {.training = true};
    model_batch batch = {.x = x, .labels = labels, .count = 3};
    assert_int_equal(model_forward(m, &batch, &pass, NULL, &result), TG_E_ARG);
    batch.count = 0;
    assert_int_equal(model_forward(m, &batch, &pass, NULL, &result), TG_E_ARG);
    batch = (model_batch){.tokens = labels, .labels = labels, .count = 2};
    assert_int_equal(model_forward(m, &batch, &pass, NULL, &result), TG_E_ARG);
    batch = (model_batch){.x = x, .labels = labels, .count = 2};
    assert_int_equal(model_forward(m, &batch,
                                   &(model_pass){.training = true, .part = 2, .parts = 2}, NULL,
                                   &result),
                     TG_E_ARG);
    assert_int_equal(model_backward(m, NULL), TG_E_STATE);
    model_destroy(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_passes_refused),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}

/* The steps that are timed are real steps: the loss falls, with and without a session. */
#include "trainer/loop/trainer_ranks.h"
#include "trainer/model/model.h"

static train_bench *make(const char *name, size_t batch, tg_transport *t)
{
    train_bench *b = NULL;
    if (train_bench_create(name, batch, TRAIN_FP32, t, &b) != TG_OK)
        fail_msg("%s: %s", name, tg_error());
    return b;
}

static void every_model_learns_its_batch(void **state)
{
    (void)state;
    size_t count;
    const tg_entry *const *models = model_entries(&count);
    for (size_t i = 0; i < count; i++) {
        size_t batch[4], batches;
        OK(train_bench_batches(models[i]->name, 4, batch, &batches));
        assert_in_range(batches, 1, 4);
        train_bench *b = make(models[i]->name, 2, NULL);
        const train_bench_info info = train_bench_about(b);
        assert_int_equal(info.batch, 2);
        assert_true(info.params > 0 && info.flops > 0);
        assert_true((info.context == 0) == (info.height > 0));
        double first, last = NAN;
        OK(train_bench_step(b, &first));
        for (int s = 0; s < 5; s++)
            OK(train_bench_step(b, &last));
        /* The state of the LSTM moves its loss more than so small a rate does. */
        const bool carries = strcmp(models[i]->name, "lstm") == 0;
        if (carries ? fabs(last - first) > 0.01 : !(last < first))
            fail_msg("%s: loss %g, then %g", models[i]->name, first, last);
        train_bench_destroy(b);
    }
}

static void a_session_of_one_does_the_same(void **state)
{
    (void)state;
    tg_transport *t;
    OK(tg_transport_inproc(1, &t));
    train_bench *alone = make("mlp", 8, NULL), *rank = make("mlp", 8, t);
    for (int s = 0; s < 4; s++) {
        double x, y;
        OK(train_bench_step(alone, &x));
        OK(train_bench_step(rank, &y));
        assert_true(x == y);
    }
    train_bench_destroy(alone);
    train_bench_destroy(rank);
    tg_transport_destroy(t);
}

static void bad_models_are_refused(void **state)
{
    (void)state;
    train_bench *b = NULL;
    size_t batch, count;
    assert_int_equal(train_bench_create("nosuch", 1, TRAIN_FP32, NULL, &b), TG_E_SPEC);
    assert_int_equal(train_bench_create("mlp:hidden=0", 1, TRAIN_FP32, NULL, &b), TG_E_SPEC);
    assert_int_equal(train_bench_create("mlp", 0, TRAIN_FP32, NULL, &b), TG_E_ARG);
    assert_int_equal(train_bench_batches("nosuch", 1, &batch, &count), TG_E_SPEC);
    assert_null(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_learns_its_batch),
        cmocka_unit_test(a_session_of_one_does_the_same),
        cmocka_unit_test(bad_models_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

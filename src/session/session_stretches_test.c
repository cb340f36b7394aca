/* Strategies work on a tensor stretch by stretch (strategy.h). Where a tensor is cut does not
 * change the bits: a long tensor and a short one are trained like two of other lengths. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include "two_tensors.h"
#include "telegrad/transport.h"
#include <stdlib.h>

enum { N = 140000, LONG = N - 100, STEPS = 9 };

static void draw(void *arg, int step)
{
    float *g = arg;
    const tg_rng_key key = {.seed = 5, .purpose = TG_PURPOSE_TEST, .step = (uint64_t)step};
    for (size_t i = 0; i < N; i++)
        g[i] = (float)(tg_rng_uniform(&key, i) - 0.5);
}

/* Train with tensors of `first` elements and of the rest. */
static void train(const char *strategy, const char *optimizer, size_t first, float *w, float *g)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method =
                                          "dense", /* others may look at a tensor as a whole */
                                      .strategy = strategy,
                                      .optimizer = optimizer,
                                      .steps_per_epoch = 3};
    const two_tensors two = {first, 1, N - first, STEPS, w, g, draw, g};
    tg_transport *t;
    uint64_t hash;
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    if (two_tensors_train(&two, &config, t, &hash) != TG_OK)
        fail_msg("%s, %s: %s", strategy, optimizer, tg_error());
    tg_transport_destroy(t);
}

static void cuts_do_not_matter(void **state)
{
    static const char *const strategies[] = {"ssgd",
                                             "od:warmup=1",
                                             "cd:warmup=1,k=3",
                                             "dga:delay=2",
                                             "dga:delay=2,every=2",
                                             "local:every=2",
                                             "diloco:every=2",
                                             "eager:every=2",
                                             "fedavg:every=2",
                                             "updates",
                                             "cd:warmup=1,k=3,average=updates"};
    static const char *const optimizers[] = {"sgd:lr=0.1,momentum=0.9", "adam:lr=0.01"};
    float *w = malloc(N * sizeof *w), *other = malloc(N * sizeof *other),
          *g = malloc(N * sizeof *g);
    (void)state;
    assert_true(w != NULL && other != NULL && g != NULL);
    for (size_t s = 0; s < TG_COUNT(strategies); s++)
        for (size_t o = 0; o < TG_COUNT(optimizers); o++) {
            train(strategies[s], optimizers[o], LONG, w, g);
            train(strategies[s], optimizers[o], 30000, other, g);
            if (memcmp(w, other, N * sizeof *w) != 0)
                fail_msg("%s, %s: other bits", strategies[s], optimizers[o]);
            assert_true(w[0] != 0 && w[N - 1] != 0);
        }
    free(g);
    free(other);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cuts_do_not_matter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

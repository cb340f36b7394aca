/* Running statistics of batch normalisation between layer and session: in training each rank has
 * its own, in evaluation their mean, and after a checkpoint its own again. */
#include "trainer/model/model.h"
#include "trainer/loop/trainer_ranks.h"
#include "telegrad/tools.h"

/* ---- whole runs ------------------------------------------------------------------------------ */

static void check_resume(const char *method, const char *strategy)
{
    char dir[] = "/tmp/telegrad-norm-XXXXXX";
    assert_non_null(mkdtemp(dir));
    train_job job = basic();
    job.model = "resnet20";
    job.method = method;
    job.strategy = strategy;
    job.batch = 2;
    job.epochs = 0;
    job.steps = 5;
    witness w = {.steps = 0};
    rank_run straight[2], first[2], rest[2];
    run_both(&job, &w, straight);
    assert_fine(straight, 2);
    assert_true(w.last_loss != w.first_loss);
    job.steps = 3;
    job.save_dir = dir;
    run_both(&job, &w, first);
    assert_fine(first, 2);
    job.steps = 5;
    job.save_dir = NULL;
    job.resume_dir = dir;
    run_both(&job, &w, rest);
    assert_fine(rest, 2);
    assert_true(rest[0].end.params_hash == straight[0].end.params_hash);
    assert_true(rest[0].end.params_hash != first[0].end.params_hash);
    /* Evaluation depends on the statistics, which the hash of the parameters does not cover. */
    assert_true(rest[0].end.test_loss == straight[0].end.test_loss);
    assert_true(rest[0].end.test_loss != first[0].end.test_loss);
    remove_tree(dir);
}

static void test_resume(void **state)
{
    (void)state;
    check_resume("dense", "ssgd");
    check_resume("2bit", "cd:warmup=2");
}

/* ---- two ranks by hand ----------------------------------------------------------------------- */

enum { SIDE = 8, BATCH = 2, PIXELS_OF_ALL = BATCH * SIDE * SIDE * 3, STATISTICS = 16 };

typedef struct by_hand {
    tg_transport *transport;
    tg_session *session;
    model *m;
    uint32_t id[128];
    float own[STATISTICS], evaluated[STATISTICS], after[STATISTICS]; /* bn1.running_mean */
    double loss;                                                     /* of evaluation */
    tg_status status;
} by_hand;

static tg_status ready(void *arg, size_t tensor)
{
    const by_hand *r = arg;
    return tg_session_grad_ready(r->session, r->id[tensor]);
}

static const float *running_mean(const by_hand *r)
{
    for (size_t t = 0; t < r->m->ntensors; t++) {
        if (strcmp(r->m->tensors[t].name, "bn1.running_mean") == 0)
            return r->m->params + r->m->tensors[t].offset;
    }
    return NULL;
}

static tg_status add_tensors(by_hand *r)
{
    for (size_t i = 0; i < r->m->ntensors; i++) {
        const model_tensor *t = &r->m->tensors[i];
        const bool trained = t->kind == MODEL_TRAINED;
        const tg_tensor tensor = {.struct_size = sizeof tensor,
                                  .name = t->name,
                                  .shape = t->shape,
                                  .ndim = t->ndim,
                                  .kind = trained ? TG_TENSOR_TRAINED : TG_TENSOR_AVERAGED,
                                  .param = tg_array_f32(r->m->params + t->offset, t->n),
                                  .grad = trained ? tg_array_f32(r->m->grads + t->offset, t->n)
                                                  : (tg_array){0}};
        TG_TRY(tg_session_add(r->session, &tensor, &r->id[i]));
    }
    return TG_OK;
}

static tg_status go(by_hand *r)
{
    const uint32_t rank = (uint32_t)r->transport->rank;
    const tg_rng_key key = {.seed = 2, .purpose = TG_PURPOSE_TEST};
    const tg_rng_key own = {.seed = 2, .purpose = TG_PURPOSE_TEST, .rank = rank + 1};
    const int32_t labels[BATCH] = {0, 1};
    const model_input in = {SIDE, SIDE, 3, 0, 2, false};
    const tg_session_config config = {
        .struct_size = sizeof config, .optimizer = "sgd:lr=0.1", .timeout_ms = 20000};
    float x[PIXELS_OF_ALL], same[PIXELS_OF_ALL];
    for (size_t i = 0; i < PIXELS_OF_ALL; i++) {
        x[i] = (float)tg_rng_normal(&own, i) + (float)rank;
        same[i] = (float)tg_rng_normal(&key, i);
    }
    TG_TRY(model_create("resnet20", &in, BATCH, 1, &r->m));
    TG_TRY(tg_session_create(&config, r->transport, &r->session));
    TG_TRY(add_tensors(r));
    TG_TRY(tg_session_begin(r->session));
    const model_hooks hooks = {.arg = r, .grad_ready = ready};
    model_batch batch = {.x = x, .labels = labels, .count = BATCH};
    model_result result;
    tg_step_info info = {.struct_size = sizeof info};
    TG_TRY(model_forward(r->m, &batch, &(model_pass){.training = true}, &hooks, &result));
    TG_TRY(model_backward(r->m, &hooks));
    TG_TRY(tg_session_step(r->session, &info));
    memcpy(r->own, running_mean(r), sizeof r->own);
    TG_TRY(tg_session_eval_begin(r->session));
    memcpy(r->evaluated, running_mean(r), sizeof r->evaluated);
    batch.x = same;
    TG_TRY(model_forward(r->m, &batch, &(model_pass){.training = false}, NULL, &result));
    r->loss = result.loss;
    TG_TRY(tg_session_eval_end(r->session));
    memcpy(r->after, running_mean(r), sizeof r->after);
    return tg_session_finish(r->session);
}

static void *run_by_hand(void *arg)
{
    by_hand *r = arg;
    r->status = go(r);
    if (r->status != TG_OK)
        r->transport->ops->shut(r->transport);
    tg_session_destroy(r->session);
    model_destroy(r->m);
    return NULL;
}

static void test_average(void **state)
{
    (void)state;
    tg_transport *transport[2];
    pthread_t thread[2];
    by_hand rank[2] = {{0}};
    OK(tg_transport_inproc(2, transport));
    for (int i = 0; i < 2; i++) {
        rank[i].transport = transport[i];
        assert_int_equal(pthread_create(&thread[i], NULL, run_by_hand, &rank[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 2; i++) {
        OK(rank[i].status);
        tg_transport_destroy(transport[i]);
        assert_memory_equal(rank[i].own, rank[i].after, sizeof rank[i].own);
    }
    assert_memory_equal(rank[0].evaluated, rank[1].evaluated, sizeof rank[0].evaluated);
    assert_true(rank[0].loss == rank[1].loss);
    for (size_t c = 0; c < STATISTICS; c++) {
        const double mean = ((double)rank[0].own[c] + (double)rank[1].own[c]) / 2;
        assert_true(rank[0].own[c] != rank[1].own[c]);
        assert_true(fabs((double)rank[0].evaluated[c] - mean) < 1e-6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_average),
                                       cmocka_unit_test(test_resume)};
    return cmocka_run_group_tests(tests, open_data, close_data);
}

/* model.safetensors of a checkpoint holds the weights that an evaluation uses, and a failure to
 * write it does not stop the training. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "session_fixture.h"

#include <sys/stat.h>
#include <unistd.h>

enum { WORLD = 2, STEPS = 7, N = 6 };
static const size_t shape[] = {2, 3};

typedef struct rank {
    tg_transport *transport;
    const char *strategy, *dir, *name; /* name: of the trained tensor */
    tg_status status, save_status;
    char error[512];
    float w[N], mean[N], first[N]; /* trained; averaged; rank 0's */
    float eval[3][N];              /* what an evaluation sees of these at the save */
    float after[3][N];             /* the caller's values after the save */
    uint64_t hash;
    bool resumes;
} rank;

static tg_status add(tg_session *s, const char *name, tg_tensor_kind kind, float *x, float *g)
{
    uint32_t id;
    const tg_tensor t = {.struct_size = sizeof t,
                         .name = name,
                         .shape = shape,
                         .ndim = 2,
                         .kind = kind,
                         .param = tg_array_f32(x, N),
                         .grad = g ? tg_array_f32(g, N) : (tg_array){0}};
    return tg_session_add(s, &t, &id);
}

static void take(const rank *r, float to[3][N])
{
    memcpy(to[0], r->w, sizeof r->w);
    memcpy(to[1], r->mean, sizeof r->mean);
    memcpy(to[2], r->first, sizeof r->first);
}

/* Rank 0 forgot the path: all ranks are told at once, and training continues. */
static tg_status nobody_saves_without_a_path(tg_session *s)
{
    return tg_session_save_weights(s, NULL) == TG_E_ARG && strstr(tg_error(), "path is NULL")
               ? TG_OK
               : tg_fail(TG_E_STATE, "weights were saved without a path");
}

static tg_status train(rank *r, tg_session *s)
{
    float g[N];
    const int number = r->transport->rank;
    for (size_t i = 0; i < N; i++)
        r->w[i] = (float)i;
    TG_TRY(add(s, r->name, TG_TENSOR_TRAINED, r->w, g));
    TG_TRY(add(s, "bn.running_mean", TG_TENSOR_AVERAGED, r->mean, NULL));
    TG_TRY(add(s, "bn.first", TG_TENSOR_RANK0, r->first, NULL));
    TG_TRY(tg_session_begin(s));
    for (int t = 0; t < STEPS; t++) {
        TG_TRY(tg_session_grad_wait(s, 0));
        for (size_t i = 0; i < N; i++) {
            g[i] = (float)(number + t) / 8;
            r->mean[i] = (float)(4 * number + t);
            r->first[i] = (float)(16 * number + t);
        }
        TG_TRY(tg_session_grad_ready(s, 0));
        TG_TRY(tg_session_step(s, NULL));
    }
    TG_TRY(tg_session_eval_begin(s));
    take(r, r->eval);
    TG_TRY(tg_session_eval_end(s));
    r->save_status = tg_session_save(s, r->dir, NULL, 0);
    if (r->save_status != TG_OK)
        snprintf(r->error, sizeof r->error, "%s", tg_error());
    take(r, r->after);
    TG_TRY(nobody_saves_without_a_path(s));
    TG_TRY(tg_session_grad_ready(s, 0)); /* training continues even if the checkpoint failed */
    TG_TRY(tg_session_step(s, NULL));
    TG_TRY(tg_session_finish(s));
    /* The checkpoint is of an earlier step. */
    if (tg_session_save_final(s, r->dir) != TG_E_STATE)
        return tg_fail(TG_E_STATE, "final weights of a step that was not saved");
    return tg_session_params_hash(s, &r->hash);
}

/* Load and finish, without a save. */
static tg_status finish_resumed(rank *r, tg_session *s)
{
    float g[N];
    const void *extra;
    size_t len;
    TG_TRY(add(s, r->name, TG_TENSOR_TRAINED, r->w, g));
    TG_TRY(add(s, "bn.running_mean", TG_TENSOR_AVERAGED, r->mean, NULL));
    TG_TRY(add(s, "bn.first", TG_TENSOR_RANK0, r->first, NULL));
    TG_TRY(tg_session_load(s, r->dir, &extra, &len));
    TG_TRY(tg_session_finish(s));
    return tg_session_save_final(s, r->dir);
}

static void *run_rank(void *arg)
{
    rank *r = arg;
    static const char *const about[] = {"model=toy:size=6", "note="};
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = "topk:density=0.5",
                                      .strategy = r->strategy,
                                      .optimizer = "sgd:lr=0.5",
                                      .timeout_ms = 20000,
                                      .metadata = about,
                                      .nmetadata = 2};
    tg_session *s;
    r->status = tg_session_create(&config, r->transport, &s);
    if (r->status != TG_OK)
        return NULL;
    r->status = r->resumes ? finish_resumed(r, s) : train(r, s);
    if (r->status != TG_OK)
        snprintf(r->error, sizeof r->error, "%s", tg_error());
    tg_session_destroy(s);
    return NULL;
}

static void run(rank ranks[WORLD])
{
    tg_transport *transport[WORLD];
    pthread_t thread[WORLD];
    assert_int_equal(tg_transport_inproc(WORLD, transport), TG_OK);
    for (int i = 0; i < WORLD; i++) {
        ranks[i].transport = transport[i];
        assert_int_equal(pthread_create(&thread[i], NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < WORLD; i++) {
        pthread_join(thread[i], NULL);
        if (ranks[i].status != TG_OK)
            fail_msg("rank %d: %s", i, ranks[i].error);
    }
    for (int i = 0; i < WORLD; i++)
        tg_transport_destroy(transport[i]);
}

static void remove_dir(const char *dir)
{
    char command[128];
    snprintf(command, sizeof command, "chmod -R u+w %s; rm -r %s", dir, dir);
    assert_int_equal(system(command), 0);
}

static void make_folders(const char *dir, const char *below)
{
    char command[256];
    snprintf(command, sizeof command, "mkdir -p %s%s", dir, below);
    assert_int_equal(system(command), 0);
}

static void test_global_weights(void **state)
{
    (void)state;
    static const char *const strategies[] = {"ssgd", "od:warmup=2", "cd:k=3,warmup=1"};
    for (size_t i = 0; i < sizeof strategies / sizeof *strategies; i++) {
        char dir[] = "/tmp/telegrad-session-XXXXXX";
        assert_non_null(mkdtemp(dir));
        rank ranks[WORLD];
        for (int k = 0; k < WORLD; k++)
            ranks[k] = (rank){.strategy = strategies[i], .dir = dir, .name = "fc.weight"};
        run(ranks);
        tg_weights *w;
        assert_int_equal(tg_weights_open_newest(dir, &w), TG_OK);
        float x[3][N];
        const tg_weights_tensor back[] = {{"fc.weight", shape, 2, x[0]},
                                          {"bn.running_mean", shape, 2, x[1]},
                                          {"bn.first", shape, 2, x[2]}};
        assert_int_equal(tg_weights_read(w, back, 3, true), TG_OK);
        for (int k = 0; k < WORLD; k++) {
            assert_int_equal(ranks[k].save_status, TG_OK);
            assert_memory_equal(x, ranks[k].eval, sizeof x);
            for (size_t e = 0; e < N; e++) { /* the rank's own values are restored */
                assert_true(ranks[k].after[1][e] == (float)(4 * k + STEPS - 1));
                assert_true(ranks[k].after[2][e] == (float)(16 * k + STEPS - 1));
            }
        }
        assert_true(x[1][0] == 2 + STEPS - 1 && x[2][0] == STEPS - 1);
        assert_string_equal(tg_weights_metadata(w, "format"), "pt");
        assert_string_equal(tg_weights_metadata(w, "step"), "7");
        assert_string_equal(tg_weights_metadata(w, "model"), "toy:size=6");
        assert_string_equal(tg_weights_metadata(w, "note"), "");
        assert_non_null(strstr(tg_weights_metadata(w, "method"), "topk:density=0.5"));
        tg_weights_close(w);
        remove_dir(dir);
    }
}

/* A path that is not a folder, a folder where the weights should be written: an error on all ranks,
 * and training ends with the bits of a run that saved. */
static void test_failed_save_changes_nothing(void **state)
{
    (void)state;
    char dir[] = "/tmp/telegrad-session-XXXXXX", no_dir[64], other[64];
    assert_non_null(mkdtemp(dir));
    snprintf(no_dir, sizeof no_dir, "%s/file", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    FILE *file = fopen(no_dir, "w");
    assert_non_null(file);
    fclose(file);
    rank good[WORLD], bad[WORLD], odd[WORLD];
    for (int k = 0; k < WORLD; k++) {
        good[k] = (rank){.strategy = "od:warmup=2", .dir = dir, .name = "w"};
        bad[k] = (rank){.strategy = "od:warmup=2", .dir = no_dir, .name = "w"};
        odd[k] = (rank){.strategy = "ssgd", .dir = other, .name = "w"};
    }
    make_folders(other, "/step-000000000007.tmp/model.safetensors");
    run(good);
    run(bad);
    run(odd);
    for (int k = 0; k < WORLD; k++) {
        assert_int_equal(bad[k].save_status, TG_E_IO);
        assert_non_null(strstr(bad[k].error, "/file"));
        assert_true(bad[k].hash == good[k].hash);
        assert_memory_equal(bad[k].after, good[k].after, sizeof good[k].after);
        assert_int_equal(odd[k].save_status, TG_E_IO);
        assert_non_null(strstr(odd[k].error, "model.safetensors"));
    }
    tg_weights *w;
    assert_int_equal(tg_weights_open_newest(other, &w), TG_E_IO);
    remove_dir(dir);
}

/* A run that resumes where it ends saves nothing anew. Every folder gets the final weights all the
 * same. */
static void test_final_weights_in_each_folder(void **state)
{
    (void)state;
    for (int folders = 1; folders <= WORLD; folders++) {
        char dir[] = "/tmp/telegrad-session-XXXXXX", own[WORLD][64], path[256];
        assert_non_null(mkdtemp(dir));
        rank ranks[WORLD];
        for (int k = 0; k < WORLD; k++) {
            snprintf(own[k], sizeof own[k], "%s/disk%d", dir, k % folders);
            ranks[k] = (rank){.strategy = "od:warmup=2", .dir = own[k], .name = "w"};
        }
        run(ranks);
        for (int k = 0; k < WORLD; k++)
            ranks[k].resumes = true;
        run(ranks);
        for (int k = 0; k < WORLD; k++) {
            snprintf(path, sizeof path, "%s/step-000000000007/FINAL", own[k]);
            if (access(path, F_OK) != 0)
                fail_msg("%s is missing", path);
        }
        remove_dir(dir);
    }
}

static void test_metadata_is_checked(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"model", "a=b"}, {"=x", "a=b"}, {"format=x", "a=b"}, {"step=1", "a=b"}, {"a=c", "a=b"}};
    tg_transport *t;
    assert_int_equal(tg_transport_inproc(1, &t), TG_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const tg_session_config config = {
            .struct_size = sizeof config, .metadata = bad[i], .nmetadata = 2};
        tg_session *s = NULL;
        assert_int_equal(tg_session_create(&config, t, &s), TG_E_ARG);
        assert_non_null(strstr(tg_error(), "allowed: NAME=TEXT"));
        assert_null(s);
    }
    tg_transport_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_global_weights),
        cmocka_unit_test(test_failed_save_changes_nothing),
        cmocka_unit_test(test_final_weights_in_each_folder),
        cmocka_unit_test(test_metadata_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

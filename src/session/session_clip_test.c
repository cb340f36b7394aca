/* Optimizers in a session: the same bits on all ranks, with any buckets, and resumed in the middle;
 * clipping by global norm compared with PyTorch; refusals. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <golden/golden_optim.h> /* tests/golden */
#include "session_fixture.h"
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static fixture_result result[8];

static void run(const fixture_job *job)
{
    fixture_run(job, result);
    for (int r = 0; r < job->world; r++) {
        if (result[r].status != TG_OK)
            fail_msg("%s, %s, rank %d: %s", job->optimizer, job->strategy, r, result[r].error);
        assert_memory_equal(result[r].w, result[0].w, sizeof result[0].w);
        for (uint64_t t = 0; t < job->steps; t++)
            assert_int_equal(result[r].info[t].clipped, result[0].info[t].clipped);
    }
}

static const char *const strategies[] = {"ssgd", "od:warmup=2,local=preview",
                                         "cd:k=3,warmup=2,local=preview"};

/* Includes a dropped step, which is not an update, and a save and resume after it. */
static void same_bits(void **state)
{
    (void)state;
    static const char *const optimizers[] = {
        "adam:lr=0.125", "adamw:lr=0.125,weight_decay=0.1,exempt=1d,clip=20", "lars:lr=1,trust=0.1",
        "sgd:lr=0.125,momentum=0.5,weight_decay=0.1,decoupled=yes,clip=20"};
    char dir[] = "/tmp/telegrad-clip-XXXXXX", command[64];
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < COUNT(optimizers) * COUNT(strategies); i++) {
        fixture_job job = fixture_defaults();
        job.method = "2bit:threshold=0.25"; /* works element by element, so buckets do not matter */
        job.strategy = strategies[i % COUNT(strategies)];
        job.optimizer = optimizers[i / COUNT(strategies)];
        job.world = 3;
        job.nan_rank = 1;
        job.nan_step = 5;
        run(&job);
        assert_int_equal(result[0].skipped, 1);
        const uint64_t hash = result[0].hash;
        job.driver = TG_DRIVER_INLINE;
        job.adjacent = true;
        run(&job);
        assert_true(result[0].hash == hash);
        job.bucket_bytes = 1400;
        run(&job);
        assert_true(result[0].hash == hash);
        job.save_dir = dir;
        job.save_at = 7;
        run(&job);
        assert_true(result[0].hash == hash);
        job.save_dir = NULL;
        job.load_dir = dir;
        run(&job);
        assert_true(result[0].hash == hash);
        snprintf(command, sizeof command, "rm -r %s/*", dir);
        assert_int_equal(system(command), 0);
    }
    assert_int_equal(rmdir(dir), 0);
}

/* A clip that is never reached changes no bit; one that is reached applies to the norm of the
 * mean. */
static void clips(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(strategies); i++) {
        fixture_job job = fixture_defaults();
        job.strategy = strategies[i];
        job.world = 3;
        job.optimizer = "sgd:lr=0.25,momentum=0.5";
        run(&job);
        const uint64_t hash = result[0].hash;
        assert_true(result[0].info[5].mean_norm == 0 && !result[0].info[5].clipped);
        job.optimizer = "sgd:lr=0.25,momentum=0.5,clip=1e9";
        run(&job);
        assert_true(result[0].hash == hash);
        assert_true(result[0].info[5].mean_norm > 1 && !result[0].info[5].clipped);
        job.optimizer = "sgd:lr=0.25,momentum=0.5,clip=10";
        run(&job);
        assert_true(result[0].hash != hash && result[0].info[5].clipped);
    }
    /* With one step of plain SGD from w the distance is lr * clip, up to PyTorch's 1e-6. */
    fixture_job job = fixture_defaults();
    float from[FIXTURE_N];
    double sum = 0;
    fixture_initial(from);
    job.world = 2;
    job.steps = 1;
    job.optimizer = "sgd:lr=1,clip=3";
    run(&job);
    for (size_t i = 0; i < FIXTURE_N; i++)
        sum += (double)(result[0].w[i] - from[i]) * (double)(result[0].w[i] - from[i]);
    assert_true(fabs(sqrt(sum) - 3) < 1e-5);
}

/* ---- against PyTorch ------------------------------------------------------------------------- */

enum { MATRIX = 12, N = 17, STEPS = 12 };

static void golden_gradient(uint64_t t, float *g)
{
    for (uint64_t i = 0; i < N; i++)
        g[i] = ldexpf((float)((i * 7 + t * 13 + i * t % 5) % 17) - 8, (int)(t % 4) - 6);
}

static void must(tg_status status)
{
    if (status != TG_OK)
        fail_msg("%s", tg_error());
}

static void play_golden(const struct golden_optim *golden)
{
    float w[N] = {0}, g[N];
    const size_t shape[] = {4, 3}, len = N - MATRIX;
    const tg_tensor tensor[] = {{.struct_size = sizeof *tensor,
                                 .name = "matrix",
                                 .shape = shape,
                                 .ndim = 2,
                                 .param = tg_array_f32(w, MATRIX),
                                 .grad = tg_array_f32(g, MATRIX)},
                                {.struct_size = sizeof *tensor,
                                 .name = "vector",
                                 .shape = &len,
                                 .ndim = 1,
                                 .param = tg_array_f32(w + MATRIX, len),
                                 .grad = tg_array_f32(g + MATRIX, len)}};
    const tg_session_config config = {.struct_size = sizeof config,
                                      .optimizer = golden->spec,
                                      .bucket_bytes = 1, /* each tensor alone */
                                      .driver = TG_DRIVER_INLINE};
    tg_transport *transport;
    tg_session *s;
    uint32_t id[2];
    int clipped = 0;
    size_t kept = 0;
    for (int i = 0; i < N; i++)
        w[i] = (float)(i * 5 % 11 - 5) / 8;
    must(tg_transport_inproc(1, &transport));
    must(tg_session_create(&config, transport, &s));
    must(tg_session_add(s, &tensor[0], &id[0]));
    must(tg_session_add(s, &tensor[1], &id[1]));
    must(tg_session_begin(s));
    const double lr = strtod(strstr(golden->spec, "lr=") + 3, NULL);
    for (uint64_t t = 0; t < STEPS; t++) {
        tg_step_info info = {.struct_size = sizeof info};
        must(tg_session_set_lr(s, t < STEPS / 2 ? lr : lr / 2));
        golden_gradient(t, g);
        must(tg_session_grad_ready(s, id[1]));
        must(tg_session_grad_ready(s, id[0]));
        must(tg_session_step(s, &info));
        clipped += info.clipped;
        if (t != 0 && t != 5 && t != 11)
            continue;
        for (int i = 0; i < N; i++)
            if (!(fabs(w[i] - golden->w[kept][i]) <= 1e-6 * fmax(1, fabs(golden->w[kept][i]))))
                fail_msg("%s, step %d, element %d: %.9g is not %.9g", golden->spec, (int)t + 1, i,
                         (double)w[i], golden->w[kept][i]);
        kept++;
    }
    assert_int_equal(clipped, golden->clipped);
    tg_session_destroy(s);
    tg_transport_destroy(transport);
}

static void as_pytorch(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT(golden_optim); c++)
        play_golden(&golden_optim[c]);
}

static void refuses(void **state)
{
    (void)state;
    static const struct {
        const char *method, *strategy, *optimizer, *want;
    } cases[] = {
        {"dgc", "ssgd", "adam", "method \"dgc\" accumulates SGD's momentum itself"},
        {"dgc", "ssgd", "lars", "use optimizer sgd, or a method without momentum"},
        {"dgc", "ssgd", "sgd:clip=5", "clip=5 with method \"dgc\", which accumulates gradients"},
        {"2bit", "cd:local=sgd", "adam",
         "local=sgd uses the optimizer's lr for a step of plain SGD"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fixture_job job = fixture_defaults();
        job.method = cases[i].method;
        job.strategy = cases[i].strategy;
        job.optimizer = cases[i].optimizer;
        fixture_run(&job, result);
        assert_int_equal(result[0].status, TG_E_SPEC);
        if (!strstr(result[0].error, cases[i].want))
            fail_msg("%s", result[0].error);
    }
}

/* If the method owns the momentum, decoupled decay remains the optimizer's: DGC without compression
 * (density 1) is momentum SGD with that decay. Coupled decay exempts the same tensors there. */
static void decay_beside_dgc(void **state)
{
    (void)state;
    static const char *const optimizers[] = {"weight_decay=0.125,decoupled=yes,exempt=1d",
                                             "weight_decay=0.125,exempt=1d"};
    static float want[FIXTURE_N];
    for (size_t i = 0; i < COUNT(optimizers); i++) {
        char spec[128];
        fixture_job job = fixture_defaults();
        job.method = "dgc:density=1,warmup=0,momentum=0.5,masking=no,values=f32";
        snprintf(spec, sizeof spec, "sgd:lr=0.25,%s", optimizers[i]);
        job.optimizer = spec;
        run(&job);
        memcpy(want, result[0].w, sizeof want);
        /* Without masking u is kept, and all of v is sent: momentum SGD, up to rounding. */
        job.method = "dense";
        snprintf(spec, sizeof spec, "sgd:lr=0.25,momentum=0.5,%s", optimizers[i]);
        run(&job);
        for (size_t e = 0; e < FIXTURE_N; e++)
            assert_true(fabsf(result[0].w[e] - want[e]) <= 1e-5f * fmaxf(1, fabsf(want[e])));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),        cmocka_unit_test(clips),
        cmocka_unit_test(as_pytorch),       cmocka_unit_test(refuses),
        cmocka_unit_test(decay_beside_dgc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Feedback: nothing is lost (exactly, on dyadic data), DGC's limiting cases, clipping. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "feedback/feedback.h"
#include "kernel/kernel.h"
#include "telegrad/random.h"
#include "telegrad/spec.h"
#include <math.h>
#include <string.h>

enum { N = 4097 };

typedef struct fixture {
    tg__feedback f;
    float u[N], v[N], g[N], scratch[N], w[N], sum_g[N], sum_sent[N];
} fixture;

static fixture x;

static void setup(const char *name, double momentum, bool nesterov, bool masking)
{
    memset(&x, 0, sizeof x);
    x.f.ops = tg__feedback_find(name);
    assert_non_null(x.f.ops);
    x.f.params = (tg__feedback_params){
        .momentum = momentum, .nesterov = nesterov, .masking = masking, .world = 1};
    x.f.vec[0] = x.u;
    x.f.vec[1] = x.v;
}

/* Multiples of 2^-10 in (-1, 1): sums of some hundred are exact. */
static void dyadic(float *dst, size_t n, uint64_t step)
{
    tg_rng_key key = {.seed = 7, .purpose = TG_PURPOSE_TEST, .step = step};
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)(int)(tg_rng_uniform(&key, i) * 2047 - 1023) / 1024;
}

static void anything(float *dst, size_t n, uint64_t step)
{
    tg_rng_key key = {.seed = 8, .purpose = TG_PURPOSE_TEST, .step = step};
    for (size_t i = 0; i < n; i++)
        dst[i] = (float)tg_rng_normal(&key, i);
}

static void lists_what_exists(void **state)
{
    (void)state;
    static const char *const names[] = {"none", "residual", "velocity", "momentum"};
    static const size_t vectors[] = {0, 1, 2, 1};
    size_t count, entries;
    const tg__feedback_ops *const *all = tg__feedbacks(&count);
    const tg_entry *const *list = tg__feedback_entries(&entries);
    assert_int_equal(count, TG_COUNT(names));
    assert_int_equal(entries, count);
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(all[i]->entry.name, names[i]);
        assert_ptr_equal(list[i], &all[i]->entry);
        assert_ptr_equal(tg__feedback_find(names[i]), all[i]);
        assert_int_equal(all[i]->vectors, vectors[i]);
        for (size_t v = 0; v < vectors[i]; v++)
            assert_non_null(all[i]->names[v]);
        tg_spec *spec;
        assert_int_equal(tg_spec_parse("feedback", list, count, names[i], &spec), TG_OK);
        tg_spec_free(spec);
    }
    assert_null(tg__feedback_find("dgc"));
}

static void none_forgets(void **state)
{
    (void)state;
    setup("none", 0, false, false);
    const float *p;
    x.f.ops->compensate(&x.f, x.g, N, x.scratch, &p);
    assert_ptr_equal(p, x.g);
    x.f.ops->bypass(&x.f, x.g, N, x.scratch, &p);
    assert_ptr_equal(p, x.g);
    assert_null(x.f.ops->sent);
    assert_null(tg__feedback_pending(&x.f));
}

/* Sparse: every 7th element, rounded to eighths. Dense: -1/2, 0 or 1/2. */
static size_t encode(const float *p, bool sparse, uint64_t step, uint32_t *idx, float *val)
{
    size_t k = 0;
    if (sparse) {
        for (size_t i = step % 7; i < N; i += 7, k++) {
            idx[k] = (uint32_t)i;
            val[k] = truncf(p[i] * 8) / 8;
        }
        return k;
    }
    for (size_t i = 0; i < N; i++)
        val[i] = p[i] >= 0.5f ? 0.5f : p[i] <= -0.5f ? -0.5f : 0;
    return N;
}

static void assert_telescopes(const char *name, double momentum, bool masking)
{
    static uint32_t idx[N];
    static float val[N];
    setup(name, momentum, false, masking);
    float *pending = tg__feedback_pending(&x.f);
    for (uint64_t step = 0; step < 60; step++) {
        const float *p;
        bool sparse = step % 3 != 0;
        dyadic(x.g, N, step);
        x.f.ops->compensate(&x.f, x.g, N, x.scratch, &p);
        assert_ptr_equal(p, pending);
        size_t k = encode(p, sparse, step, idx, val);
        x.f.ops->sent(&x.f, p, N, sparse ? idx : NULL, val, k);
        for (size_t i = 0; i < k; i++)
            x.sum_sent[sparse ? idx[i] : i] += val[i];
        for (size_t i = 0; i < N; i++)
            x.sum_g[i] += x.g[i];
        for (size_t i = 0; i < N; i++)
            assert_true(x.sum_sent[i] + pending[i] == x.sum_g[i]);
    }
}

static void nothing_is_lost(void **state)
{
    (void)state;
    assert_telescopes("residual", 0, false);
    /* With m = 0 the velocity is the gradient itself, with and without masking. */
    assert_telescopes("velocity", 0, false);
    assert_telescopes("velocity", 0, true);
}

/* p = decay * r + g, with each operation rounded; 1 and 0 mean no decay. */
static void a_decay_forgets(void **state)
{
    (void)state;
    static const double decays[] = {0.95, 0.5, 1, 0};
    for (size_t d = 0; d < TG_COUNT(decays); d++) {
        setup("residual", 0, false, false);
        x.f.params.decay = decays[d];
        anything(x.u, N, 4);
        anything(x.g, N, 5);
        for (size_t i = 0; i < N; i++) {
            const float kept = x.u[i] * (decays[d] == 0 ? 1 : (float)decays[d]);
            x.w[i] = kept + x.g[i];
        }
        const float *p;
        x.f.ops->compensate(&x.f, x.g, N, x.scratch, &p);
        assert_memory_equal(p, x.w, sizeof x.w);
    }
}

static void residual_bypass_leaves_the_residual(void **state)
{
    (void)state;
    setup("residual", 0, false, false);
    anything(x.u, N, 0);
    anything(x.g, N, 1);
    memcpy(x.w, x.u, sizeof x.w);
    const float *p;
    x.f.ops->bypass(&x.f, x.g, N, x.scratch, &p);
    assert_ptr_equal(p, x.g);
    assert_memory_equal(x.u, x.w, sizeof x.w);
}

static void velocity_has_the_bits_of_the_fused_kernel(void **state)
{
    (void)state;
    static float u[N], v[N], val[N + TG__SELECT_SLACK];
    static uint32_t idx[N + TG__SELECT_SLACK];
    const size_t sizes[] = {0, 1, 33, N};
    for (size_t s = 0; s < TG_COUNT(sizes); s++) {
        for (int nesterov = 0; nesterov < 2; nesterov++) {
            setup("velocity", 0.9, nesterov, true);
            memset(u, 0, sizeof u);
            memset(v, 0, sizeof v);
            for (uint64_t step = 0; step < 4; step++) {
                const float *p;
                anything(x.g, sizes[s], step);
                size_t k = tg__kernel()->dgc_select(u, v, x.g, sizes[s], 0.9f, nesterov, 0, 1.5f,
                                                    idx, val, sizes[s]);
                for (size_t i = 0; i < k; i++) {
                    v[idx[i]] -= val[i];
                    u[idx[i]] = 0;
                }
                x.f.ops->compensate(&x.f, x.g, sizes[s], x.scratch, &p);
                x.f.ops->sent(&x.f, p, sizes[s], idx, val, k);
                assert_true(sizes[s] < N || k > 100);
                assert_memory_equal(x.u, u, sizeof u);
                assert_memory_equal(x.v, v, sizeof v);
            }
        }
    }
}

/* Density 1, f32 values: everything is sent. want_u NULL: plain SGD. */
static void assert_limit(bool masking, bool momentum)
{
    static float want[N], want_u[N];
    setup("velocity", 0.9, false, masking);
    anything(x.w, N, 100);
    memcpy(want, x.w, sizeof want);
    memset(want_u, 0, sizeof want_u);
    for (uint64_t step = 0; step < 8; step++) {
        const float *p;
        anything(x.g, N, step);
        x.g[step] = 0;
        x.f.ops->compensate(&x.f, x.g, N, x.scratch, &p);
        memcpy(x.scratch, p, sizeof x.scratch);
        x.f.ops->sent(&x.f, p, N, NULL, x.scratch, N);
        tg__kernel()->sgd(x.w, x.scratch, N, 0.1f, 0);
        if (momentum)
            tg__kernel()->sgd_momentum(want, want_u, x.g, N, 0.1f, 0.9f, 0, false);
        else
            tg__kernel()->sgd(want, x.g, N, 0.1f, 0);
        assert_memory_equal(x.w, want, sizeof want);
    }
}

static void velocity_limits(void **state)
{
    (void)state;
    assert_limit(true, false);
    assert_limit(false, true);
}

static void masking_clears_what_was_selected(void **state)
{
    (void)state;
    setup("velocity", 0.5, false, true);
    const float *p;
    for (size_t i = 0; i < 4; i++)
        x.g[i] = 1;
    x.f.ops->compensate(&x.f, x.g, 4, x.scratch, &p);
    const uint32_t idx[] = {1, 2};
    const float val[] = {0.75f, 0}; /* element 2 was selected, but its value became 0 */
    x.f.ops->sent(&x.f, p, 4, idx, val, 2);
    const float sparse_u[] = {1, 0, 0, 1}, sparse_v[] = {1, 0.25f, 1, 1};
    assert_memory_equal(x.u, sparse_u, sizeof sparse_u);
    assert_memory_equal(x.v, sparse_v, sizeof sparse_v);
    const float dense[] = {0, 0, 1, 0}; /* only element 2 was sent */
    x.f.ops->sent(&x.f, p, 4, NULL, dense, 4);
    const float dense_u[] = {1, 0, 0, 1}, dense_v[] = {1, 0.25f, 0, 1};
    assert_memory_equal(x.u, dense_u, sizeof dense_u);
    assert_memory_equal(x.v, dense_v, sizeof dense_v);
    x.f.params.masking = false;
    x.f.ops->sent(&x.f, p, 4, (const uint32_t[]){0}, (const float[]){1}, 1);
    assert_true(x.u[0] == 1 && x.v[0] == 0);
}

/* All steps dense: momentum SGD with PyTorch's direction; v does not change. */
static void velocity_bypass_is_momentum(void **state)
{
    (void)state;
    for (int nesterov = 0; nesterov < 2; nesterov++) {
        setup("velocity", 0.5, nesterov, true);
        anything(x.v, N, 50);
        memcpy(x.w, x.v, sizeof x.w);
        float velocity[N] = {0}; /* PyTorch's */
        for (uint64_t step = 0; step < 8; step++) {
            const float *p;
            dyadic(x.g, N, step);
            x.f.ops->bypass(&x.f, x.g, N, x.scratch, &p);
            for (size_t i = 0; i < N; i++) {
                velocity[i] = 0.5f * velocity[i] + x.g[i];
                assert_true(p[i] == (nesterov ? x.g[i] + 0.5f * velocity[i] : velocity[i]));
            }
        }
        assert_memory_equal(x.v, x.w, sizeof x.w);
    }
}

static double norm(const float *g, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)g[i] * (double)g[i];
    return sqrt(sum);
}

static void clip_scales_each_tensor(void **state)
{
    (void)state;
    setup("none", 0, false, false);
    const size_t begin[] = {0, 4, 1000}, len[] = {2, 996, 3000};
    for (int in_place = 0; in_place < 2; in_place++) {
        anything(x.g, N, 3);
        x.g[0] = 3;
        x.g[1] = -4; /* norm 5 */
        x.g[4] = NAN;
        memcpy(x.w, x.g, sizeof x.w);
        float *dst = in_place ? x.g : x.scratch;
        memset(x.scratch, 0, sizeof x.scratch);
        tg__clip_tensors(dst, x.g, begin, len, 3, 5, 4); /* to norm 2.5 */
        assert_true(dst[0] == 1.5f && dst[1] == -2);
        assert_true(dst[2] == (in_place ? x.w[2] : 0)); /* in no tensor */
        assert_memory_equal(dst + 4, x.w + 4, 996 * sizeof(float));
        assert_true(fabs(norm(dst + 1000, 3000) - 2.5) < 1e-6);
        memcpy(x.g, x.w, sizeof x.w);
        tg__clip_tensors(dst, x.g, begin, len, 1, 10, 4); /* exactly the norm: unchanged */
        assert_true(dst[0] == 3 && dst[1] == -4);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_what_exists),
        cmocka_unit_test(none_forgets),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(a_decay_forgets),
        cmocka_unit_test(residual_bypass_leaves_the_residual),
        cmocka_unit_test(velocity_has_the_bits_of_the_fused_kernel),
        cmocka_unit_test(velocity_limits),
        cmocka_unit_test(masking_clears_what_was_selected),
        cmocka_unit_test(velocity_bypass_is_momentum),
        cmocka_unit_test(clip_scales_each_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* mean = (((0 + x[0]) + x[1]) + ... + x[P-1]) * (1 / P), in f32; * (1 / P) is exact for powers of
 * two. */
#include "exchange/exchange.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include <stdatomic.h>
#include <string.h>

void tg__mean_add(float *acc, size_t n, const uint8_t *frame, size_t len, tg__pool *pool)
{
    (void)n;
    tg__frame_decode_add(frame, len, acc, pool);
}

void tg__mean_finish(float *acc, size_t n, int size)
{
    tg__kernel()->scale(acc, 1.0f / (float)size, n);
}

/* A vector that the cores of a pool share. */
typedef struct job {
    const tg__combine *combine;
    float *acc;
    const float *src;
    int size;
    atomic_bool *spoilt; /* [out] some element is not finite */
} job;

static void zero_range(void *arg, size_t lo, size_t hi)
{
    float *acc = arg;
    memset(acc + lo, 0, (hi - lo) * sizeof *acc);
}

static void finish_range(void *arg, size_t lo, size_t hi)
{
    const job *j = arg;
    j->combine->finish(j->acc + lo, hi - lo, j->size);
}

void tg__combine_begin(const tg__exchange *x, float *acc, size_t n)
{
    tg__pool_chunks(x->pool, n, TG__CHUNK, zero_range, acc);
}

void tg__combine_finish(const tg__exchange *x, float *acc, size_t n)
{
    job j = {.combine = x->combine, .acc = acc, .size = x->size};
    if (x->combine->finish)
        tg__pool_chunks(x->pool, n, TG__CHUNK, finish_range, &j);
}

/* Work in small pieces, so that finish finds each one in the cache. */
static void take_range(void *arg, size_t lo, size_t hi)
{
    enum { PIECE = 8192 };
    const job *j = arg;
    for (size_t at = lo; at < hi; at += PIECE) {
        const size_t n = TG__MIN(hi - at, (size_t)PIECE);
        if (j->acc != j->src)
            memcpy(j->acc + at, j->src + at, n * sizeof *j->acc);
        if (j->combine->finish)
            j->combine->finish(j->acc + at, n, j->size);
        if (!tg__kernel()->all_finite(j->acc + at, n))
            atomic_store(j->spoilt, true);
    }
}

bool tg__combine_take(const tg__exchange *x, float *dst, const float *acc, size_t n)
{
    atomic_bool spoilt = false;
    job j = {.combine = x->combine, .acc = dst, .src = acc, .size = x->size, .spoilt = &spoilt};
    tg__pool_chunks(x->pool, n, TG__CHUNK, take_range, &j);
    return !spoilt;
}

const tg__combine tg__combine_mean = {
    .name = "mean",
    .add = tg__mean_add,
    .finish = tg__mean_finish,
    .additive = true,
};

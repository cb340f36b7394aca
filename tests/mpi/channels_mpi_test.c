/* Several reducers and a session on one MPI transport. Each rank starts and awaits them in an order
 * of its own; some messages are large. Run it with mpirun; the exit status is 0 on success. */
#include "telegrad/mpi.h"
#include "telegrad/telegrad.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 24, STEPS = 4, LARGE = 400000 };

static const char *const methods[] = {"dense",
                                      "powersgd",
                                      "dgc:density=0.1,warmup=0",
                                      "2bit",
                                      "csc:density=0.1,warmup=0",
                                      "dense:exchange=allgather"};

typedef struct own {
    tg_reducer *r[COUNT];
    tg_session *s;
    uint32_t id;
    float param, grad;
    float *g[COUNT], *mean[COUNT];
} own;

static size_t size_of(int i)
{
    return i % 6 == 0 || i % 6 == 5 ? LARGE : 1000 + (size_t)i;
}

static tg_status make(own *o, tg_transport *t, tg_driver driver)
{
    const tg_reducer_config config = {
        .struct_size = sizeof config, .seed = 1, .timeout_ms = 30000, .steps_per_epoch = 10};
    const tg_session_config job = {.struct_size = sizeof job,
                                   .method = "dense",
                                   .optimizer = "sgd:lr=1",
                                   .seed = 1,
                                   .timeout_ms = 30000,
                                   .driver = driver};
    const size_t shape = 1;
    for (int i = 0; i < COUNT; i++) {
        o->g[i] = calloc(size_of(i), sizeof(float));
        o->mean[i] = calloc(size_of(i), sizeof(float));
        if (o->g[i] == NULL || o->mean[i] == NULL)
            return tg_fail(TG_E_NOMEM, "out of memory");
        TG_TRY(tg_reducer_create(methods[i % 6], t, size_of(i), &config, &o->r[i]));
    }
    const tg_tensor x = {.struct_size = sizeof x,
                         .name = "x",
                         .shape = &shape,
                         .ndim = 1,
                         .param = tg_array_f32(&o->param, 1),
                         .grad = tg_array_f32(&o->grad, 1)};
    TG_TRY(tg_session_create(&job, t, &o->s));
    TG_TRY(tg_session_add(o->s, &x, &o->id));
    return tg_session_begin(o->s);
}

static float value(int rank, int step, int i, size_t k)
{
    return (float)((k * 7 + (size_t)i) % 100) * (float)(rank + 1 + step);
}

/* Each rank starts and waits in its own order: i * stride + shift, mod COUNT. */
static tg_status step(own *o, tg_transport *t, int number)
{
    static const int strides[] = {1, 5, 7, 11};
    const int stride = strides[(t->rank + number) % 4], shift = 5 * t->rank;
    tg_step_info info = {.struct_size = sizeof info};
    bool done;
    for (int i = 0; i < COUNT; i++)
        for (size_t k = 0; k < size_of(i); k++)
            o->g[i][k] = value(t->rank, number, i, k);
    for (int i = 0; i < COUNT; i++) {
        const int k = (i * stride + shift) % COUNT;
        TG_TRY(tg_reducer_start(o->r[k], o->g[k], o->mean[k], NULL, NULL));
        TG_TRY(tg_reducer_test(o->r[(k + 1) % COUNT], &done));
    }
    o->grad = (float)t->rank;
    if (t->rank % 2)
        TG_TRY(tg_session_grad_ready(o->s, o->id));
    for (int i = 0; i < COUNT; i++) {
        TG_TRY(tg_reducer_wait(o->r[(i * stride + 2 * shift + 3) % COUNT]));
        if (t->rank % 2 == 0 && i == COUNT / 2)
            TG_TRY(tg_session_grad_ready(o->s, o->id));
    }
    return tg_session_step(o->s, &info);
}

/* Dense means are exact; with every method all ranks have the result of rank 0. */
static tg_status check(own *o, const tg_transport *t, int number)
{
    const float factor = (float)(t->size + 1) / 2 + (float)number; /* mean of rank + 1 + step */
    const float moved = -(float)(number + 1) * (float)(t->size - 1) / 2;
    if (o->param != moved)
        return tg_fail(TG_E_STATE, "parameter %g, not %g", (double)o->param, (double)moved);
    for (int i = 0; i < COUNT; i++) {
        unsigned long same;
        unsigned long hash = (unsigned long)i;
        for (size_t k = 0; k < size_of(i); k++) {
            const float want = (float)((k * 7 + (size_t)i) % 100) * factor;
            uint32_t bits;
            memcpy(&bits, &o->mean[i][k], sizeof bits);
            hash = hash * 31 + bits;
            const float off = o->mean[i][k] - want;
            if (size_of(i) == LARGE && (off > 1e-3f || off < -1e-3f))
                return tg_fail(TG_E_STATE, "reducer %d, element %zu: %g, not %g", i, k,
                               (double)o->mean[i][k], (double)want);
        }
        same = hash;
        MPI_Bcast(&same, 1, MPI_UNSIGNED_LONG, 0, MPI_COMM_WORLD);
        if (same != hash)
            return tg_fail(TG_E_STATE, "reducer %d (%s): other bits than rank 0", i,
                           methods[i % 6]);
    }
    return TG_OK;
}

static tg_status run(own *o, tg_transport *t, tg_driver driver)
{
    TG_TRY(make(o, t, driver));
    for (int number = 0; number < STEPS; number++) {
        TG_TRY(step(o, t, number));
        TG_TRY(check(o, t, number));
    }
    return tg_session_finish(o->s);
}

/* Ranks also destroy them in different orders. */
static void destroy(own *o, const tg_transport *t)
{
    if (t->rank % 2)
        tg_session_destroy(o->s);
    for (int i = 0; i < COUNT; i++) {
        const int k = t->rank % 2 ? i : COUNT - 1 - i;
        tg_reducer_destroy(o->r[k]);
        free(o->g[k]);
        free(o->mean[k]);
    }
    if (t->rank % 2 == 0)
        tg_session_destroy(o->s);
}

int main(int argc, char **argv)
{
    static const tg_driver drivers[] = {TG_DRIVER_INLINE, TG_DRIVER_AUTO};
    tg_transport *t;
    int level;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (tg_transport_mpi(MPI_COMM_WORLD, &t) != TG_OK) {
        fprintf(stderr, "%s\n", tg_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        own o = {.s = NULL};
        if (run(&o, t, drivers[i]) != TG_OK) {
            fprintf(stderr, "rank %d: %s\n", t->rank, tg_error());
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        destroy(&o, t);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    tg_transport_destroy(t);
    MPI_Finalize();
    return 0;
}

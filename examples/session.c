/* A training loop with a session: logistic regression on random points, which each rank draws for
 * itself.
 *     mpicc session.c $(pkg-config --cflags --libs telegrad-mpi) -lm -o session
 *     mpirun -n 4 ./session [METHOD]        METHOD: see `telegrad methods`; topk:density=0.02 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <telegrad/mpi.h>
#include <telegrad/session.h>
#include <telegrad/random.h>

enum { N = 1000, POINTS = 64, STEPS = 300 };
static float w[N], bias[1], grad_w[N], grad_bias[1]; /* the same w and bias on all ranks */

/* Random number `counter` of this rank, in [-1, 1). */
static float draw(int rank, uint64_t counter)
{
    const tg_rng_key key = {.seed = 7, .purpose = TG_PURPOSE_TEST, .rank = (uint32_t)rank};
    return (float)(2 * tg_rng_uniform(&key, counter) - 1);
}

/* Compute the gradient of a batch and return the mean loss. A point's class is the sign of the sum
 * of its first ten coordinates. */
static double loss_and_gradient(int rank, int step)
{
    double loss = 0;
    for (int i = 0; i < N; i++)
        grad_w[i] = 0;
    grad_bias[0] = 0;
    for (int p = 0; p < POINTS; p++) {
        float x[N], z = bias[0], sum = 0;
        for (int i = 0; i < N; i++) {
            x[i] = draw(rank, ((uint64_t)step * POINTS + (uint64_t)p) * N + (uint64_t)i);
            z += w[i] * x[i];
            sum += i < 10 ? x[i] : 0;
        }
        const float y = sum > 0 ? 1 : -1, error = -y / (1 + expf(y * z)) / POINTS;
        loss += log1p(exp((double)(-y * z))) / POINTS;
        for (int i = 0; i < N; i++)
            grad_w[i] += error * x[i];
        grad_bias[0] += error;
    }
    return loss;
}

static tg_status add(tg_session *s, const char *name, float *param, float *grad, size_t n,
                     uint32_t *id_p)
{
    const tg_tensor tensor = {.struct_size = sizeof tensor,
                              .name = name,
                              .shape = &n,
                              .ndim = 1,
                              .param = tg_array_f32(param, n),
                              .grad = tg_array_f32(grad, n)};
    return tg_session_add(s, &tensor, id_p);
}

static tg_status train(tg_transport *transport, const char *method)
{
    const tg_session_config config = {.struct_size = sizeof config,
                                      .method = method,
                                      .optimizer = "sgd:lr=0.5",
                                      .job = "examples/session.c"};
    tg_session *s;
    uint32_t weights, offset;
    TG_TRY(tg_session_create(&config, transport, &s));
    TG_TRY(add(s, "weights", w, grad_w, N, &weights));
    TG_TRY(add(s, "bias", bias, grad_bias, 1, &offset));
    TG_TRY(tg_session_begin(s));
    for (int step = 0; step < STEPS; step++) {
        TG_TRY(tg_session_param_wait(s, weights));
        TG_TRY(tg_session_param_wait(s, offset));
        TG_TRY(tg_session_grad_wait(s, offset));
        TG_TRY(tg_session_grad_wait(s, weights));
        double loss = loss_and_gradient(transport->rank, step);
        TG_TRY(tg_session_grad_ready(s, offset)); /* last layers first */
        TG_TRY(tg_session_grad_ready(s, weights));
        tg_step_info info = {.struct_size = sizeof info};
        TG_TRY(tg_session_step(s, &info));
        if ((step + 1) % 100 == 0) {
            TG_TRY(tg_session_sum(s, &loss, 1));
            if (transport->rank == 0)
                printf("step %d: loss %.3f, %llu bytes sent\n", step + 1, loss / transport->size,
                       (unsigned long long)info.bytes_sent);
        }
    }
    TG_TRY(tg_session_finish(s));
    uint64_t hash;
    TG_TRY(tg_session_params_hash(s, &hash));
    printf("rank %d: parameters %016llx\n", transport->rank, (unsigned long long)hash);
    tg_session_destroy(s);
    return TG_OK;
}

int main(int argc, char **argv)
{
    tg_transport *transport;
    int level; /* with less than MPI_THREAD_MULTIPLE the session has no communication thread */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    if (tg_transport_mpi(MPI_COMM_WORLD, &transport) != TG_OK ||
        train(transport, argc > 1 ? argv[1] : "topk:density=0.02") != TG_OK) {
        fprintf(stderr, "%s\n", tg_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    tg_transport_destroy(transport);
    return MPI_Finalize();
}

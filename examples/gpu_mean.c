/* A compressed mean of vectors in the memory of a GPU. Two ranks, here threads of this process;
 * over MPI or TCP only the transport differs (reduce.c, tcp_mean.c).
 *
 *     cc gpu_mean.c $(pkg-config --cflags --libs telegrad-cuda) -lcudart -lpthread -lm */
#include <cuda_runtime_api.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <telegrad/cuda.h>
#include <telegrad/reducer.h>

enum { N = 1000000, RANKS = 2 };

static int refuse(void)
{
    fprintf(stderr, "%s\n", tg_error());
    return 1;
}

static void *run_rank(void *arg)
{
    tg_transport *transport = arg;
    tg_reducer *reducer;
    const tg_reducer_config config = {.struct_size = sizeof config, .memory = TG_CUDA, .device = 0};
    static float host[RANKS][N];
    float *gradient = host[transport->rank];
    void *device;
    if (cudaMalloc(&device, sizeof host[0]) != cudaSuccess)
        return NULL;
    for (int i = 0; i < N; i++)
        gradient[i] = sinf((float)(i * (transport->rank + 1)));
    cudaMemcpy(device, gradient, sizeof host[0], cudaMemcpyHostToDevice);

    tg_array x = tg_array_f32(device, N);
    x.memory = TG_CUDA; /* x.stream stays NULL: the default stream */
    if (tg_reducer_create("topk:density=0.01", transport, N, &config, &reducer) != TG_OK ||
        tg_reducer_start_array(reducer, &x, &x, NULL, NULL) != TG_OK ||
        tg_reducer_wait(reducer) != TG_OK) {
        refuse();
    } else {
        cudaMemcpy(gradient, device, sizeof host[0], cudaMemcpyDeviceToHost);
        printf("rank %d: %.0f times fewer bytes than the dense gradient\n", transport->rank,
               tg_reducer_ratio(reducer));
        tg_reducer_destroy(reducer);
    }
    cudaFree(device);
    return NULL;
}

int main(void)
{
    tg_transport *transport[RANKS];
    pthread_t thread[RANKS];
    if (tg_cuda_attach() != TG_OK || tg_transport_inproc(RANKS, transport) != TG_OK)
        return refuse();
    for (int i = 0; i < RANKS; i++)
        pthread_create(&thread[i], NULL, run_rank, transport[i]);
    for (int i = 0; i < RANKS; i++) {
        pthread_join(thread[i], NULL);
        tg_transport_destroy(transport[i]);
    }
    return 0;
}

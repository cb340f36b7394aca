/* A compressed mean over a transport of your own, here plain TCP (socket_transport.c):
 *
 *     cc sockets.c socket_transport.c socket_mesh.c $(pkg-config --cflags --libs telegrad) -lm \
 *         -o sockets
 *
 * One process per rank:
 *
 *     ./sockets 0 localhost:7000 localhost:7001 &
 *     ./sockets 1 localhost:7000 localhost:7001 */
#include "socket_transport.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <telegrad/reducer.h>

enum { N = 1000000, STEPS = 3 };
static float gradient[N], mean[N];

static tg_status run(int rank, int size, const char *const *address)
{
    tg_transport *transport;
    tg_reducer *reducer = NULL;
    tg_status status = socket_transport(rank, size, address, 10000, &transport);
    if (status != TG_OK)
        return status;
    status = tg_reducer_create("topk:density=0.01", transport, N, NULL, &reducer);
    for (int step = 0; status == TG_OK && step < STEPS; step++) {
        for (int i = 0; i < N; i++)
            gradient[i] = sinf((float)(i * (rank + 1)) + (float)step);
        status = tg_reducer_mean(reducer, gradient, mean);
    }
    double sum = 0;
    for (int i = 0; i < N; i++)
        sum += fabs((double)mean[i]);
    if (status == TG_OK)
        printf("rank %d: sum %.6f, %.0f times fewer bytes\n", rank, sum, tg_reducer_ratio(reducer));
    tg_reducer_destroy(reducer);
    tg_transport_destroy(transport);
    return status;
}

int main(int argc, char **argv)
{
    const int rank = argc > 1 ? atoi(argv[1]) : -1, size = argc - 2;
    if (rank < 0 || rank >= size) {
        fprintf(stderr,
                "usage: sockets RANK HOST:PORT HOST:PORT ...   (one address for each rank)\n");
        return 2;
    }
    if (run(rank, size, (const char *const *)argv + 2) != TG_OK) {
        fprintf(stderr, "rank %d: %s\n", rank, tg_error());
        return 1;
    }
    return 0;
}

/* A compressed mean instead of MPI_Allreduce:
 *     mpicc reduce.c $(pkg-config --cflags --libs telegrad-mpi) -lm -o reduce
 *     mpirun -n 4 ./reduce
 * MPI_Init is enough for a reducer, which makes progress inside its calls only. A session that
 * overlaps exchange and computing needs MPI_Init_thread (session.c). */
#include <math.h>
#include <stdio.h>
#include <telegrad/mpi.h>
#include <telegrad/reducer.h>

enum { N = 1000000 };
static float gradient[N], mean[N];

int main(int argc, char **argv)
{
    tg_transport *transport;
    tg_reducer *reducer;
    MPI_Init(&argc, &argv);
    if (tg_transport_mpi(MPI_COMM_WORLD, &transport) != TG_OK ||
        tg_reducer_create("topk:density=0.01", transport, N, NULL, &reducer) != TG_OK) {
        fprintf(stderr, "%s\n", tg_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < N; i++)
            gradient[i] = sinf((float)(i * (transport->rank + 1)) + (float)step);
        if (tg_reducer_mean(reducer, gradient, mean) != TG_OK) {
            fprintf(stderr, "%s\n", tg_error());
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
    if (transport->rank == 0)
        printf("%.0f times fewer bytes than the dense gradient\n", tg_reducer_ratio(reducer));
    tg_reducer_destroy(reducer);
    tg_transport_destroy(transport);
    return MPI_Finalize();
}

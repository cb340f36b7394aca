/* A rank calls MPI_Finalize before it has destroyed its transport. It leaves there: ranks that wait
 * for it learn of that at once, not by a timeout. What it calls afterwards fails, and calls no MPI.
 * Run it with mpirun; the exit status is 0 on success. */
#include "telegrad/mpi.h"
#include "telegrad/telegrad.h"

#include <stdio.h>
#include <string.h>

enum { N = 500, TIMEOUT_MS = 20000 };

static int rank;

static int check(bool ok, const char *what)
{
    if (!ok)
        fprintf(stderr, "finalize_mpi_test: rank %d: %s: %s\n", rank, what, tg_error());
    return ok ? 0 : 1;
}

static int says(tg_status status, tg_status want, const char *text, const char *what)
{
    return check(status == want && strstr(tg_error(), text) != NULL, what);
}

int main(int argc, char **argv)
{
    float x[N] = {0};
    int level, size, failures = 0;
    char left[32];
    tg_transport *t, *other, *late = NULL;
    tg_reducer *r, *again = NULL;
    const tg_reducer_config config = {.struct_size = sizeof config, .timeout_ms = TIMEOUT_MS};
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int last = size - 1;
    snprintf(left, sizeof left, "rank %d has left", last);
    if (tg_transport_mpi(MPI_COMM_WORLD, &t) != TG_OK ||
        tg_transport_mpi(MPI_COMM_WORLD, &other) != TG_OK ||
        tg_reducer_create("dense", t, N, &config, &r) != TG_OK) {
        check(false, "set-up");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    failures += check(tg_reducer_mean(r, x, x) == TG_OK, "mean");
    if (rank != last)
        failures += says(tg_reducer_mean(r, x, x), TG_E_PEER, left, "a step more");
    MPI_Finalize(); /* all ranks have both transports still */
    if (rank == last)
        failures += says(tg_reducer_mean(r, x, x), TG_E_STATE, "MPI_Finalize", "after it");
    failures += says(tg_reducer_create("dense", other, N, &config, &again), TG_E_STATE,
                     "MPI_Finalize", "a reducer after it");
    failures += says(tg_transport_mpi(MPI_COMM_WORLD, &late), TG_E_STATE, "finalised", "a new one");
    tg_reducer_destroy(r);
    tg_transport_destroy(t);
    tg_transport_destroy(other);
    return failures ? 1 : 0;
}

/* The conformance test of exchange_test.c over MPI: every rank compares its results with plain
 * loops, and a silent rank is named. Run it with mpirun; the exit status is 0 on success. */
#include "exchange_fixture.h"
#include "telegrad/mpi.h"

static int say(const tg_transport *t, const char *what)
{
    fprintf(stderr, "rank %d of %d: %s: %s\n", t->rank, t->size, what, tg_error());
    return 1;
}

/* The last rank is silent, and all others name it. Buffers are not freed: MPI still uses them. */
static int silence(tg_transport *t)
{
    static const fixture_case c = {"direct", "f32", 100};
    static tg__flight f = {.step = 7};
    static tg__pump p;
    tg_codec *codec;
    char name[32];
    if (t->rank == t->size - 1)
        return 0;
    tg__pump_init(&p, t, 5, INT64_C(500000000));
    if (fixture_create(&c, t->rank, t->size, &codec, &f.x) != TG_OK ||
        fixture_encode(f.x, 0) != TG_OK)
        return say(t, "silence");
    snprintf(name, sizeof name, "rank %d", t->size - 1);
    if (fixture_wait(&p, &f) != TG_E_PEER || !strstr(tg_error(), name))
        return say(t, "a silent rank should be named");
    return 0;
}

int main(int argc, char **argv)
{
    tg_transport *t;
    MPI_Init(&argc, &argv);
    if (tg_transport_mpi(MPI_COMM_WORLD, &t) != TG_OK) {
        fprintf(stderr, "%s\n", tg_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
    int bad = 0;
    if (fixture_conformance(t, INT64_C(60000000000)) != TG_OK)
        bad = say(t, "conformance");
    MPI_Barrier(MPI_COMM_WORLD);
    if (!bad)
        bad = silence(t);
    MPI_Barrier(MPI_COMM_WORLD);
    tg_transport_destroy(t);
    if (bad)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    return bad;
}

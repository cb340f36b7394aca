/* The common suite of transports over MPI, plain and decorated: mpirun -n 2..4
 * transport_mpi_test */
#include "telegrad/mpi.h"
#include "transport_suite.h"
#include <time.h>

static int world_rank;

static int check(bool ok, const char *what, const char *text)
{
    if (!ok)
        fprintf(stderr, "transport_mpi_test: rank %d: %s: %s\n", world_rank, what, text);
    return ok ? 0 : 1;
}

static tg_transport *create(const char *link, const char *fault)
{
    tg_transport *t = NULL, *outer = NULL;
    tg_link parsed;
    if (check(tg_transport_mpi(MPI_COMM_WORLD, &t) == TG_OK, "mpi", tg_error()))
        return NULL;
    if (link) {
        if (check(tg_link_parse(link, &parsed) == TG_OK &&
                      tg_transport_shaped(t, &parsed, &outer) == TG_OK,
                  link, tg_error()))
            return NULL;
        t = outer;
    }
    if (fault) {
        if (check(tg_transport_faulty(t, fault, &outer) == TG_OK, fault, tg_error()))
            return NULL;
        t = outer;
    }
    return t;
}

static int run_suite(const char *link, const char *fault)
{
    char error[SUITE_ERROR] = "";
    tg_transport *t = create(link, fault);
    if (!t)
        return 1;
    int failures = check(suite_run(t, error), t->ops->name, error);
    tg_transport_destroy(t);
    return failures;
}

/* A transport is used, destroyed by all ranks without a goodbye, and created again: no message of
 * the first one is left. */
static int run_twice(void)
{
    int failures = 0;
    char error[SUITE_ERROR] = "";
    for (int i = 0; i < 3; i++) {
        tg_transport *t = create(NULL, NULL);
        if (!t)
            return failures + 1;
        suite s = {t, error};
        failures += check(suite_storm(&s, 2, 100000), "again", error);
        tg_transport_destroy(t);
    }
    return failures;
}

/* A rank killed by a fault says goodbye below. */
static int run_kill(void)
{
    tg_transport *t = create(NULL, world_rank == 0 ? "fault:kill=0" : NULL);
    if (!t)
        return 1;
    char error[SUITE_ERROR] = "";
    suite s = {t, error};
    tg_request req = {{0}};
    int failures = 0;
    uint8_t byte = 0;
    if (world_rank == 0) {
        failures += check(suite_send(&s, 1, 4, &byte, 1, &req) == TG_E_STATE, "kill", "no state");
    } else {
        tg_status status = suite_recv(&s, 0, 4, &byte, 1, &req);
        if (status == TG_OK)
            status = suite_wait(&s, &req, NULL);
        failures += check(status == TG_E_PEER && strstr(tg_error(), "rank 0"), "kill", tg_error());
    }
    tg_transport_destroy(t);
    return failures;
}

/* A message that is too long even to be discarded is refused at once. Its sender keeps it until the
 * receiver leaves, and MPI until the end. */
static int run_refused(void)
{
    const size_t len = ((size_t)1 << 26) + 1;
    tg_transport *t = create(NULL, NULL);
    if (!t)
        return 1;
    char error[SUITE_ERROR] = "";
    suite s = {t, error};
    static tg_request req;
    static uint8_t few[2] = {7, 7};
    static uint8_t *many; /* stays reachable, because MPI still uses it */
    int failures = 0;
    if (world_rank == 0) {
        many = calloc(len, 1);
        failures += check(many && suite_send(&s, 1, 4, many, len, &req) == TG_OK &&
                              suite_wait(&s, &req, NULL) == TG_E_PEER,
                          "refused", tg_error());
    } else if (world_rank == 1) {
        failures += check(suite_recv(&s, 0, 4, few, 1, &req) == TG_OK &&
                              suite_wait(&s, &req, NULL) == TG_E_CORRUPT &&
                              strstr(tg_error(), "67108865 bytes from rank 0") && few[0] == 7 &&
                              few[1] == 7,
                          "refused", tg_error());
        failures += check(!t->ops->shut(t), "refused", "released");
    }
    tg_transport_destroy(t);
    return failures;
}

/* Receives that still wait for a message are released when their rank leaves. */
static int run_released(void)
{
    tg_transport *t = create(NULL, NULL);
    if (!t)
        return 1;
    char error[SUITE_ERROR] = "";
    suite s = {t, error};
    tg_request *reqs = calloc(2, sizeof *reqs);
    int failures = 0, peer = world_rank == 0 ? 1 : 0;
    if (!reqs)
        return 1;
    for (int i = 0; i < 2; i++)
        failures += check(suite_recv(&s, peer, 4, NULL, 0, &reqs[i]) == TG_OK, "post", tg_error());
    failures += check(t->ops->shut(t), "released", "not");
    free(reqs); /* before the end, when MPI must not touch them */
    tg_transport_destroy(t);
    return failures;
}

/* All processes of the test are on one machine, which is identified by its lowest rank. */
static int run_nodes(void)
{
    int size, nodes[64];
    MPI_Comm backwards;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split(MPI_COMM_WORLD, 0, size - world_rank, &backwards);
    int failures = check(tg_transport_mpi_nodes(backwards, nodes) == TG_OK, "nodes", tg_error());
    for (int r = 0; r < size && !failures; r++)
        failures += check(nodes[r] == 0, "nodes", "not one machine");
    MPI_Comm_free(&backwards);
    return failures + check(tg_transport_mpi_nodes(MPI_COMM_NULL, nodes) == TG_E_ARG, "nodes", "");
}

/* An intercommunicator's ranks belong to another group. */
static int run_inter(void)
{
    MPI_Comm half, inter;
    tg_transport *t = NULL;
    MPI_Comm_split(MPI_COMM_WORLD, world_rank > 0, world_rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, world_rank > 0 ? 0 : 1, 1, &inter);
    const bool refused = tg_transport_mpi(inter, &t) == TG_E_ARG;
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
    return check(refused && strstr(tg_error(), "intercommunicator"), "inter", tg_error());
}

static int check_asleep(clock_t begin, const char *what)
{
    const double busy_s = (double)(clock() - begin) / CLOCKS_PER_SEC;
    return check(busy_s < 1, what, "busy while it waits");
}

/* A rank that comes two seconds later is waited for without work. */
static int run_late(void)
{
    const struct timespec late = {.tv_sec = 2};
    int size, nodes[64], failures = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD);
    const clock_t begin = clock();
    if (world_rank == size - 1)
        nanosleep(&late, NULL);
    tg_transport *t = create(NULL, NULL);
    failures += check_asleep(begin, "late transport");
    MPI_Barrier(MPI_COMM_WORLD);
    const clock_t again = clock();
    if (world_rank == size - 1)
        nanosleep(&late, NULL);
    failures += check(tg_transport_mpi_nodes(MPI_COMM_WORLD, nodes) == TG_OK, "nodes", tg_error());
    failures += check_asleep(again, "late nodes");
    tg_transport_destroy(t);
    return failures;
}

int main(int argc, char **argv)
{
    tg_transport *t = NULL;
    int level = 0;
    if (tg_transport_mpi(MPI_COMM_NULL, &t) != TG_E_ARG)
        return 1;
    if (MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
        return 1;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    int failures = run_suite(NULL, NULL);
    failures += run_suite("1gbit,1ms", NULL);
    failures += run_suite(NULL, "fault:delay=100us");
    failures += run_twice();
    failures += run_kill();
    failures += run_released();
    failures += run_refused();
    failures += run_nodes();
    failures += run_inter();
    failures += run_late();
    t = create(NULL, NULL);
    if (t) {
        failures += check(t->any_thread == (level == MPI_THREAD_MULTIPLE), "any_thread", "wrong");
        tg_transport_destroy(t);
    }
    MPI_Finalize();
    failures += check(tg_transport_mpi(MPI_COMM_WORLD, &t) == TG_E_STATE, "after the end", "");
    return failures ? 1 : 0;
}

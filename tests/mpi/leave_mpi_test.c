/* A rank fails alone, or finishes before the others, and destroys its transport. Ranks that wait
 * for it learn of it at once, not by a timeout. Run it with mpirun; the exit status is 0 on
 * success. */
#include "telegrad/mpi.h"
#include "telegrad/telegrad.h"

#include <stdio.h>
#include <string.h>

enum { N = 500, TIMEOUT_MS = 20000 };

static int rank, last; /* last: the last rank, which leaves */

static int check(bool ok, const char *what)
{
    if (!ok)
        fprintf(stderr, "leave_mpi_test: rank %d: %s: %s\n", rank, what, tg_error());
    return ok ? 0 : 1;
}

static int create(tg_transport **t_p)
{
    if (tg_transport_mpi(MPI_COMM_WORLD, t_p) == TG_OK)
        return 0;
    check(false, "tg_transport_mpi");
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
}

static tg_status make(tg_transport *t, const char *method, tg_reducer **r_p)
{
    const tg_reducer_config config = {.struct_size = sizeof config, .timeout_ms = TIMEOUT_MS};
    *r_p = NULL;
    return tg_reducer_create(method, t, N, &config, r_p);
}

/* The failure must report that the rank left; after a timeout it would say "sent nothing". A rank
 * that hears first of another, which left because of it, names both. */
static int told(tg_status status, const char *what)
{
    char left[32], because[32];
    snprintf(left, sizeof left, "rank %d has left", last);
    snprintf(because, sizeof because, "because of rank %d", last);
    const bool names = strstr(tg_error(), left) != NULL || strstr(tg_error(), because) != NULL;
    return check(status == TG_E_PEER && names, what);
}

/* One rank has a wrong method, for the first reducer of the transport or for a second one. */
static int wrong_reducer(bool beside)
{
    tg_transport *t;
    tg_reducer *first = NULL, *r;
    int failures = create(&t);
    if (beside)
        failures += check(make(t, "topk", &first) == TG_OK, "first reducer");
    const tg_status status = make(t, rank == last ? "topk:density=7" : "topk", &r);
    if (rank == last)
        failures += check(status == TG_E_SPEC, "wrong reducer");
    else
        failures += told(status, beside ? "beside another" : "wrong reducer");
    tg_reducer_destroy(r);
    tg_reducer_destroy(first);
    tg_transport_destroy(t);
    return failures;
}

/* All ranks have the same wrong method: nobody waits, and another one works on the same
 * transport. */
static int wrong_everywhere(void)
{
    tg_transport *t;
    tg_reducer *r;
    float x[N] = {0};
    int failures = create(&t);
    x[7] = (float)rank;
    failures += check(make(t, "topk:density=7", &r) == TG_E_SPEC, "wrong everywhere");
    failures += check(make(t, "dense", &r) == TG_OK, "right everywhere");
    failures += check(tg_reducer_mean(r, x, x) == TG_OK && x[7] == (float)last / 2, "mean");
    tg_reducer_destroy(r);
    tg_transport_destroy(t);
    return failures;
}

static tg_status begin(tg_transport *t, const char *rule)
{
    static float param[N], grad[N];
    const size_t shape = N;
    const char *const rules[] = {rule};
    const tg_session_config config = {
        .struct_size = sizeof config, .timeout_ms = TIMEOUT_MS, .rules = rules, .nrules = 1};
    const tg_tensor tensor = {.struct_size = sizeof tensor,
                              .name = "w",
                              .shape = &shape,
                              .ndim = 1,
                              .param = tg_array_f32(param, N),
                              .grad = tg_array_f32(grad, N)};
    uint32_t id;
    tg_session *s = NULL;
    tg_status status = tg_session_create(&config, t, &s);
    if (status == TG_OK)
        status = tg_session_add(s, &tensor, &id);
    if (status == TG_OK)
        status = tg_session_begin(s);
    tg_session_destroy(s);
    return status;
}

/* wrong: a setting refused by tg_session_create, or by tg_session_begin. */
static int wrong_session(const char *wrong)
{
    tg_transport *t;
    int failures = create(&t);
    const tg_status status = begin(t, rank == last ? wrong : "w=topk");
    if (rank == last)
        failures += check(status == TG_E_SPEC, wrong);
    else
        failures += told(status, wrong);
    tg_transport_destroy(t);
    return failures;
}

/* One rank takes one step less. What it sent before it left still arrives. */
static int done_early(void)
{
    static float x[N], y[200000];
    tg_transport *t;
    tg_reducer *r, *large;
    const tg_reducer_config config = {.struct_size = sizeof config, .timeout_ms = TIMEOUT_MS};
    int failures = create(&t);
    failures += check(make(t, "dense", &r) == TG_OK, "reducer");
    failures +=
        check(tg_reducer_create("dense", t, TG_COUNT(y), &config, &large) == TG_OK, "large");
    y[199999] = (float)rank;
    failures +=
        check(tg_reducer_mean(large, y, y) == TG_OK && y[199999] == (float)last / 2, "mean");
    if (rank != last)
        failures += told(tg_reducer_mean(r, x, x), "a step more");
    tg_reducer_destroy(r);
    tg_reducer_destroy(large);
    tg_transport_destroy(t);
    return failures;
}

/* Numbers of communicators that were left can be used again, and their new owners receive no old
 * messages. */
static int many_times(void)
{
    int failures = 0;
    for (int i = 0; i < 300 && failures == 0; i++) {
        tg_transport *t;
        tg_reducer *r;
        float x[N] = {0};
        x[i] = (float)(rank + i);
        failures += create(&t);
        failures += check(make(t, i % 2 ? "dense" : "topk:density=0.1", &r) == TG_OK, "again");
        for (int step = 0; step < 1 + i % 5 && failures == 0; step++)
            failures += check(tg_reducer_mean(r, x, x) == TG_OK, "mean again");
        failures += check(x[i] == (float)i + (float)last / 2, "value again");
        tg_reducer_destroy(r);
        tg_transport_destroy(t);
    }
    return failures;
}

int main(int argc, char **argv)
{
    int level, size;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    last = size - 1;
    int failures = wrong_reducer(false);
    failures += wrong_reducer(true);
    failures += wrong_everywhere();
    failures += wrong_session("w=topk:density=7");
    failures += wrong_session("v=topk");
    failures += done_early();
    failures += many_times();
    MPI_Finalize();
    return failures ? 1 : 0;
}

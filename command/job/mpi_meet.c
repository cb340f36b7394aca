/* Every rank sends a word to rank 0, which so knows who is missing. Rank 0 sends two: when it comes
 * itself, and when all are there. Memory of messages stays after an error, as MPI may use it. */
#include "command/job/mpi_meet.h"
#include "command/output/console.h"
#include "command/output/stop.h"
#include "telegrad/clock.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define TO_ROOT 1 /* tags in MPI_COMM_WORLD, which nothing else uses for messages */
#define FROM_ROOT 2
#define NAP_MIN_NS 20000
#define NAP_MAX_NS 2000000
#define ASLEEP_NS INT64_C(1000000000) /* a nap that takes longer: this process was stopped */
#define FIRST_LINE 10                 /* seconds */
#define ROOT_SPEAKS_FIRST 5           /* seconds that other ranks wait longer than rank 0 */

struct wait {
    int rank;
    bool speaks;
    int64_t nap_ns, last_ns;
    double waited_s, limit_s, next_s;
};

static void begin(struct wait *w, double limit_s)
{
    w->nap_ns = NAP_MIN_NS;
    w->last_ns = tg_now_ns(tg_clock_monotonic());
    w->waited_s = 0;
    w->limit_s = limit_s;
    w->next_s = FIRST_LINE;
}

static void say(struct wait *w, const char *who)
{
    char line[128], speaker[32] = "";
    if (console_terminal()) {
        const int columns = console_columns() - 1;
        snprintf(line, sizeof line, "waiting for %s, %.0f s", who, w->waited_s);
        if (columns < (int)sizeof line)
            line[columns] = '\0';
        if (w->waited_s >= 1)
            console_status(line);
        return;
    }
    if (w->waited_s < w->next_s)
        return;
    if (w->rank != 0)
        snprintf(speaker, sizeof speaker, "rank %d: ", w->rank);
    console_say("%swaiting for %s for %.0f s (set-up)", speaker, who, w->waited_s);
    w->next_s *= 2;
}

/* Sleep a little, unless it is time to give up. */
static tg_status nap(struct wait *w, const char *who)
{
    if (stop_came_before(1200)) /* a younger one may come from the abort of a rank that failed */
        return tg_fail(TG_E_STOPPED, "interrupted by %s", stop_signal_name());
    if (w->waited_s >= w->limit_s)
        return tg_fail(TG_E_PEER, "%s sent nothing for %.1f s (set-up)", who, w->limit_s);
    if (w->speaks)
        say(w, who);
    nanosleep(&(struct timespec){.tv_nsec = (long)w->nap_ns}, NULL);
    const int64_t now = tg_now_ns(tg_clock_monotonic()), passed = now - w->last_ns;
    w->waited_s += (double)(passed < ASLEEP_NS ? passed : w->nap_ns) / 1e9;
    w->last_ns = now;
    w->nap_ns = w->nap_ns * 2 < NAP_MAX_NS ? w->nap_ns * 2 : NAP_MAX_NS;
    return TG_OK;
}

/* Test requests. who: of the first that is not over, and how many others. Returns whether all are
 * over. */
static bool all_over(MPI_Request *request, int count, char *who, size_t room)
{
    int first = -1, others = -1;
    for (int i = 0; i < count; i++) {
        int done = 1;
        if (request[i] != MPI_REQUEST_NULL)
            MPI_Test(&request[i], &done, MPI_STATUS_IGNORE);
        if (done)
            continue;
        first = first < 0 ? i : first;
        others++;
    }
    if (others > 0)
        snprintf(who, room, "rank %d and %d other%s", first + 1, others, others > 1 ? "s" : "");
    else
        snprintf(who, room, "rank %d", first + 1);
    return first < 0;
}

static tg_status await_all(struct wait *w, MPI_Request *request, int count)
{
    char who[64];
    while (!all_over(request, count, who, sizeof who))
        TG_TRY(nap(w, who));
    return TG_OK;
}

/* peers: all ranks but 0. word[0] is to be sent, the others are received. */
static tg_status gather(struct wait *w, int peers, int *word, MPI_Request *request)
{
    MPI_Request *sent = request + peers;
    for (int i = 0; i < peers; i++) {
        MPI_Irecv(&word[i + 1], 1, MPI_INT, i + 1, TO_ROOT, MPI_COMM_WORLD, &request[i]);
        MPI_Isend(word, 1, MPI_INT, i + 1, FROM_ROOT, MPI_COMM_WORLD, &sent[i]);
    }
    TG_TRY(await_all(w, request, peers));
    TG_TRY(await_all(w, sent, peers));
    for (int i = 0; i < peers; i++)
        if (word[i + 1] != word[0]) {
            static const char *const names[] = {"to start", "to find the machines",
                                                "to connect a run"};
            return tg_fail(TG_E_MISMATCH,
                           "ranks were started differently: rank 0 waits %s, rank %d %s",
                           names[word[0]], i + 1, names[word[i + 1]]);
        }
    for (int i = 0; i < peers; i++)
        MPI_Isend(word, 1, MPI_INT, i + 1, FROM_ROOT, MPI_COMM_WORLD, &sent[i]);
    return await_all(w, sent, peers);
}

static tg_status report(struct wait *w, double timeout_s, int *word, MPI_Request *request)
{
    int done = 0;
    for (int i = 0; i < 2; i++)
        MPI_Irecv(&word[i + 1], 1, MPI_INT, 0, FROM_ROOT, MPI_COMM_WORLD, &request[i]);
    MPI_Isend(word, 1, MPI_INT, 0, TO_ROOT, MPI_COMM_WORLD, &request[2]);
    w->speaks = w->rank == 1; /* one is enough */
    for (MPI_Test(&request[0], &done, MPI_STATUS_IGNORE); !done;
         MPI_Test(&request[0], &done, MPI_STATUS_IGNORE))
        TG_TRY(nap(w, "rank 0"));
    w->speaks = false; /* rank 0 knows whom all wait for */
    begin(w, timeout_s + ROOT_SPEAKS_FIRST);
    for (done = 0, MPI_Testall(2, request + 1, &done, MPI_STATUSES_IGNORE); !done;
         MPI_Testall(2, request + 1, &done, MPI_STATUSES_IGNORE))
        TG_TRY(nap(w, "rank 0"));
    return TG_OK;
}

tg_status mpi_meet(enum mpi_meet_for what, double timeout_s)
{
    int rank, size;
    if (MPI_Comm_rank(MPI_COMM_WORLD, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(MPI_COMM_WORLD, &size) != MPI_SUCCESS)
        return tg_fail(TG_E_PEER, "MPI did not start");
    const size_t words = (size_t)size + 2, requests = 2 * (size_t)size + 2;
    int *word = calloc(words, sizeof *word);
    MPI_Request *request = calloc(requests, sizeof *request);
    if (!word || !request) {
        free(word);
        free(request);
        return tg_fail(TG_E_NOMEM, "out of memory: %d ranks", size);
    }
    struct wait w = {.rank = rank, .speaks = rank == 0};
    word[0] = (int)what;
    begin(&w, timeout_s);
    const tg_status status =
        rank == 0 ? gather(&w, size - 1, word, request) : report(&w, timeout_s, word, request);
    if (console_terminal() && w.waited_s >= 1)
        console_status("");
    TG_TRY(status);
    free(word);
    free(request);
    return TG_OK;
}

/* Ranks whose parts for several servers differ in size. What windows hold back, and in which order,
 * must not make ranks wait for each other: a part is answered when all ranks have sent theirs. With
 * one window for all servers, in which smaller messages overtake, some of these ranks hold back
 * server 1's part until server 2 answers, and the others server 2's until server 1 does. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "served_ranks.h"
#include "base/mem.h"
#include "exchange/server_window.h"
#include "telegrad/reducer.h"
#include <string.h>

/* Elements other than 0 in each server's part, all of which topk:density=0.2 sends: of a rank with
 * an even number; of the others, those of servers 1 and 2 are exchanged. Their frames are 1/20,
 * 9/10 and 4/10 of a window. So behind the first part, half a window takes a small one, but not a
 * large one; and a window does not take both. */
enum { RANKS = 8, SERVERS = 3, STEPS = 3 };
enum {
    WINDOW = TG__MAX(TG__SERVER_WINDOW_FIRST / RANKS, TG__SERVER_WINDOW_LEAST), /* the first one */
    FIRST = WINDOW / 144,
    LARGE = 5 * (WINDOW / 24),
    SMALL = WINDOW / 12,
    N = 5 * (FIRST + LARGE + SMALL),
    BLOCK = N / SERVERS
};

typedef struct member {
    tg_status status;
    char error[400];
    float g[N], mean[N];
} member;

static member members[RANKS];

static size_t count_of(int rank, int server)
{
    return server == 0 ? FIRST : (rank + server) % 2 == 1 ? LARGE : SMALL;
}

static tg_status reduce(member *m, tg_transport *t)
{
    const tg_reducer_config config = {.struct_size = sizeof config, .timeout_ms = 10000};
    tg_reducer *r;
    for (int q = 0; q < SERVERS; q++)
        for (size_t i = 0; i < count_of(t->rank, q); i++)
            m->g[(size_t)(BLOCK * q) + 100 + 2 * i] = 1;
    TG_TRY(tg_reducer_create("topk:density=0.2,values=f32,exchange=star", t, N, &config, &r));
    tg_status status = TG_OK;
    for (int step = 0; step < STEPS && status == TG_OK; step++)
        status = tg_reducer_mean(r, m->g, m->mean);
    tg_reducer_destroy(r);
    return status;
}

static void be_rank(tg_transport *t, void *arg)
{
    member *m = (member *)arg + t->rank;
    m->status = reduce(m, t);
    if (m->status != TG_OK)
        snprintf(m->error, sizeof m->error, "%s", tg_error());
}

static void unequal_parts(void **state)
{
    (void)state;
    served_job job = {.ranks = RANKS, .servers = SERVERS, .be_rank = be_rank, .arg = members};
    served_run(&job);
    for (int r = 0; r < RANKS; r++) {
        if (members[r].status != TG_OK)
            fail_msg("rank %d: %s", r, members[r].error);
        for (size_t i = 0; i < N; i++)
            if (members[r].mean[i] != (members[0].g[i] + members[1].g[i]) / 2)
                fail_msg("rank %d: element %zu: %g", r, i, (double)members[r].mean[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(unequal_parts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

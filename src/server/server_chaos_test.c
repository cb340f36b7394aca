/* Servers and workers in virtual time, with faults that a seed draws: connections break off, at one
 * end or both, are cut or slow; disks lose what was not synced, or are full; workers and servers
 * are killed, leave, and come again. Each gradient is counted (chaos_world.h):
 *
 *  - what a worker saw answered was applied once, also after each restart of a server
 *  - nothing else was applied more than once: applied, in a residual, or lost with a worker that
 *    was killed or refused
 *  - workers that see a server's part with as many gradients see the same bits
 *  - once all is healed, all workers make steps within a minute
 *  - a worker ends only if it was told to, or for a reason that docs/servers.md gives
 *
 * In mode sync there may be a deadline: a gradient that is late is in the residual, and comes
 * again. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include "chaos_world.h"
#include <signal.h>

enum { TROUBLE_MS = 8000, TICK_MS = 50, HEALED_MS = 60000, LIMIT_S = 60 };

static struct {
    int64_t start_ns[SLOTS]; /* when the next worker comes to a slot; TG__NEVER: one is there */
    life *life[SLOTS];
    int64_t restart_ns[SHARDS]; /* TG__NEVER: it runs */
    int64_t room_ns[SHARDS];    /* when a full disk has room again */
    uint64_t refused, faults;
} director;

/* ---- a seed's job ---------------------------------------------------------------------------- */

static void draw_job(void)
{
    static const char *const modes[] = {
        "async",
        "async:staleness=3",
        "async:staleness=1",
        "async:compensate=0.04",
        "sync",
        "sync",
        "async:staleness=0",
        "async:staleness=2,compensate=0.5",
    };
    static const char *const methods[] = {
        "dense", "fp16", "topk:density=0.004", "topk:density=0.012", "2bit:threshold=1", "bf16",
    };
    world.workers = 1 + (int)draw(SLOTS);
    world.mode = modes[draw(TG_COUNT(modes))];
    world.method = methods[draw(TG_COUNT(methods))];
    world.gathers = strcmp(world.mode, "sync") == 0 || strstr(world.mode, "staleness=0") != NULL;
    /* they see v, which may lack what the server has applied */
    if (strstr(world.mode, "compensate") == NULL && draw(4) == 0)
        world.method = "topk:density=0.012,values=f32,exchange=twoway";
    world.min_workers = world.gathers ? (int)draw((unsigned)world.workers + 1) : 0;
    world.journal_bytes = draw(3) == 0 ? 1 : 1 + draw(8000);
    world.work_ns = (int64_t)(100 + draw(600)) * MS;
    world.most_tokens = 1 + (int)draw(3);
    lines.shards = 1 + (int)draw(SHARDS);
    /* A gradient that is late would be lost without a residual. */
    if (strcmp(world.mode, "sync") == 0 && draw(3) > 0 &&
        (strstr(world.method, "topk") != NULL || strstr(world.method, "2bit") != NULL))
        world.deadline_ms = 20 + (int64_t)draw(1000);
}

static void describe(char text[300])
{
    snprintf(text, 300, "%s, %s, %d workers (min %d), %d servers, deadline %d ms", world.mode,
             world.method, world.workers, world.min_workers, lines.shards, (int)world.deadline_ms);
}

/* ---- workers that end ------------------------------------------------------------------------ */

/* Whether the seat of a worker was given to another one meanwhile. */
static bool lost_seat(const life *l)
{
    bool lost = l->caller.seat_lost;
    for (int q = 0; q < lines.shards && l->caller.entered; q++)
        lost |= lines.holder[q][l->caller.seat] != l->caller.token;
    return lost;
}

/* Nobody told the worker to end: is that as documented? */
static bool is_fair(const life *l)
{
    const char *why = l->error;
    if (strstr(why, "does not remember it") != NULL)
        return world.gathers || lost_seat(l) || l->caller.expelled || l->steps == 0;
    if (strstr(why, "is taken by another worker") != NULL)
        return lost_seat(l) || l->steps == 0;
    return strstr(why, "sent nothing for") != NULL || strstr(why, "was called for") != NULL ||
           strstr(why, "all seats are taken") != NULL;
}

static void bury(life *l)
{
    tg_clock_thread_join(lines.clock, l->thread);
    l->thread = NULL;
    if (l->status == TG_OK || l->killed)
        return;
    director.refused++;
    if (!is_fair(l))
        blame("the worker in seat %d ends after %d steps: %s", l->caller.seat, (int)l->steps,
              l->error);
}

/* Those that have ended are followed by others. */
static void tend(void)
{
    for (int i = 0; i < world.workers; i++) {
        life *l = director.life[i];
        if (l != NULL && l->over) {
            bury(l);
            director.life[i] = NULL;
            director.start_ns[i] = now_ns() + (int64_t)draw(2000) * MS;
        } else if (l == NULL && now_ns() >= director.start_ns[i]) {
            director.life[i] = start_worker(i);
        }
    }
    for (int q = 0; q < lines.shards; q++) {
        machine *m = &world.machine[q];
        if (m->disk.full && now_ns() >= director.room_ns[q])
            m->disk.full = false;
        if (m->thread != NULL && m->over) { /* it was stopped, or its disk is full */
            join_server(m);
            director.restart_ns[q] = now_ns() + (int64_t)draw(1000) * MS;
            if (m->disk.dead)
                kill_server(m, draw(2) == 0);
        } else if (m->thread == NULL && now_ns() >= director.restart_ns[q]) {
            start_server(m);
        }
    }
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void harm_line(unsigned kind)
{
    shop *s = &lines.shop[draw((unsigned)lines.shards)];
    line *l = s->place[draw(SEATS)].line;
    if (l == NULL || is_over(l, AT_SERVER) || is_over(l, AT_WORKER))
        return;
    if (kind == 0)
        break_off(l, AT_SERVER, true);
    else
        break_off(l, kind == 1 ? AT_SERVER : AT_WORKER, false);
}

/* A worker, a server, or both are cut off. */
static void cut(void)
{
    const int slot = (int)draw(SLOTS + 1), shard = (int)draw((unsigned)lines.shards + 1);
    const int64_t ns = (int64_t)(50 + draw(draw(4) == 0 ? 6000 : 1500)) * MS;
    for (int i = 0; i < SLOTS; i++)
        for (int q = 0; q < lines.shards; q++)
            if ((slot == SLOTS || slot == i) && (shard == lines.shards || shard == q))
                close_road(i, q, ns);
}

static void harm_server(unsigned kind)
{
    const int q = (int)draw((unsigned)lines.shards);
    machine *m = &world.machine[q];
    if (m->thread == NULL || m->over)
        return;
    if (kind == 0) {
        m->stop = 1;
        wake(&lines.shop[q].end);
    } else if (kind == 1) {
        m->disk.full = m->was_full = true;
        director.room_ns[q] = now_ns() + (int64_t)draw(2000) * MS;
    } else if (kind == 2) {
        m->disk.dies_in = 1 + (long)draw(12);
    } else {
        kill_server(m, draw(2) == 0);
        director.restart_ns[q] = now_ns() + (int64_t)draw(2000) * MS;
    }
}

static void harm(void)
{
    const unsigned kind = draw(15);
    life *l = director.life[draw((unsigned)world.workers)];
    director.faults++;
    if (kind < 5)
        harm_line(kind < 3 ? kind : 1 + kind % 2);
    else if (kind < 7)
        cut();
    else if (kind == 7)
        lines.road[draw(SLOTS)][draw((unsigned)lines.shards)].delay_ns =
            (int64_t)(1 + draw(draw(2) == 0 ? 1500 : 20)) * MS;
    else if (kind < 10 && l != NULL && !l->over)
        kill_worker(l);
    else if (kind == 10 && l != NULL)
        l->leaves = true;
    else if (kind > 10)
        harm_server(kind - 11);
}

/* ---- the run of a seed ----------------------------------------------------------------------- */

static void trouble(void)
{
    int64_t due = now_ns() + 500 * MS;
    const int64_t until = now_ns() + TROUBLE_MS * MS;
    while (now_ns() < until && *world.failure == '\0') {
        tend();
        for (; now_ns() >= due; due += (int64_t)(20 + draw(800)) * MS)
            harm();
        sleep_for(TICK_MS * MS);
    }
}

/* All is well again: all workers make steps. */
static void heal(void)
{
    uint64_t steps[SLOTS] = {0};
    const life *seen[SLOTS] = {NULL};
    for (int i = 0; i < SLOTS; i++)
        for (int q = 0; q < lines.shards; q++) {
            lines.road[i][q].delay_ns = MS;
            lines.road[i][q].closed_until_ns = TG__MIN(now_ns(), lines.road[i][q].closed_until_ns);
        }
    for (int q = 0; q < lines.shards; q++) {
        director.room_ns[q] = now_ns();
        world.machine[q].disk.dies_in = 0;
    }
    world.work_ns = 3000 * MS; /* those who go on at once need not make many */
    const int64_t until = now_ns() + HEALED_MS * MS;
    for (int late = world.workers; late > 0 && *world.failure == '\0';) {
        tend();
        late = 0;
        for (int i = 0; i < world.workers; i++) {
            const life *l = director.life[i];
            if (l != NULL && l != seen[i]) {
                seen[i] = l;
                steps[i] = l->steps;
            }
            late += l == NULL || l->steps < steps[i] + 2;
        }
        if (late > 0 && now_ns() >= until) {
            blame("%d workers have made no two steps in the minute after all was healed", late);
            for (int i = 0; i < world.workers; i++)
                if (director.life[i] != NULL)
                    print_message("slot %d, seat %d: %d steps, %d losses\n", i,
                                  director.life[i]->caller.seat, (int)director.life[i]->steps,
                                  director.life[i]->caller.losses);
        }
        sleep_for(4 * TICK_MS * MS);
    }
}

static void end_workers(void)
{
    const bool in_order = !world.gathers && *world.failure == '\0';
    for (int i = 0; i < world.workers; i++) {
        life *l = director.life[i];
        if (l == NULL)
            continue;
        if (in_order && draw(2) == 0)
            l->leaves = true;
        else
            kill_worker(l);
    }
    for (int i = 0; i < world.workers; i++)
        if (director.life[i] != NULL) {
            bury(director.life[i]);
            director.life[i] = NULL;
        }
}

/* The servers end, in order or not, and are started once more. */
static void end_servers(void)
{
    for (int again = 0; again < 2; again++)
        for (int q = 0; q < lines.shards; q++) {
            machine *m = &world.machine[q];
            if (m->thread != NULL && !m->over && draw(2) == 0) {
                m->stop = 1;
                wake(&lines.shop[q].end);
                join_server(m);
            }
            kill_server(m, draw(2) == 0);
            if (again == 0)
                start_server(m);
            sleep_for(MS);
        }
}

static void play(void *folder)
{
    for (int q = 0; q < lines.shards; q++) {
        machine *m = &world.machine[q];
        char path[64];
        *m = (machine){.number = q};
        snprintf(path, sizeof path, "%s/%d", (const char *)folder, q);
        assert_int_equal(mkdir(path, 0777), 0);
        m->disk.draw = draw;
        m->disk.on_death = on_death;
        m->disk.arg = m;
        begin_disk(&m->disk, path);
        director.restart_ns[q] = 0;
        for (int i = 0; i < SLOTS; i++)
            lines.road[i][q].delay_ns = (int64_t)(1 + draw(20)) * MS;
    }
    trouble();
    heal();
    end_workers();
    end_servers();
    for (int q = 0; q < lines.shards; q++)
        end_disk(&world.machine[q].disk);
}

/* What became of all tokens. */
static struct {
    uint64_t steps;
    int tokens, applied, held, lost;
} count;

static void count_all(void)
{
    memset(&count, 0, sizeof count);
    for (int id = 0; id < TOKENS; id++) {
        const float w = world.machine[shard_of(id % N)].w[id / N][id % N];
        const bool applied = w < 0 || w > 0, held = world.token[id].held;
        count.tokens += world.token[id].fate != UNUSED;
        count.applied += applied;
        count.held += held;
        count.lost += world.token[id].fate == SENT && !applied && !held;
        if (applied && held)
            blame("token %d was applied, and is in a residual, too", id);
    }
    if (count.applied + count.held + count.lost != count.tokens)
        blame("%d tokens were sent, but %d applied, %d are in residuals, %d lost", count.tokens,
              count.applied, count.held, count.lost);
    for (int i = 0; i < world.lives; i++) {
        count.steps += world.life[i]->steps;
        free(world.life[i]);
    }
}

static char repeat[120];

static void on_alarm(int sig)
{
    (void)sig;
    if (write(STDERR_FILENO, repeat, strlen(repeat)) < 0)
        _exit(2);
    abort();
}

/* Returns false, and says how to repeat it, if something is wrong. */
static bool play_seed(uint64_t seed, bool tells)
{
    char folder[] = "/tmp/tg-chaos-XXXXXX", text[300], command[60];
    assert_non_null(mkdtemp(folder));
    memset(&world, 0, sizeof world);
    memset(&director, 0, sizeof director);
    memset(&lines, 0, sizeof lines);
    world.seed = seed;
    world.state = seed * 0x9e3779b97f4a7c15u + 1;
    lines.draw = draw;
    pthread_mutex_init(&lines.mutex, NULL);
    draw_job();
    describe(text);
    snprintf(repeat, sizeof repeat, "TELEGRAD_SEED=%llu TELEGRAD_SEEDS=1 server_chaos_test\n",
             (unsigned long long)seed);
    alarm(LIMIT_S);
    assert_int_equal(tg_clock_virtual_create(0, &lines.clock), TG_OK);
    assert_int_equal(tg_clock_enter(lines.clock, 0), TG_OK);
    play(folder);
    const double seconds = 1e-9 * (double)now_ns();
    count_all();
    tg_clock_leave(lines.clock);
    tg_clock_virtual_destroy(lines.clock);
    alarm(0);
    if (tells || *world.failure != '\0')
        print_message("seed %llu: %s: %.1f s, %d faults, %d workers came, %d refused, %d steps, "
                      "%d tokens: %d applied, %d in residuals, %d lost with workers; %d buckets "
                      "late\n",
                      (unsigned long long)seed, text, seconds, (int)director.faults, world.lives,
                      (int)director.refused, (int)count.steps, count.tokens, count.applied,
                      count.held, count.lost, (int)world.late);
    if (*world.failure != '\0')
        print_message("%s\nrepeat it: %s", world.failure, repeat);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
    return *world.failure == '\0';
}

/* TELEGRAD_SEED is the first of TELEGRAD_SEEDS seeds. */
static void test_seeds(void **state)
{
    const char *from = getenv("TELEGRAD_SEED"), *many = getenv("TELEGRAD_SEEDS");
    const uint64_t first = from == NULL ? 1 : strtoull(from, NULL, 10),
                   seeds = many == NULL ? 300 : strtoull(many, NULL, 10);
    uint64_t late = 0;
    int failed = 0;
    (void)state;
    signal(SIGALRM, on_alarm);
    for (uint64_t seed = first; seed < first + seeds && failed < 10; seed++) {
        failed += !play_seed(seed, seeds <= 20);
        late += world.late;
    }
    print_message("%llu buckets came after the deadline\n", (unsigned long long)late);
    assert_true(late > 0 || seeds < 100);
    if (failed > 0)
        fail_msg("%d seeds failed", failed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seeds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

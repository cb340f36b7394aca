/* One rank of a job sends invalid content in valid envelopes: in the handshake, while the network
 * is measured and parameters are distributed, and in the steps of every method, with and without
 * nodes. The others end with an error that names it, or finish. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "hostile_session.h"
#include "mutate.h"

enum { SEEDS = 16 };

typedef hostile_scene scene;

static hostile_rank *const ranks = hostile_ranks;

static void run(const scene *s, mutation *m, uint64_t *sends_p)
{
    *sends_p = hostile_sessions(s, 60000, mutate, m);
}

static bool names(const char *error, int r)
{
    char name[24];
    snprintf(name, sizeof name, "rank %d", r);
    return strstr(error, name) != NULL;
}

/* True if the rank's error names the hostile rank, or a rank that left because of it. */
static bool leads_there(const scene *s, int r)
{
    if (names(ranks[r].error, s->hostile))
        return true;
    for (int i = 0; i < s->world; i++)
        if (i != r && i != s->hostile && names(ranks[r].error, i) && ranks[i].status != TG_OK &&
            names(ranks[i].error, s->hostile))
            return true;
    return false;
}

static void judge(const scene *s, const mutation *m)
{
    for (int i = 0; i < s->world; i++)
        if (i != s->hostile && ranks[i].status != TG_OK && !leads_there(s, i))
            fail_msg("%s, %s, seed %d, message %d, kind %d, rank %d: %s", s->method, s->strategy,
                     (int)m->seed, (int)m->number, (int)mutation_draw(m, 0, MUTATIONS), i,
                     ranks[i].error);
}

/* Change one of the first `most` messages of a run, this many times. */
static void attack_first(const scene *s, uint64_t most, uint64_t seeds, uint64_t first)
{
    mutation m = {.number = UINT64_MAX, .last = UINT64_MAX};
    uint64_t sends, unused;
    run(s, &m, &sends);
    for (int i = 0; i < s->world; i++)
        if (ranks[i].status != TG_OK)
            fail_msg("%s, %s, unharmed: %s", s->method, s->strategy, ranks[i].error);
    for (uint64_t seed = 0; seed < seeds; seed++) {
        m = (mutation){.seed = first + seed};
        m.number = mutation_draw(&m, 100, (size_t)TG__MIN(sends, most));
        m.last = m.number;
        run(s, &m, &unused);
        judge(s, &m);
    }
}

static void attack(const scene *s, uint64_t seeds, uint64_t first)
{
    attack_first(s, UINT64_MAX, seeds, first);
}

/* Settings and claims, and each rank's hashes of them. */
static void handshake(void **state)
{
    (void)state;
    for (int world = 2; world <= 4; world++)
        for (int who = 0; who < world; who++) {
            const scene s = {"dense", "ssgd", NULL, TG_DRIVER_AUTO, world, who};
            attack_first(&s, 2 * ((uint64_t)world - 1), 4 * SEEDS,
                         400000 + 10000 * (uint64_t)world + 1000 * (uint64_t)who);
        }
}

/* Steps of every method. */
static void every_method(void **state)
{
    size_t count;
    const tg_entry *const *list = tg_registry_entries(TG_KIND_METHOD, &count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        const scene s = {
            list[i]->name, "ssgd", NULL, i % 2 ? TG_DRIVER_THREAD : TG_DRIVER_INLINE, 3, 1};
        attack(&s, SEEDS, 1000 * i);
    }
}

static void every_strategy(void **state)
{
    size_t count;
    const tg_entry *const *list = tg_registry_entries(TG_KIND_STRATEGY, &count);
    (void)state;
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i]->name, "server") == 0) /* see server_test.c */
            continue;
        const scene s = {
            tg_registry_strategy_method(list[i]->name), list[i]->name, NULL, TG_DRIVER_AUTO, 3, 1};
        if (tg_registry_strategy_optimizer(list[i]->name) == NULL)
            attack(&s, SEEDS, 100000 + 1000 * i);
    }
}

/* A node's member, its leader, and the leader of the first node. */
static void nodes(void **state)
{
    static const int of[] = {0, 0, 1, 1};
    static const char *const methods[] = {"dense", "topk:density=0.1", "powersgd:rank=1"};
    (void)state;
    for (int who = 0; who < 4; who++)
        for (size_t i = 0; i < 3; i++) {
            const scene s = {methods[i], "ssgd", of, TG_DRIVER_AUTO, 4, who};
            attack(&s, SEEDS, 200000 + 1000 * (uint64_t)who + 100 * i);
        }
}

/* The network is measured; most messages belong to that. */
static void measurement(void **state)
{
    static const int of[] = {0, 0, 1, 1};
    (void)state;
    for (int who = 0; who < 3; who++)
        for (int two = 0; two < 2; two++) {
            const scene s = {"dense:exchange=auto", "ssgd",      two ? of : NULL,
                             TG_DRIVER_AUTO,        two ? 4 : 3, who};
            attack(&s, 2 * SEEDS, 300000 + 1000 * (uint64_t)who + 100 * (uint64_t)two);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(handshake), cmocka_unit_test(every_method),
                                       cmocka_unit_test(every_strategy), cmocka_unit_test(nodes),
                                       cmocka_unit_test(measurement)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

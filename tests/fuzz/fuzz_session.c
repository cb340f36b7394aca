/* A rank's messages in a job of sessions contain what the input says, behind valid seals, from the
 * first message of the handshake on. The other ranks end with a reason, or finish. If it tells them
 * different things in a step, they may wait for each other until the deadline, which is short here.
 *
 *     0  1  bit 0: two nodes; 1: the network is measured; 2: a communication thread; above: the
 *           rank that lies
 *     1  1  bit 7: number of a strategy; else number of a method
 *     2     lies (fuzz_lies.h), after as many honest messages as the first byte says */
#include "fuzz_lies.h"

#include "hostile_session.h"

enum { HEAD = 2, TIMEOUT_MS = 1000 };

static void change(void *arg, uint64_t number, uint16_t *flags_p, uint8_t *payload, size_t *len_p)
{
    (void)number;
    const size_t room = *len_p + HOSTILE_ROOM;
    fuzz_lie(arg, flags_p, payload, len_p, room);
    *len_p = TG__MIN(*len_p, room);
}

static void choose(uint8_t number, hostile_scene *s)
{
    const bool strategy = number & 128;
    size_t count;
    const tg_entry *const *list =
        tg_registry_entries(strategy ? TG_KIND_STRATEGY : TG_KIND_METHOD, &count);
    const char *name = list[number % 128 % count]->name;
    s->method = strategy ? tg_registry_strategy_method(name) : name;
    s->strategy = strategy ? name : "ssgd";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int nodes[] = {0, 0, 1, 1};
    hostile_scene s = {.strategy = "ssgd"};
    if (size < HEAD)
        return 0;
    choose(data[1], &s);
    if (data[0] & 2)
        s.method = "dense:exchange=auto";
    s.nodes = data[0] & 1 ? nodes : NULL;
    s.world = data[0] & 1 ? 4 : 3;
    s.driver = data[0] & 4 ? TG_DRIVER_THREAD : TG_DRIVER_INLINE;
    s.hostile = (data[0] >> 3) % s.world;
    fuzz_lies lies = {.data = data + HEAD, .left = size - HEAD};
    lies.honest = (unsigned)fuzz_take(&lies, 1);
    (void)hostile_sessions(&s, TIMEOUT_MS, change, &lies);
    for (int r = 0; r < s.world; r++)
        if (hostile_ranks[r].status != TG_OK && hostile_ranks[r].error[0] == '\0')
            abort();
    return 0;
}

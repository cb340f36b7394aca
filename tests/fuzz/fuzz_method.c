/* A rank's messages in the rounds of any method contain what the input says, behind valid seals.
 * Receivers refuse each round or accept it; further steps follow as long as all ranks go on.
 *
 *     0  1  method, by number              1  1  choice of its exchange
 *     2  1  ranks and which of them lies   3  1  bits by step: dense; above: dropped
 *     4     lies (fuzz_lies.h) */
#include "fuzz_lies.h"

#include "method_ranks.h"

enum { HEAD = 4, STEPS = 3, SIZES = 4 };

typedef struct scene {
    char text[128];
    int size, who;
    unsigned dense, dropped;
} scene;

/* Choice number i of its exchanges, except auto, which cannot be created, and those that need
 * servers. */
static void choose_exchange(const tg_key *key, size_t i, char word[32])
{
    size_t count = 0;
    for (const char *pass = "12"; *pass; pass++) {
        const char *p = key->choices;
        for (size_t at = 0; *p; at++) {
            const size_t len = strcspn(p, "|");
            snprintf(word, 32, "%.*s", (int)len, p);
            if (*pass == '2' && at == i % count && strcmp(word, "auto") != 0 &&
                strcmp(word, "star") != 0 && strcmp(word, "twoway") != 0)
                return;
            count += *pass == '1';
            p += len + (p[len] == '|');
        }
    }
    snprintf(word, 32, "%s", key->def);
}

static void read_scene(const uint8_t *head, scene *s)
{
    size_t count;
    const tg_entry *const *list = tg__method_entries(&count);
    const tg_entry *e = list[head[0] % count];
    const tg_key *key = e->keys;
    bool warms = false;
    char exchange[32];
    for (const tg_key *k = e->keys; k->name != NULL; k++) {
        warms = warms || strcmp(k->name, "warmup") == 0;
        if (strcmp(k->name, "exchange") == 0)
            key = k;
    }
    choose_exchange(key, head[1], exchange);
    *s = (scene){.size = 2 + head[2] % (SIZES - 1),
                 .dense = head[3] % (1u << STEPS),
                 .dropped = head[3] / (1u << STEPS)};
    s->who = head[2] / (SIZES - 1) % s->size;
    snprintf(s->text, sizeof s->text, "%s:exchange=%s%s", e->name, exchange,
             warms ? ",warmup=0" : "");
}

static void gradients(uint64_t step)
{
    const tg_rng_key key = {.seed = 5, .purpose = TG_PURPOSE_TEST, .step = step};
    for (int r = 0; r < ranks_size; r++)
        for (size_t i = 0; i < RANKS_N; i++)
            ranks[r].g[i] = (float)tg_rng_normal(&key, i + (size_t)r * RANKS_N);
}

/* Whether the ranks still agree about the round. A lie may have told them different things; real
 * ranks would then wait for messages that never come, until the first of them leaves. */
static bool agree(tg__exchange *const *x)
{
    for (int r = 1; r < ranks_size; r++)
        if ((x[r] == NULL) != (x[0] == NULL) ||
            (x[r] != NULL && (x[r]->n != x[0]->n || x[r]->ops != x[0]->ops)))
            return false;
    return true;
}

/* Whether all ranks have finished the round. */
static bool play_round(tg__exchange *const *x, fuzz_liar *liar)
{
    static hand h;
    bool all = true;
    h = (hand){.x = x, .size = ranks_size, .change = fuzz_change, .arg = liar};
    hand_play(&h);
    for (int r = 0; r < ranks_size; r++) {
        fuzz_refused(h.status[r]);
        all = all && h.status[r] == TG_OK && x[r]->ops->finished(x[r]);
    }
    return all;
}

static bool play_step(const scene *s, uint64_t t, fuzz_liar *liar)
{
    tg__exchange *x[SIZES] = {NULL};
    const bool coded = !(s->dense >> t & 1);
    gradients(t);
    for (int r = 0; r < ranks_size; r++) {
        ranks[r].task = (tg__task){.step = t, .g = ranks[r].g, .coded = coded};
        assert_int_equal(ranks[r].m->def->program->begin(ranks[r].m, &ranks[r].task, &x[r]), TG_OK);
    }
    while (x[0] != NULL) {
        if (!agree(x) || !play_round(x, liar))
            return false;
        for (int r = 0; r < ranks_size; r++) {
            const tg_status status =
                ranks[r].m->def->program->next(ranks[r].m, &ranks[r].task, &x[r]);
            fuzz_refused(status);
            if (status != TG_OK)
                return false;
            ranks[r].task.round++;
        }
    }
    if (!agree(x))
        return false;
    const bool dropped = s->dropped >> t & 1;
    ranks_settle(dropped);
    for (int r = 0; r < ranks_size; r++)
        (void)tg__method_heal(ranks[r].m, false);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    scene s;
    if (size < HEAD)
        return 0;
    read_scene(data, &s);
    fuzz_liar liar = {.lies = {.data = data + HEAD, .left = size - HEAD}, .who = s.who};
    ranks_start(s.text, s.size);
    for (uint64_t t = 0; t < STEPS && play_step(&s, t, &liar); t++)
        ;
    ranks_stop();
    return 0;
}

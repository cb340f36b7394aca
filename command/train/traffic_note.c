#include "command/train/traffic_note.h"
#include "command/job/launch.h"
#include "command/train/run_notes.h"
#include "telegrad/simulate.h"
#include <stdio.h>
#include <string.h>

#define SIDE 256  /* of the matrix whose exchange stands for all */
#define MORE 1.05 /* times the bytes of dense exchanges: told from here on */

/* An exchange of that matrix, by a method. */
struct traffic {
    double share;   /* of the bytes of a dense exchange */
    double seconds; /* over the slow link */
};

static const tg_link slow = {
    .struct_size = sizeof slow, .up_bps = 100000000, .down_bps = 100000000, .delay_ns = 1000000};

static tg_status measure(const char *method, int world, struct traffic *t)
{
    static const size_t shape[] = {SIDE, SIDE};
    static const tg_sim_tensor matrix = {"matrix", shape, 2};
    const tg_session_config config = {
        .struct_size = sizeof config, .method = method, .steps_per_epoch = TG_DEFAULT_EPOCH_STEPS};
    tg_sim_exchange x = {.struct_size = sizeof x};
    tg_simulation *sim;
    TG_TRY(tg_simulation_create(&config, &matrix, 1, &sim));
    const tg_status status = tg_simulation_exchange(sim, world, &slow, &x);
    tg_simulation_destroy(sim);
    TG_TRY(status);
    *t = (struct traffic){x.bytes[1] / x.bytes[0], x.wire_ns[1] / 1e9};
    return TG_OK;
}

static const tg_key *key_of(const tg_spec *method, const char *name)
{
    const tg_key *key = tg_spec_entry(method)->keys;
    while (key && key->name && strcmp(key->name, name) != 0)
        key++;
    return key && key->name ? key : NULL;
}

/* Neither the absence of an exchange, nor one that is not known yet, nor one that needs servers. */
static bool is_plain(const char *exchange)
{
    return strcmp(exchange, "none") != 0 && strcmp(exchange, "auto") != 0 &&
           strcmp(exchange, "star") != 0 && strcmp(exchange, "twoway") != 0;
}

/* gtopk is there for comparison only. */
static bool is_advised(const char *exchange)
{
    return is_plain(exchange) && strcmp(exchange, "gtopk") != 0;
}

/* The method's spec with another exchange. */
static void with_exchange(const tg_spec *method, const char *exchange, char text[512])
{
    const char *normal = tg_spec_text(method), *at = strstr(normal, "exchange=");
    const char *value = at + strlen("exchange=");
    snprintf(text, 512, "%.*s%s%s", (int)(value - normal), normal, exchange,
             value + strcspn(value, ","));
}

/* The fastest of the method's exchanges that send less than a dense one; "": none. */
static void find_better(const tg_spec *method, int world, char name[64], struct traffic *best)
{
    char choices[256], *rest = choices, text[512];
    snprintf(choices, sizeof choices, "%s", key_of(method, "exchange")->choices);
    name[0] = '\0';
    for (char *word; (word = strsep(&rest, "|"));) {
        struct traffic t;
        with_exchange(method, word, text);
        if (!is_advised(word) || measure(text, world, &t) != TG_OK || t.share >= 1 ||
            (name[0] && t.seconds >= best->seconds))
            continue;
        snprintf(name, 64, "%s", word);
        *best = t;
    }
}

/* The ranks that exchange coded gradients; 0: not known yet. */
static int exchanging(const struct run_options *o)
{
    const uint64_t ranks = launch_ranks_told(&o->net, o->workers);
    if (o->nodes == OPT_NODES_AUTO || ranks > TG_SIM_WORLD_MAX)
        return 0;
    return (int)(o->nodes > 0 ? (ranks + o->nodes - 1) / o->nodes : ranks);
}

static bool is_replaced(const struct run_options *o)
{
    for (size_t i = 0; i < o->rule_count; i++)
        if (strncmp(o->rules[i], "*=", 2) == 0)
            return true;
    return false;
}

void traffic_note_add(struct run_options *o, const tg_spec *method)
{
    const int world = exchanging(o);
    struct traffic own, better = {0};
    char name[64], instead[160] = "dense";
    if (world < 2 || is_replaced(o) || !tg_spec_has(method, "exchange") ||
        !is_plain(tg_spec_word(method, "exchange")) || key_of(method, "threshold"))
        return;
    if (measure(tg_spec_text(method), world, &own) != TG_OK || own.share < MORE)
        return; /* creating the session reports errors */
    find_better(method, world, name, &better);
    if (name[0])
        snprintf(instead, sizeof instead, "exchange=%s, which sends %.2g times as many as dense",
                 name, better.share);
    run_notes_add(o, true,
                  "method %s: among %d %s, exchange=%s sends %.3g times as many bytes as dense "
                  "exchanges; instead: %s",
                  tg_spec_name(method), world, o->nodes > 0 ? "nodes" : "workers",
                  tg_spec_word(method, "exchange"), own.share, instead);
}

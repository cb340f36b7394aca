/* What the meeting point tells those who have joined: for whom it waits, and why it gives up. */
#include "net/fields.h"
#include "net/meet.h"
#include "telegrad/clock.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define GOODBYE_NS INT64_C(300000000)

/* Whether somebody is here with the key at this position of the list; without a list: as this
 * rank. */
static bool is_here(const tg__hall *h, int which)
{
    for (int i = 0; i < h->n->size - 1; i++)
        if (h->joined[i].caller.state &&
            which == (h->n->allow ? h->joined[i].position : h->joined[i].wants))
            return true;
    return false;
}

/* Whether all who are here want certain ranks: then the others are known by theirs. */
static bool ranks_are_known(const tg__hall *h)
{
    for (int i = 0; i < h->n->size - 1; i++)
        if (h->joined[i].caller.state && h->joined[i].wants == 0)
            return false;
    return true;
}

/* A key that the list gives no name. */
static void print_mark(const tg__public_key *key, char name[80])
{
    char mark[TG_KEY_TEXT];
    tg__key_mark(key, mark);
    snprintf(name, 80, "key %.70s", mark);
}

/* What the meeting point waits for: "2 of 3 other ranks (not here: anna, bob)".
 * lacks  who has not come: the same, or the name alone, and "has" or "have" */
static void describe(const tg__hall *h, char waits[TG__TEXT_MAX], char lacks[TG__TEXT_MAX])
{
    const tg_net *n = h->n;
    const tg_keys *list = n->allow;
    const int missing = n->size - 1 - h->count;
    const int first = list ? 0 : 1, last = list                 ? (int)list->count - 1
                                           : ranks_are_known(h) ? n->size - 1
                                                                : 0;
    const size_t room = TG__TEXT_MAX - 8; /* lacks needs more */
    size_t at = (size_t)snprintf(waits, room, "%d of %d other ranks", missing, n->size - 1);
    char name[80] = "";
    int named = 0;
    for (int k = first; k <= last; k++) {
        if (is_here(h, k) || at + sizeof name + 4 > room)
            continue;
        if (list && n->config->key &&
            tg__key_equal(&list->entry[k].key, &n->config->key->public_key))
            snprintf(name, sizeof name, "another process with rank 0's own key");
        else if (list && *list->entry[k].name)
            snprintf(name, sizeof name, "%s", list->entry[k].name);
        else if (list)
            print_mark(&list->entry[k].key, name);
        else
            snprintf(name, sizeof name, "rank %d", k);
        at +=
            (size_t)snprintf(waits + at, room - at, "%s%s", named++ ? ", " : " (not here: ", name);
    }
    if (named > 0)
        snprintf(waits + at, room - at, ")");
    tg__make_printable(waits);
    tg__make_printable(name);
    snprintf(lacks, TG__TEXT_MAX, "%.*s %s", (int)room, missing == 1 && named == 1 ? name : waits,
             missing == 1 ? "has" : "have");
}

/* Tell those who have joined whom all wait for, if it has changed. */
static tg_status tell_waits(tg__hall *h, const char *waits, const char *lacks)
{
    uint8_t body[2 * (2 + TG__TEXT_MAX)];
    tg__pack p = {.at = body, .end = body + sizeof body};
    if (strcmp(waits, h->waits) == 0)
        return TG_OK;
    snprintf(h->waits, sizeof h->waits, "%s", waits);
    tg__pack_text(&p, waits);
    tg__pack_text(&p, lacks);
    for (int i = 0; i < h->n->size - 1; i++) {
        tg__caller *c = &h->joined[i].caller;
        if (c->state && c->say_len - c->say_at < 4 * sizeof body) /* it reads */
            TG_TRY(tg__caller_say(c, TG__SAID_WAITS, body, (size_t)(p.at - body)));
    }
    return TG_OK;
}

tg_status tg__hall_look(tg__hall *h)
{
    const size_t most = tg__door_watch_max(&h->door) + (size_t)h->n->size + h->leg_count;
    if (h->polled_cap < most) {
        struct pollfd *grown = realloc(h->polled, 2 * most * sizeof *grown);
        if (!grown)
            return tg_fail(TG_E_NOMEM, "out of memory: meeting point");
        h->polled = grown;
        h->polled_cap = 2 * most;
    }
    size_t count = tg__door_watch(&h->door, h->polled);
    for (int i = 0; i < h->n->size - 1; i++)
        if (h->joined[i].caller.state)
            h->polled[count++] = tg__caller_watch(&h->joined[i].caller);
    for (size_t i = 0; i < h->leg_count; i++)
        h->polled[count++] = tg__caller_watch(&h->legs[i].caller);
    (void)poll(h->polled, (nfds_t)count, TG__LOOK_MS);
    tg__door_step(&h->door);
    h->n->few_files |= h->door.few_files;
    return TG_OK;
}

tg_status tg__hall_wait(tg__hall *h)
{
    char waits[TG__TEXT_MAX], lacks[TG__TEXT_MAX];
    describe(h, waits, lacks);
    TG_TRY(tell_waits(h, waits, lacks));
    return tg__net_patience_for(h->n, waits, lacks, h->refusals.text);
}

void tg__hall_leave(tg__hall *h, tg_status status)
{
    uint8_t body[TG__LEAVES_MAX];
    const size_t len = tg__net_write_leaves(status, body);
    const int64_t until_ns = tg_now_ns(tg_clock_monotonic()) + GOODBYE_NS;
    for (int i = 0; h->joined && i < h->n->size - 1; i++) {
        tg__caller *c = &h->joined[i].caller;
        if (c->state && tg__caller_say(c, TG__SAID_LEAVES, body, len) != TG_OK)
            tg__caller_end(c);
        else
            c->body_max = 0; /* who has left does not end what is to be said */
    }
    for (bool over = false; !over && tg_now_ns(tg_clock_monotonic()) < until_ns;) {
        over = true;
        for (int i = 0; h->joined && i < h->n->size - 1; i++) {
            tg__caller *c = &h->joined[i].caller;
            if (c->state && tg__caller_step(c) &&
                (!tg__caller_has_said(c) || !tg__stream_is_over(c->stream)))
                over = false;
        }
        if (!over)
            (void)poll(NULL, 0, 1);
    }
}

/* The meeting point: it waits until all have joined, gives them ranks, and tells them of each
 * other.
 *
 * JOIN     rank wanted (4 bytes; 0: any), size (4; 0: any), port (2), machine (8), job (text), the
 *          address to be reached at (text; "": that of the connection, and the port)
 * ROSTER   nonce (16), size (4), the rank of its receiver (4), then per rank: key (32), machine
 *          (8), host (text; "": where the receiver found the meeting point), port (2)
 * REFUSED  status (4), text */
#include "net/meet.h"
#include "net/directory.h"
#include "net/fields.h"
#include "telegrad/tools.h"
#include <openssl/rand.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *job_of(const tg_net *n)
{
    return n->config->job ? n->config->job : "";
}

static bool is_allowed(void *arg, const tg__public_key *key)
{
    const tg_net *n = arg;
    if (n->config->allow)
        return tg__keys_find(n->config->allow, key) >= 0;
    for (int r = 1; r < n->size; r++) {
        const tg__public_key *known = tg__directory_key(n, r);
        if (known && tg__key_equal(known, key))
            return true;
    }
    return false;
}

void tg__hall_refuse(tg__caller *c, tg_status status)
{
    uint8_t body[4 + 2 + 512];
    char text[512];
    tg__pack p = {.at = body, .end = body + sizeof body};
    snprintf(text, sizeof text, "%s", tg_error());
    tg__pack_number(&p, 4, (uint64_t)status);
    tg__pack_text(&p, text);
    if (tg__caller_say(c, TG__SAID_REFUSED, body, (size_t)(p.at - body)) != TG_OK)
        tg__caller_end(c);
    else
        c->ends = true;
}

/* With a list or a store, each rank has a key of its own. */
static tg_status check_key(tg_net *n, int rank, const tg__public_key *key)
{
    if (n->config->insecure || n->config->allow)
        return TG_OK;
    if (rank == 0)
        return tg_fail(TG_E_MISMATCH,
                       "rank 0, any: with a list or a store, a rank that joins says which it is");
    const tg__public_key *known = tg__directory_key(n, rank);
    if (!known || !tg__key_equal(known, key)) {
        TG_TRY(tg__directory_ask(n, rank)); /* it may have told the store just now */
        known = tg__directory_key(n, rank);
    }
    return known && tg__key_equal(known, key)
               ? TG_OK
               : tg_fail(TG_E_MISMATCH, "rank %d has another key", rank);
}

/* Read a caller's JOIN, and check it. */
static tg_status read_join(tg__hall *h, const tg__caller *c, tg__joined *g)
{
    tg_net *n = h->n;
    tg__unpack u = {.at = c->body, .end = c->body + c->body_len};
    char job[TG__JOB_MAX], address[TG__ADDRESS_MAX];
    const uint64_t wants = tg__unpack_number(&u, 4), size = tg__unpack_number(&u, 4);
    const int port = (int)tg__unpack_number(&u, 2);
    *g = (tg__joined){.turn = ++h->turn,
                      .position = tg__keys_find(n->config->allow, &c->stream->peer)};
    g->member = (tg__member){.key = c->stream->peer, .machine = tg__unpack_number(&u, 8)};
    tg__unpack_text(&u, job, sizeof job);
    tg__unpack_text(&u, address, sizeof address);
    if (tg__caller_kind(c) != TG__SAID_JOIN || !tg__unpack_whole(&u))
        return tg_fail(TG_E_CORRUPT, "the message of a rank that joins is malformed");
    if (strcmp(job, job_of(n)) != 0)
        return tg_fail(TG_E_MISMATCH, "job \"%s\": this meeting point is for job \"%s\"", job,
                       job_of(n));
    if (size > 0 && size != (uint64_t)n->size)
        return tg_fail(TG_E_MISMATCH, "a job of %lu ranks: this meeting point is for %d ranks",
                       (unsigned long)size, n->size);
    if (wants >= (uint64_t)n->size)
        return tg_fail(TG_E_MISMATCH, "rank %lu: allowed: 1 to %d", (unsigned long)wants,
                       n->size - 1);
    g->wants = (int)wants;
    TG_TRY(check_key(n, g->wants, &c->stream->peer));
    for (int i = 0; i < n->size - 1; i++)
        if (wants > 0 && h->joined[i].caller.state && h->joined[i].wants == g->wants)
            return tg_fail(TG_E_MISMATCH, "rank %lu is taken by another process that has joined",
                           (unsigned long)wants);
    if (h->count == n->size - 1)
        return tg_fail(TG_E_MISMATCH, "all %d ranks have joined", n->size);
    if (*address)
        return tg__address_parse("advertise", address, false, &g->member.address);
    tg__peer_host(c->stream->fd, g->member.address.host);
    g->member.address.port = port;
    return TG_OK;
}

static void admit(tg__hall *h, tg__caller *c)
{
    tg__joined g;
    const tg_status status = read_join(h, c, &g);
    if (status != TG_OK) {
        tg__hall_refuse(c, status);
        return;
    }
    int i = 0;
    while (h->joined[i].caller.state)
        i++;
    tg__caller_next(c);
    c->body_max = 0; /* it has nothing to say until it knows the others */
    c->until_ns = INT64_MAX;
    g.caller = *c;
    *c = (tg__caller){.state = TG__CALLER_NONE};
    h->joined[i] = g;
    h->count++;
}

/* What the meeting point waits for: "2 of 3 other ranks (not here: anna, bob)". */
static void describe(const tg__hall *h, char *text, size_t room)
{
    const tg_net *n = h->n;
    const tg_keys *list = n->config->allow;
    size_t at =
        (size_t)snprintf(text, room, "%d of %d other ranks", n->size - 1 - h->count, n->size - 1);
    const char *sep = " (not here: ";
    for (size_t k = 0; list && k < list->count; k++) {
        bool here = false;
        for (int i = 0; i < n->size - 1; i++)
            here |= h->joined[i].caller.state && h->joined[i].position == (int)k;
        if (here || at + sizeof list->entry[k].name + 8 > room)
            continue;
        at += (size_t)snprintf(text + at, room - at, "%s%s", sep,
                               *list->entry[k].name ? list->entry[k].name : "one without a name");
        sep = ", ";
    }
    if (*sep == ',')
        snprintf(text + at, room - at, ")");
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
    return tg__door_step(&h->door);
}

/* One round: callers come, speak, are admitted or refused; those who have joined may have left. */
static tg_status receive(tg__hall *h)
{
    TG_TRY(tg__hall_look(h));
    for (size_t i = 0; i < h->door.room; i++) {
        tg__caller *c = &h->door.guest[i].caller;
        if (c->arrived && !c->ends)
            admit(h, c);
    }
    for (int i = 0; i < h->n->size - 1; i++) {
        tg__caller *c = &h->joined[i].caller;
        struct pollfd p = {.events = POLLRDHUP};
        if (!c->state)
            continue;
        p.fd = c->stream->fd;
        if (poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR))) {
            tg__caller_end(c); /* it may come again */
            h->count--;
        }
    }
    return TG_OK;
}

/* Whether a gets a lower rank than b, if neither wants a certain one. */
static bool before(const tg__joined *a, const tg__joined *b)
{
    return a->position != b->position ? a->position < b->position : a->turn < b->turn;
}

/* Give each a rank: those that want one get it, the others the rest. */
static void seat(tg__hall *h)
{
    const int size = h->n->size;
    tg__joined **at_rank = h->at_rank;
    for (int i = 0; i < size - 1; i++)
        if (h->joined[i].wants > 0)
            at_rank[h->joined[i].wants] = &h->joined[i];
    for (int r = 1; r < size; r++) {
        tg__joined *first = NULL;
        if (at_rank[r])
            continue;
        for (int i = 0; i < size - 1; i++) {
            tg__joined *g = &h->joined[i];
            if (g->wants == 0 && (!first || before(g, first)))
                first = g;
        }
        first->wants = r;
        at_rank[r] = first;
    }
}

static tg_status say_roster(tg__hall *h, uint8_t *body, size_t room, int r)
{
    const tg_net *n = h->n;
    tg__pack p = {.at = body, .end = body + room};
    tg__pack_bytes(&p, n->nonce, sizeof n->nonce);
    tg__pack_number(&p, 4, (uint64_t)n->size);
    tg__pack_number(&p, 4, (uint64_t)r);
    for (int i = 0; i < n->size; i++) {
        tg__pack_bytes(&p, n->member[i].key.bytes, TG__KEY_BYTES);
        tg__pack_number(&p, 8, n->member[i].machine);
        tg__pack_text(&p, n->member[i].address.host);
        tg__pack_number(&p, 2, (uint64_t)n->member[i].address.port);
    }
    return tg__caller_say(&h->at_rank[r]->caller, TG__SAID_ROSTER, body, (size_t)(p.at - body));
}

static tg_status tell_roster(tg__hall *h)
{
    tg_net *n = h->n;
    const size_t room = TG__NONCE_BYTES + 8 + (size_t)n->size * TG__ENTRY_MAX;
    uint8_t *body = malloc(room);
    if (!body)
        return tg_fail(TG_E_NOMEM, "out of memory: roster of %d ranks", n->size);
    tg_status status = TG_OK;
    seat(h);
    for (int r = 1; r < n->size; r++)
        n->member[r] = h->at_rank[r]->member;
    for (int r = 1; r < n->size && status == TG_OK; r++)
        status = say_roster(h, body, room, r);
    free(body);
    return status;
}

static tg_status open_hall(tg__hall *h)
{
    tg_net *n = h->n;
    TG_TRY(tg_alloc((size_t)n->size, sizeof *h->joined, &h->joined));
    TG_TRY(tg_alloc((size_t)n->size, sizeof *h->at_rank, &h->at_rank));
    return tg__door_open(&h->door, n->listener, n->tls, n->size, TG__JOIN_MAX, is_allowed, n);
}

static tg_status gather(tg__hall *h)
{
    tg_net *n = h->n;
    TG_TRY(open_hall(h));
    while (h->count < n->size - 1) {
        char text[400];
        TG_TRY(tg__directory_refresh(n));
        TG_TRY(receive(h));
        describe(h, text, sizeof text);
        if (h->count < n->size - 1)
            TG_TRY(tg__net_patience(n, text));
    }
    TG_TRY(tell_roster(h));
    TG_TRY(tg__hall_link(h));
    for (int r = 1; r < n->size; r++)
        n->stream[r] = tg__caller_take(&h->at_rank[r]->caller);
    return TG_OK;
}

static void close_hall(tg__hall *h)
{
    tg__door_close(&h->door);
    for (int i = 0; h->joined && i < h->n->size - 1; i++)
        tg__caller_end(&h->joined[i].caller);
    for (size_t i = 0; i < h->leg_count; i++)
        tg__caller_end(&h->legs[i].caller);
    free(h->legs);
    free(h->joined);
    free(h->at_rank);
    free(h->polled);
}

tg_status tg__net_host(tg_net *n)
{
    const int size = n->config->size;
    TG_TRY(tg__net_members(n, size));
    if (n->config->key)
        n->member[0].key = n->config->key->public_key;
    n->member[0].machine = tg__this_machine();
    if (RAND_bytes(n->nonce, sizeof n->nonce) != 1)
        return tg__ssl_fail(TG_E_IO, "random numbers");
    if (size == 1)
        return TG_OK;
    if (n->config->allow && tg_keys_count(n->config->allow) == 0)
        return tg_fail(TG_E_ARG, "tg_net_join: allow has no keys");
    tg__hall h = {.n = n};
    const tg_status status = gather(&h);
    close_hall(&h);
    return status;
}

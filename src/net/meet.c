/* The meeting point: it waits until all have joined, gives them ranks, and tells them of each
 * other.
 *
 * JOIN     rank wanted (4 bytes; 0: any), size (4; 0: any), port (2), machine (8), job (text), the
 *          address to be reached at (text; "": that of the connection, and the port)
 * ROSTER   nonce (16), size (4), the rank of its receiver (4), then per rank: key (32), machine
 *          (8), host (text; "": where the receiver found the meeting point), port (2)
 * WAITS    text, text: whom it waits for, as tg__net_patience_for has them
 * LEAVES   status (4), text: the sender gives up
 * REFUSED  status (4), text */
#include "net/meet.h"
#include "net/directory.h"
#include "net/fields.h"
#include "telegrad/clock.h"
#include "telegrad/tools.h"
#include <openssl/err.h>
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
    if (n->allow)
        return tg__keys_find(n->allow, key) >= 0;
    for (int r = 1; r < n->size; r++) {
        const tg__public_key *known = tg__directory_key(n, r);
        if (known && tg__key_equal(known, key))
            return true;
    }
    return false;
}

void tg__hall_note(void *hall, const char *host, const tg__caller *c, const char *why)
{
    static const tg__public_key none;
    tg__hall *h = hall;
    const tg_net_config *config = h->n->config;
    const tg__public_key *key = c && c->stream ? &c->stream->peer : NULL;
    if (key && tg__key_equal(key, &none))
        key = NULL;
    if (key && !h->door.accepts(h->n, key))
        why = h->n->allow && h->door.accepts == is_allowed
                  ? "it is not on the list of allowed keys"
                  : "it is not the key of a rank of this job";
    const char *tells =
        tg__refusals_add(&h->refusals, tg_now_ns(tg_clock_monotonic()), host, key, why);
    if (tells && config->on_refused)
        config->on_refused(config->on_refused_arg, tells);
}

void tg__hall_refuse(tg__hall *h, tg__guest *g, tg_status status)
{
    char text[TG__TEXT_MAX];
    snprintf(text, sizeof text, "%s", tg_error());
    tg__make_printable(text);
    tg__hall_note(h, g->host, &g->caller, text);
    if (tg__net_say_refused(&g->caller, status, text))
        g->caller.ends = true;
    else
        tg__caller_end(&g->caller);
}

/* With a list or a store, each rank has a key of its own. */
static tg_status check_key(tg_net *n, int rank, const tg__public_key *key)
{
    if (n->allow && !is_allowed(n, key))
        return tg_fail(TG_E_PEER, TG__TAKEN_OFF);
    if (n->config->insecure || n->allow)
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
    *g = (tg__joined){.turn = ++h->turn, .position = tg__keys_find(n->allow, &c->stream->peer)};
    g->member = (tg__member){.key = c->stream->peer, .machine = tg__unpack_number(&u, 8)};
    tg__unpack_text(&u, job, sizeof job);
    tg__unpack_text(&u, address, sizeof address);
    if (tg__caller_kind(c) == TG__SAID_ENTER)
        return tg_fail(TG_E_MISMATCH, TG__NO_SERVER);
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

static void admit(tg__hall *h, tg__guest *guest)
{
    tg__joined g;
    tg__caller *c = &guest->caller;
    const tg_status status = read_join(h, c, &g);
    if (status != TG_OK) {
        tg__hall_refuse(h, guest, status);
        return;
    }
    int i = 0;
    while (h->joined[i].caller.state)
        i++;
    tg__caller_next(c);
    c->body_max = TG__LEAVES_MAX; /* it has nothing else to say until it knows the others */
    c->until_ns = INT64_MAX;
    memcpy(g.host, guest->host, sizeof g.host);
    g.caller = *c;
    *c = (tg__caller){.state = TG__CALLER_NONE};
    h->joined[i] = g;
    h->count++;
    *h->waits = '\0'; /* it is to be told, too */
}

/* One who has joined goes; it may come again. */
static void dismiss(tg__hall *h, tg__joined *g, const char *why)
{
    tg__hall_note(h, g->host, &g->caller, why);
    tg__caller_end(&g->caller);
    h->count--;
}

/* What one who has joined says, if it has said something: goodbye. */
static void hear_joined(tg__hall *h, tg__joined *g)
{
    char text[TG__TEXT_MAX], why[TG__TEXT_MAX + 40];
    tg_status status;
    if (!tg__caller_step(&g->caller))
        snprintf(why, sizeof why, "it has left again: %s", g->caller.why);
    else if (!g->caller.arrived)
        return;
    else if (tg__net_read_leaves(&g->caller, &status, text))
        snprintf(why, sizeof why, "it has left again: %s", text);
    else
        snprintf(why, sizeof why, "its message is malformed");
    dismiss(h, g, why);
}

/* One round: callers come, speak, are admitted or refused; those who have joined may leave. */
static tg_status receive(tg__hall *h)
{
    TG_TRY(tg__hall_look(h));
    for (size_t i = 0; i < h->door.room; i++) {
        tg__guest *g = &h->door.guest[i];
        if (g->caller.arrived && !g->caller.ends)
            admit(h, g);
    }
    for (int i = 0; i < h->n->size - 1; i++)
        if (h->joined[i].caller.state)
            hear_joined(h, &h->joined[i]);
    return TG_OK;
}

/* Go by a new list of keys, if there is one. */
static void renew_list(tg__hall *h)
{
    tg_net *n = h->n;
    const tg_net_config *c = n->config;
    const tg_keys *list = n->allow && c->allow_now ? c->allow_now(c->allow_now_arg) : NULL;
    if (!list || list == n->allow)
        return;
    n->allow = list;
    for (int i = 0; i < n->size - 1; i++) {
        tg__joined *g = &h->joined[i];
        if (!g->caller.state)
            continue;
        g->position = tg__keys_find(list, &g->member.key);
        if (g->position >= 0)
            continue;
        if (tg__net_say_refused(&g->caller, TG_E_PEER, TG__TAKEN_OFF))
            (void)tg__caller_step(&g->caller);
        dismiss(h, g, "");
    }
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
    TG_TRY(tg__door_open(&h->door, n->listener, n->tls, n->size, TG__JOIN_MAX, is_allowed, n));
    h->door.on_failed = tg__hall_note;
    h->door.on_failed_arg = h;
    return TG_OK;
}

/* All are here: what they send next is for others than this file. Whoever has begun to say goodbye
 * does not stay. */
static void listen_no_more(tg__hall *h)
{
    for (int i = 0; i < h->n->size - 1; i++) {
        tg__joined *g = &h->joined[i];
        if (g->caller.state && g->caller.heard > 0)
            dismiss(h, g, "it has left again");
    }
    for (int i = 0; h->count == h->n->size - 1 && i < h->n->size - 1; i++)
        h->joined[i].caller.body_max = 0;
}

static tg_status gather(tg__hall *h)
{
    tg_net *n = h->n;
    TG_TRY(open_hall(h));
    while (h->count < n->size - 1) {
        renew_list(h);
        TG_TRY(tg__directory_refresh(n));
        TG_TRY(receive(h));
        if (h->count == n->size - 1)
            listen_no_more(h);
        if (h->count == n->size - 1)
            break;
        TG_TRY(tg__hall_wait(h));
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
    ERR_clear_error();
    if (RAND_bytes(n->nonce, sizeof n->nonce) != 1)
        return tg__ssl_fail(TG_E_IO, "random numbers");
    if (size == 1)
        return TG_OK;
    if (n->config->allow && tg_keys_count(n->config->allow) == 0)
        return tg_fail(TG_E_ARG, "tg_net_join: allow has no keys");
    if (n->config->key && tg__keys_find(n->config->allow, &n->config->key->public_key) >= 0)
        tg_log(TG_LOG_WARN,
               "rank 0's own key is on its list of allowed keys: rank 0 needs no entry "
               "there; this one stands for another process with the same key");
    tg__hall h = {.n = n};
    const tg_status status = gather(&h);
    if (status != TG_OK)
        tg__hall_leave(&h, status);
    close_hall(&h);
    return status;
}

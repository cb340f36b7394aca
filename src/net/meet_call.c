/* Calling the meeting point; its messages are described in meet.c. */
#include "net/directory.h"
#include "net/fields.h"
#include "net/key.h"
#include "net/meet.h"
#include "telegrad/clock.h"
#include <poll.h>
#include <stdio.h>
#include <string.h>

#define AGAIN_NS INT64_C(50000000) /* between two calls */

static int64_t now_ns(void)
{
    return tg_now_ns(tg_clock_monotonic());
}

static tg_status say_join(const tg_net *n, tg__caller *c)
{
    const tg_net_config *config = n->config;
    uint8_t body[TG__JOIN_MAX];
    tg__pack p = {.at = body, .end = body + sizeof body};
    tg__pack_number(&p, 4, (uint64_t)config->rank);
    tg__pack_number(&p, 4, (uint64_t)config->size);
    tg__pack_number(&p, 2, (uint64_t)n->port);
    tg__pack_number(&p, 8, tg__this_machine());
    tg__pack_text(&p, config->job ? config->job : "");
    tg__pack_text(&p, n->advertise);
    return tg__caller_say(c, TG__SAID_JOIN, body, (size_t)(p.at - body));
}

static tg_status malformed(void)
{
    return tg_fail(TG_E_CORRUPT, "the meeting point's message is malformed");
}

/* What the roster says of the two ranks that this one knows: the meeting point, which has proved
 * that it holds the key `proved`, and itself. */
static tg_status check_identities(const tg_net *n, const tg__public_key *proved)
{
    if (n->config->rank > 0 && n->rank != n->config->rank)
        return tg_fail(TG_E_MISMATCH,
                       "this rank asked to be rank %d: the meeting point calls it %d",
                       n->config->rank, n->rank);
    if (n->tls && !tg__key_equal(&n->member[0].key, proved))
        return tg_fail(TG_E_MISMATCH,
                       "the meeting point says that it has another key than it has proved");
    if (n->tls && !tg__key_equal(&n->member[n->rank].key, &n->config->key->public_key))
        return tg_fail(TG_E_MISMATCH,
                       "the meeting point says that this rank (%d) has another key than it has",
                       n->rank);
    return TG_OK;
}

static tg_status read_roster(tg_net *n, const tg__caller *c)
{
    tg__unpack u = {.at = c->body, .end = c->body + c->body_len};
    tg__unpack_bytes(&u, n->nonce, sizeof n->nonce);
    const uint64_t size = tg__unpack_number(&u, 4), rank = tg__unpack_number(&u, 4);
    if (u.failed || size < 2 || size > TG_RANKS_MAX || rank < 1 || rank >= size)
        return malformed();
    if (n->config->size > 0 && size != (uint64_t)n->config->size)
        return tg_fail(TG_E_MISMATCH, "the meeting point is for %lu ranks, and this rank for %d",
                       (unsigned long)size, n->config->size);
    TG_TRY(tg__net_members(n, (int)size));
    n->rank = (int)rank;
    for (int r = 0; r < n->size; r++) {
        tg__member *m = &n->member[r];
        tg__unpack_bytes(&u, m->key.bytes, TG__KEY_BYTES);
        m->machine = tg__unpack_number(&u, 8);
        tg__unpack_text(&u, m->address.host, sizeof m->address.host);
        m->address.port = (int)tg__unpack_number(&u, 2);
        if (!*m->address.host) /* on the meeting point's machine */
            memcpy(m->address.host, n->meeting.host, sizeof m->address.host);
    }
    n->member[0].address = n->meeting;
    TG_TRY(tg__unpack_whole(&u) ? TG_OK : malformed());
    TG_TRY(check_identities(n, &c->stream->peer));
    return tg__directory_check_roster(n);
}

/* again  set if the meeting point may come back */
static tg_status read_answer(tg_net *n, const tg__caller *c, bool *again)
{
    char text[TG__TEXT_MAX], address[TG__ADDRESS_MAX];
    tg_status left;
    tg__address_text(&n->meeting, address);
    if (tg__caller_kind(c) == TG__SAID_ROSTER)
        return read_roster(n, c);
    if (tg__net_read_leaves(c, &left, text)) {
        *again = left == TG_E_STOPPED;
        return tg_fail(TG_E_PEER, "the meeting point at %s has left: %s", address, text);
    }
    if (!tg__net_read_refused(c, &left, text))
        return malformed();
    return tg_fail(left, "the meeting point at %s refuses: %s", address, text);
}

/* Why a call failed. TG_E_PEER with *again: another may not. */
static tg_status fail_call(const tg_net *n, const tg__caller *c, bool *again)
{
    char address[TG__ADDRESS_MAX];
    tg__address_text(&n->meeting, address);
    const bool early = c->lost && c->state == TG__CALLER_SHAKES; /* the call was taken, though */
    const char *hint = early ? " (was it started without keys, and this rank with keys?)"
                       : c->lost && c->state == TG__CALLER_TALKS && !n->tls
                           ? " (was it started with keys, and this rank without?)"
                           : "";
    /* What a store says may change, and not all of rank 0's addresses lead to it from here. */
    *again = (c->lost && !c->unknown) || n->config->get;
    char key[200];
    const char *source = !n->config->peer_key   ? " (of the store)"
                         : n->config->addresses ? " (public_keys[0])"
                                                : " (peer_key)";
    if (n->tls && tg__net_describe_key(c, &n->peer_key, source, key, sizeof key))
        return tg_fail(TG_E_PEER, "the meeting point at %s: %s", address, key);
    return tg_fail(c->unknown && !*again ? TG_E_IO : TG_E_PEER, "%s%s%s%s%s",
                   c->unknown ? "" : "the meeting point at ", c->unknown ? "" : address,
                   c->unknown ? "" : ": ", c->why, hint);
}

/* Whom the meeting point waits for. */
static tg_status read_waits(tg__caller *c, char waits[TG__TEXT_MAX], char lacks[TG__TEXT_MAX])
{
    tg__unpack u = {.at = c->body, .end = c->body + c->body_len};
    tg__unpack_text(&u, waits, TG__TEXT_MAX);
    tg__unpack_text(&u, lacks, TG__TEXT_MAX);
    TG_TRY(tg__unpack_whole(&u) ? TG_OK : malformed());
    tg__caller_next(c);
    return TG_OK;
}

/* What a call waits for, which has not been answered. */
static tg_status wait_once(tg_net *n, const tg__caller *c, const char *before)
{
    char what[400];
    snprintf(what, sizeof what, "%s%s%s",
             c->state == TG__CALLER_TALKS      ? "other ranks to join"
             : c->state == TG__CALLER_LOOKS_UP ? "the meeting point's name to be looked up"
                                               : "the meeting point to answer",
             *before ? "; before: " : "", before);
    return tg__net_patience(n, what);
}

/* One call, until it is answered or has failed.
 * before  why the last one failed; "": there was none */
static tg_status call_once(tg_net *n, const char *before, bool *again)
{
    tg__caller c;
    char waits[TG__TEXT_MAX] = "", lacks[TG__TEXT_MAX] = "";
    *again = false;
    TG_TRY(tg__caller_call(&c, &n->meeting, n->meeting_turn, n->tls,
                           TG__NONCE_BYTES + 8 + (size_t)TG_RANKS_MAX * TG__ENTRY_MAX,
                           tg__net_is_key, &n->peer_key));
    tg_status status = say_join(n, &c);
    while (status == TG_OK && !c.arrived) {
        struct pollfd p = tg__caller_watch(&c);
        (void)poll(&p, 1, TG__LOOK_MS);
        if (!tg__caller_step(&c)) {
            status = fail_call(n, &c, again);
            break;
        }
        if (c.state == TG__CALLER_TALKS)
            c.until_ns = INT64_MAX; /* others may take their time */
        if (c.arrived && tg__caller_kind(&c) == TG__SAID_WAITS)
            status = read_waits(&c, waits, lacks);
        if (status == TG_OK && !c.arrived)
            status = *waits ? tg__net_patience_for(n, waits, lacks, "") : wait_once(n, &c, before);
    }
    if (status == TG_OK)
        status = read_answer(n, &c, again);
    else if (c.state == TG__CALLER_TALKS)
        tg__net_say_leaves(&c, status);
    if (status == TG_OK) {
        tg__caller_next(&c);
        n->control = c;
    } else
        tg__caller_end(&c);
    return status;
}

tg_status tg__net_call(tg_net *n)
{
    const char *peer = n->config->peer_key;
    if (peer && !tg__key_parse(peer, strlen(peer), &n->peer_key))
        return tg_fail(TG_E_SPEC,
                       "peer key \"%.64s\" is not a public key: allowed: tgk1: and 43 characters, "
                       "as printed by \"telegrad key show\"",
                       peer);
    char last[300] = "";
    for (int turn = 0;; turn++) {
        bool again;
        TG_TRY(tg__directory_find(n, turn));
        const tg_status status = call_once(n, last, &again);
        if (status != TG_E_PEER || !again)
            return status;
        char why[400];
        snprintf(last, sizeof last, "%s", tg_error());
        snprintf(why, sizeof why, "the meeting point (%s)", last);
        for (const int64_t until = now_ns() + AGAIN_NS; now_ns() < until;) {
            TG_TRY(tg__net_patience(n, why));
            (void)poll(NULL, 0, 20);
        }
    }
}

#include "net/directory.h"
#include "net/fields.h"
#include "telegrad/clock.h"
#include "telegrad/tools.h"
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ASK_NS INT64_C(250000000)        /* between two looks into the store */
#define ASK_AGAIN_NS INT64_C(2000000000) /* for what may have changed */
#define LOOPBACK "tcp://127.0.0.1:"

struct tg__directory {
    tg_key_pair *fresh; /* made for this job; NULL: the caller's is used */
    char listen[TG__ADDRESS_MAX];
    tg__public_key *key; /* (size) of each rank, as the list or the store says */
    bool *known;         /* (size) the key is known */
    tg__address *list;   /* (size) NULL: no list */
    tg__address place[TG__PLACES];
    int places;
    int64_t asked_ns, asked_again_ns;
};

/* ---- a list ---------------------------------------------------------------------------------- */

static tg_status read_list(tg_net *n, tg_net_config *own)
{
    tg__directory *d = n->directory;
    TG_TRY(tg_alloc((size_t)own->size, sizeof *d->list, &d->list));
    for (int r = 0; r < own->size; r++) {
        char what[40];
        snprintf(what, sizeof what, "addresses[%d]", r);
        if (!own->addresses[r] || (!own->insecure && !own->public_keys[r]))
            return tg_fail(TG_E_ARG, "tg_net_join: %s[%d] is NULL",
                           own->addresses[r] ? "public_keys" : "addresses", r);
        TG_TRY(tg__address_parse(what, own->addresses[r], false, &d->list[r]));
        const char *key = own->insecure ? NULL : own->public_keys[r];
        if (key && !tg__key_parse(key, strlen(key), &d->key[r]))
            return tg_fail(TG_E_SPEC, "public_keys[%d] \"%.64s\" is not a public key", r, key);
        d->known[r] = key != NULL;
    }
    if (own->key && !tg__key_equal(&own->key->public_key, &d->key[own->rank]))
        return tg_fail(TG_E_ARG, "tg_net_join: key is not that of public_keys[%d]", own->rank);
    if (!own->listen) {
        snprintf(d->listen, sizeof d->listen, "tcp://:%d", d->list[own->rank].port);
        own->listen = d->listen;
    }
    if (own->rank > 0) {
        own->join = own->addresses[0];
        own->peer_key = own->insecure ? NULL : own->public_keys[0];
        if (!own->advertise)
            own->advertise = own->addresses[own->rank];
        d->place[d->places++] = d->list[0];
    }
    return TG_OK;
}

tg_status tg__directory_check_roster(tg_net *n)
{
    const tg__directory *d = n->directory;
    for (int r = 1; r < n->size; r++) {
        if (d->list && d->known[r] && !tg__key_equal(&d->key[r], &n->member[r].key))
            return tg_fail(
                TG_E_MISMATCH,
                "the meeting point says that rank %d has another key than public_keys[%d]", r, r);
        if (d->list)
            n->member[r].address = d->list[r];
        if (!d->list && n->config->allow && r != n->rank &&
            tg__keys_find(n->config->allow, &n->member[r].key) < 0) {
            char key[TG_KEY_TEXT];
            tg__key_text(&n->member[r].key, key);
            return tg_fail(TG_E_MISMATCH, "the key of rank %d is not on this rank's list: %s", r,
                           key);
        }
        /* else rank 0 could stand between this rank and r, if the list has its key */
        if (!d->list && n->config->allow && tg__key_equal(&n->member[r].key, &n->member[0].key) &&
            !tg__key_equal(&n->member[n->rank].key, &n->member[0].key))
            return tg_fail(
                TG_E_MISMATCH,
                "rank %d has the key of rank 0: with a list of allowed keys on this rank "
                "(%d), give rank %d a key of its own",
                r, n->rank, r);
    }
    return TG_OK;
}

/* ---- a store --------------------------------------------------------------------------------- */

static void name_of(const tg_net *n, int rank, char name[TG__JOB_MAX + 32])
{
    snprintf(name, TG__JOB_MAX + 32, "telegrad/%s/%d", n->config->job ? n->config->job : "", rank);
}

/* *value "": nobody has set it. */
static tg_status get(tg_net *n, int rank, char value[TG_NET_VALUE])
{
    char name[TG__JOB_MAX + 32];
    name_of(n, rank, name);
    *value = '\0';
    TG_TRY(n->config->get(n->config->store_arg, name, value, TG_NET_VALUE));
    value[TG_NET_VALUE - 1] = '\0';
    return tg__is_printable(value, strlen(value))
               ? TG_OK
               : tg_fail(TG_E_CORRUPT, "what rank %d has set in the store is not printable text",
                         rank);
}

static tg_status set(tg_net *n, const char *value)
{
    char name[TG__JOB_MAX + 32];
    name_of(n, n->config->rank, name);
    return n->config->set(n->config->store_arg, name, value);
}

/* Append where the meeting point may be reached: at all of this machine's addresses. */
static void append_interfaces(const tg_net *n, char *text, size_t room)
{
    struct ifaddrs *all = NULL;
    size_t at = strlen(text);
    int count = 0;
    if (getifaddrs(&all) != 0)
        all = NULL;
    for (const struct ifaddrs *i = all; i && count < TG__PLACES - 1; i = i->ifa_next) {
        const int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
        char host[TG__HOST_MAX], address[TG__ADDRESS_MAX];
        tg__address a = {.port = n->port};
        if ((family != AF_INET && family != AF_INET6) || !(i->ifa_flags & IFF_UP) ||
            (i->ifa_flags & IFF_LOOPBACK))
            continue;
        const socklen_t len =
            family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
        if (getnameinfo(i->ifa_addr, len, host, sizeof host, NULL, 0, NI_NUMERICHOST) != 0 ||
            strchr(host, '%')) /* of one link only */
            continue;
        snprintf(a.host, sizeof a.host, "%s", host);
        tg__address_text(&a, address);
        if (at + strlen(address) + sizeof LOOPBACK + 8 >= room)
            continue;
        at += (size_t)snprintf(text + at, room - at, " %s", address);
        count++;
    }
    if (all)
        freeifaddrs(all);
    snprintf(text + at, room - at, " " LOOPBACK "%d", n->port);
}

static tg_status publish_meeting_point(tg_net *n)
{
    const tg_net_config *c = n->config;
    char text[TG_NET_VALUE], key[TG_KEY_TEXT] = "-", address[TG__ADDRESS_MAX];
    tg__address at = {.port = 0};
    if (c->key)
        tg_key_text(c->key, key);
    snprintf(text, sizeof text, "%s %llx", key, (unsigned long long)tg__this_machine());
    if (c->listen)
        TG_TRY(tg__address_parse("listen", c->listen, true, &at));
    at.port = n->port;
    tg__address_text(&at, address);
    const bool everywhere =
        !*at.host || strcmp(at.host, "0.0.0.0") == 0 || strcmp(at.host, "::") == 0;
    const size_t len = strlen(text);
    if (*n->advertise || !everywhere)
        snprintf(text + len, sizeof text - len, " %s", *n->advertise ? n->advertise : address);
    else
        append_interfaces(n, text, sizeof text);
    return set(n, text);
}

tg_status tg__directory_publish(tg_net *n)
{
    char key[TG_KEY_TEXT];
    if (!n->config->set)
        return TG_OK;
    if (n->config->rank == 0)
        return publish_meeting_point(n);
    if (!n->config->key)
        return TG_OK;
    tg_key_text(n->config->key, key);
    return set(n, key);
}

/* Read what rank 0 has published. */
static tg_status read_places(tg_net *n, char *value)
{
    tg__directory *d = n->directory;
    char *rest = NULL;
    const char *key = strtok_r(value, " ", &rest), *machine = strtok_r(NULL, " ", &rest);
    const bool here = machine && strtoull(machine, NULL, 16) == tg__this_machine();
    tg__public_key parsed;
    if (!machine ||
        (n->config->insecure ? strcmp(key, "-") != 0 : !tg__key_parse(key, strlen(key), &parsed)))
        return tg_fail(TG_E_CORRUPT, "what rank 0 has set in the store is malformed");
    if (!n->config->insecure && !n->config->peer_key)
        n->peer_key = parsed;
    d->places = 0;
    for (const char *at; d->places < TG__PLACES && (at = strtok_r(NULL, " ", &rest)) != NULL;) {
        const bool loops = strncmp(at, LOOPBACK, sizeof LOOPBACK - 1) == 0;
        tg__address a;
        TG_TRY(tg__address_parse("the store: rank 0", at, false, &a));
        if (loops && !here && d->places > 0)
            continue; /* another machine's */
        d->place[d->places++] = a;
        if (loops && here) { /* the shortest way comes first */
            d->place[d->places - 1] = d->place[0];
            d->place[0] = a;
        }
    }
    return d->places > 0 ? TG_OK
                         : tg_fail(TG_E_CORRUPT, "what rank 0 has set in the store has no address");
}

tg_status tg__directory_find(tg_net *n, int turn)
{
    tg__directory *d = n->directory;
    if (n->config->get && (d->places == 0 || turn % d->places == 0)) {
        char value[TG_NET_VALUE];
        TG_TRY(get(n, 0, value));
        while (!*value) {
            TG_TRY(tg__net_patience(n, "rank 0 to tell the store where it is"));
            (void)poll(NULL, 0, 50);
            TG_TRY(get(n, 0, value));
        }
        TG_TRY(read_places(n, value));
    }
    if (d->places > 0) {
        n->meeting = d->place[turn % d->places];
        n->meeting_turn = turn / d->places;
    } else
        n->meeting_turn = turn;
    return TG_OK;
}

tg_status tg__directory_ask(tg_net *n, int rank)
{
    tg__directory *d = n->directory;
    char value[TG_NET_VALUE];
    if (!n->config->get)
        return TG_OK;
    TG_TRY(get(n, rank, value));
    if (!*value)
        return TG_OK;
    if (!tg__key_parse(value, strlen(value), &d->key[rank]))
        return tg_fail(TG_E_CORRUPT, "what rank %d has set in the store is not a public key: %.64s",
                       rank, value);
    d->known[rank] = true;
    return TG_OK;
}

tg_status tg__directory_refresh(tg_net *n)
{
    tg__directory *d = n->directory;
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    if (!n->config->get || n->config->insecure || n->config->allow || now < d->asked_ns + ASK_NS)
        return TG_OK;
    const bool again = now >= d->asked_again_ns + ASK_AGAIN_NS;
    d->asked_ns = now;
    d->asked_again_ns = again ? now : d->asked_again_ns;
    for (int r = 1; r < n->size; r++)
        if (!d->known[r] || again)
            TG_TRY(tg__directory_ask(n, r));
    return TG_OK;
}

/* ---- both ------------------------------------------------------------------------------------ */

static tg_status check(const tg_net_config *c)
{
    const char *name = c->addresses ? "addresses" : "set and get";
    if (!c->set != !c->get || (c->addresses && c->set))
        return tg_fail(TG_E_ARG,
                       "tg_net_join: give addresses, or both set and get, or none of these");
    if (c->public_keys && !c->addresses)
        return tg_fail(TG_E_ARG, "tg_net_join: public_keys without addresses");
    if (!c->addresses && !c->set)
        return TG_OK;
    if (c->join)
        return tg_fail(TG_E_ARG, "tg_net_join: join=\"%s\" with %s: allowed: NULL", c->join, name);
    if (c->size < 1)
        return tg_fail(TG_E_ARG, "tg_net_join: size=%d: allowed with %s: 1 to %d", c->size, name,
                       TG_RANKS_MAX);
    if (!c->addresses)
        return TG_OK;
    if (!c->public_keys != c->insecure)
        return tg_fail(TG_E_ARG, "tg_net_join: public_keys is %sNULL, but insecure is %sset",
                       c->public_keys ? "not " : "", c->insecure ? "" : "not ");
    if (c->allow || c->peer_key)
        return tg_fail(TG_E_ARG, "tg_net_join: allow and peer_key must be NULL with addresses: "
                                 "public_keys has all keys");
    return TG_OK;
}

tg_status tg__directory_open(tg_net *n, tg_net_config *own)
{
    TG_TRY(check(own));
    const size_t size = own->size > 0 && own->size <= TG_RANKS_MAX ? (size_t)own->size : 1;
    tg__directory *d = n->directory = calloc(1, sizeof *d);
    if (!d)
        return tg_fail(TG_E_NOMEM, "out of memory: directory");
    TG_TRY(tg_alloc(size, sizeof *d->key, &d->key));
    TG_TRY(tg_alloc(size, sizeof *d->known, &d->known));
    d->asked_ns = d->asked_again_ns = INT64_MIN / 2;
    if (!own->addresses && !own->set)
        return TG_OK;
    if (own->size > TG_RANKS_MAX || own->rank < 0 || own->rank >= own->size)
        return tg_fail(TG_E_ARG,
                       "tg_net_join: rank=%d of size=%d: allowed: 0 to size - 1, and at "
                       "most %d ranks",
                       own->rank, own->size, TG_RANKS_MAX);
    if (own->addresses)
        return read_list(n, own);
    if (!own->insecure && !own->key) {
        TG_TRY(tg_key_create(&d->fresh));
        own->key = d->fresh;
    }
    if (!own->listen)
        own->listen = "tcp://:0";
    if (own->rank > 0)
        own->join = "the store";
    return TG_OK;
}

const tg__public_key *tg__directory_key(const tg_net *n, int rank)
{
    const tg__directory *d = n->directory;
    return d->known[rank] ? &d->key[rank] : NULL;
}

void tg__directory_close(tg_net *n)
{
    tg__directory *d = n->directory;
    if (!d)
        return;
    tg_key_destroy(d->fresh);
    free(d->key);
    free(d->known);
    free(d->list);
    free(d);
    n->directory = NULL;
}

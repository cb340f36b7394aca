#include "command/job/net_options.h"
#include "command/job/launch.h"
#include "command/job/transports.h"
#include "telegrad/tools.h"
#include "telegrad/transport.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LISTEN = 1, JOIN, RANKS, KEY, ALLOW, PEER_KEY, INSECURE, ADVERTISE };

const struct cli_option net_options_list[] = {
    {.help = "Workers on several machines, without MPI"},
    {"listen", LISTEN, "tcp://HOST:PORT", NULL, NULL,
     "run as rank 0 and wait at this address for the others, e.g. tcp://0.0.0.0:4242; with --join: "
     "where the other ranks reach this one"},
    {"join", JOIN, "tcp://HOST:PORT", NULL, NULL,
     "run as another rank; connect to rank 0 at this address"},
    {"ranks", RANKS, "N", NULL, NULL,
     "number of ranks, rank 0 and servers included; required at rank 0"},
    {"key", KEY, "FILE", NULL, NULL, "this rank's private key: see telegrad key new"},
    {"allow", ALLOW, "FILE", NULL, NULL,
     "rank 0: file of the other ranks' public keys, a key and a name per line"},
    {"peer-key", PEER_KEY, "tgk1:...", NULL, NULL, "other ranks: the public key of rank 0"},
    {"insecure", INSECURE, NULL, NULL, NULL,
     "use no keys and no encryption: anyone who reaches the port can join, and can read and change "
     "everything"},
    {"advertise", ADVERTISE, "tcp://HOST:PORT", NULL, NULL,
     "where other ranks reach this one, if it is behind a forwarded port"},
    {0}};

static tg_status set_ranks(struct net_options *o, const char *text)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n < 1 || n > TG_RANKS_MAX)
        return tg_fail(TG_E_SPEC, "--ranks \"%.64s\": allowed: 1 to %d", text, TG_RANKS_MAX);
    o->ranks = n;
    return TG_OK;
}

tg_status net_options_set(struct net_options *o, int key, const char *arg)
{
    const char **const text[] = {
        [LISTEN] = &o->listen, [JOIN] = &o->join,         [KEY] = &o->key,
        [ALLOW] = &o->allow,   [PEER_KEY] = &o->peer_key, [ADVERTISE] = &o->advertise};
    if (key == RANKS)
        return set_ranks(o, arg);
    if (key == INSECURE)
        o->insecure = true;
    else
        *text[key] = arg;
    if (net_options_join(o))
        launch_wants_more();
    return TG_OK;
}

bool net_options_join(const struct net_options *o)
{
    return o->listen || o->join;
}

/* Check options of which all require --listen or --join. */
static tg_status check_lonely(const struct net_options *o)
{
    static const char both[] = "--listen (rank 0) or --join (the others)",
                      any[] = "--listen (rank 0), --join (the others) or, in train, --server";
    const struct {
        bool given;
        const char *name, *requires;
    } all[] = {{o->ranks > 0, "ranks", "--listen, at rank 0; in one process: --workers N"},
               {o->key, "key", any},
               {o->allow, "allow", "--listen, at rank 0"},
               {o->peer_key, "peer-key", "--join tcp://HOST:PORT, where rank 0 listens"},
               {o->insecure, "insecure", any},
               {o->advertise, "advertise", both}};
    for (size_t i = 0; i < TG_COUNT(all); i++)
        if (all[i].given)
            return tg_fail(TG_E_SPEC, "--%s requires %s", all[i].name, all[i].requires);
    return TG_OK;
}

/* Whether the host (len) stands for all addresses of a machine, and so for none that others can
 * call. */
static bool is_any_host(const char *host, size_t len)
{
    char bare[INET6_ADDRSTRLEN];
    struct in6_addr six;
    const bool bracket = len > 2 && host[0] == '[' && host[len - 1] == ']';
    snprintf(bare, sizeof bare, "%.*s", (int)len - 2 * bracket, host + bracket);
    return len == 0 || strspn(host, "0.*") == len ||
           (inet_pton(AF_INET6, bare, &six) == 1 && IN6_IS_ADDR_UNSPECIFIED(&six));
}

tg_status net_options_address(const char *option, const char *text, bool called, const char *whose,
                              unsigned least)
{
    static const char scheme[] = "tcp://";
    const bool has_scheme = strncmp(text, scheme, sizeof scheme - 1) == 0;
    const char *host = has_scheme ? text + sizeof scheme - 1 : text, *colon = strrchr(host, ':');
    const size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    const bool port = digits > 0 && digits <= 5 && colon[1 + digits] == '\0';
    const unsigned long number = port ? strtoul(colon + 1, NULL, 10) : 0;
    if (!has_scheme && port && !strchr(text, '/') && !(called && colon == host))
        return tg_fail(TG_E_SPEC, "--%s \"%.64s\": did you mean tcp://%s%.64s?", option, text,
                       colon == host && !called ? "0.0.0.0" : "", text);
    if (!has_scheme || !port || number < least || number > 65535)
        return tg_fail(TG_E_SPEC, "--%s \"%.64s\": allowed: tcp://HOST:PORT, with PORT %u to 65535",
                       option, text, least);
    if (called && is_any_host(host, (size_t)(colon - host)))
        return tg_fail(TG_E_SPEC,
                       "--%s \"%.64s\": %s: allowed: the name or address of %s, as other "
                       "machines know it",
                       option, text,
                       colon == host ? "it has no host"
                                     : "it means all addresses of a machine, which a rank can "
                                       "listen at but not connect to",
                       whose);
    return TG_OK;
}

static tg_status check_addresses(const struct net_options *o)
{
    if (o->listen)
        TG_TRY(net_options_address("listen", o->listen, false, "", o->join ? 0 : 1));
    if (o->join)
        TG_TRY(net_options_address("join", o->join, true, "the machine of rank 0", 1));
    if (o->join && o->listen && strcmp(o->join, o->listen) == 0)
        return tg_fail(TG_E_SPEC,
                       "--listen and --join \"%.64s\": this rank would wait for itself: give "
                       "--listen and --ranks N at rank 0, --join on other ranks",
                       o->join);
    return o->advertise ? net_options_address("advertise", o->advertise, true, "this machine", 1)
                        : TG_OK;
}

static tg_status check_keys(const struct net_options *o)
{
    const char *name = o->key ? "key" : o->allow ? "allow" : o->peer_key ? "peer-key" : NULL;
    const char *const role = o->join ? "join" : "listen";
    if (o->insecure)
        return name ? tg_fail(TG_E_SPEC,
                              "--insecure and --%s cannot be combined: --insecure means no keys",
                              name)
                    : TG_OK;
    if (!o->key)
        return tg_fail(TG_E_SPEC,
                       "--%s requires --key FILE (see telegrad key new), or --insecure: no keys "
                       "and no encryption",
                       role);
    if (o->join && !o->peer_key)
        return tg_fail(TG_E_SPEC, "--join with --key requires --peer-key tgk1:..., the public key "
                                  "of rank 0, which telegrad key show prints there");
    if (o->join && o->allow)
        return tg_fail(TG_E_SPEC, "--join and --allow cannot be combined: rank 0 has the list of "
                                  "keys, and sends it to the others");
    if (!o->join && o->peer_key)
        return tg_fail(TG_E_SPEC, "--peer-key requires --join: rank 0 takes the keys of the others "
                                  "from --allow FILE");
    if (!o->join && !o->allow)
        return tg_fail(TG_E_SPEC, "--listen with --key requires --allow FILE, the public keys of "
                                  "the others, a key and a name per line");
    return TG_OK;
}

/* A worker of servers. Each of their addresses is checked. */
static tg_status check_server(const struct net_options *o)
{
    const struct {
        bool given;
        const char *name;
    } no[] = {{o->listen, "listen"}, {o->join, "join"},         {o->ranks > 0, "ranks"},
              {o->allow, "allow"},   {o->peer_key, "peer-key"}, {o->advertise, "advertise"}};
    for (size_t i = 0; i < TG_COUNT(no); i++)
        if (no[i].given)
            return tg_fail(TG_E_SPEC,
                           "--server and --%s cannot be combined: a worker of servers calls them, "
                           "and has no connection to other workers",
                           no[i].name);
    if (strspn(o->server, "0123456789") == strlen(o->server))
        return tg_fail(TG_E_SPEC,
                       "--server \"%.64s\": allowed: tcp://HOST:PORT of telegrad serve; or did you "
                       "mean --servers %.64s, servers of this job?",
                       o->server, o->server);
    for (const char *at = o->server; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        char one[300];
        const size_t len = strcspn(at, ",");
        snprintf(one, sizeof one, "%.*s", (int)(len < 299 ? len : 299), at);
        TG_TRY(net_options_address("server", one, true, "the server's machine", 1));
    }
    if (o->insecure && (o->key || o->server_key))
        return tg_fail(TG_E_SPEC,
                       "--insecure and --%s cannot be combined: --insecure means no keys",
                       o->key ? "key" : "server-key");
    if (!o->insecure && (!o->key || !o->server_key))
        return tg_fail(TG_E_SPEC,
                       o->key ? "--server with --key requires --server-key tgk1:..., the public "
                                "key of each server, which telegrad key show prints there"
                              : "--server requires --key FILE (see telegrad key new), or "
                                "--insecure: no keys and no encryption");
    return TG_OK;
}

tg_status net_options_check(const struct net_options *o)
{
    int rank, size;
    if (!net_options_join(o) && !o->server)
        return o->server_key ? tg_fail(TG_E_SPEC, "--server-key requires --server tcp://HOST:PORT")
                             : check_lonely(o);
    const char *const role = o->server ? "server" : o->join ? "join" : "listen";
    if (launch_under_mpi(&rank, &size))
        return tg_fail(TG_E_SPEC,
                       "--%s under mpirun or srun --mpi, which already connect the ranks: use only "
                       "one of the two",
                       role);
    if (!job_transport_find("tcp"))
        return tg_fail(TG_E_UNSUPPORTED,
                       "--%s: this telegrad was built without OpenSSL 3, which it requires", role);
    if (o->server)
        return check_server(o);
    if (!o->join && !o->ranks)
        return tg_fail(TG_E_SPEC, "--listen requires --ranks N, the number of ranks, at rank 0, or "
                                  "--join on other ranks");
    TG_TRY(check_addresses(o));
    return check_keys(o);
}

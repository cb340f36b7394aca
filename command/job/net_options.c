#include "command/job/net_options.h"
#include "command/job/launch.h"
#include "command/job/transports.h"
#include "command/output/console.h"
#include "telegrad/transport.h"
#include <errno.h>
#include <stdlib.h>

enum { LISTEN = 1, JOIN, RANKS, KEY, ALLOW, PEER_KEY, INSECURE, ADVERTISE };

const struct cli_option net_options_list[] = {
    {.help = "Workers on several machines, without MPI"},
    {"listen", LISTEN, "tcp://HOST:PORT", NULL, NULL,
     "be rank 0, and wait here for the others, as tcp://0.0.0.0:4242; with --join: where the other "
     "ranks reach this one"},
    {"join", JOIN, "tcp://HOST:PORT", NULL, NULL, "be another rank, and meet rank 0 there"},
    {"ranks", RANKS, "N", NULL, NULL, "processes that take part, with rank 0, which must know it"},
    {"key", KEY, "FILE", NULL, NULL, "this rank's private key: see telegrad key new"},
    {"allow", ALLOW, "FILE", NULL, NULL,
     "rank 0: public keys of the others, a key and a name per line"},
    {"peer-key", PEER_KEY, "tgk1:...", NULL, NULL, "the others: the public key of rank 0"},
    {"insecure", INSECURE, NULL, NULL, NULL,
     "use no keys and no encryption: whoever reaches the port can join, read and change "
     "everything"},
    {"advertise", ADVERTISE, "tcp://HOST:PORT", NULL, NULL,
     "where other ranks reach this one, if it is behind a forwarded port"},
    {0}};

static error_t set_ranks(struct net_options *o, const char *text)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long n = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || n < 1 || n > TG_RANKS_MAX) {
        console_error("--ranks \"%.64s\": allowed: 1 to %d", text, TG_RANKS_MAX);
        return EINVAL;
    }
    o->ranks = n;
    return 0;
}

error_t net_options_parse(int key, char *arg, struct argp_state *state)
{
    struct net_options *o = state->input;
    const char **const text[] = {
        [LISTEN] = &o->listen, [JOIN] = &o->join,         [KEY] = &o->key,
        [ALLOW] = &o->allow,   [PEER_KEY] = &o->peer_key, [ADVERTISE] = &o->advertise};
    if (key < LISTEN || key > ADVERTISE)
        return ARGP_ERR_UNKNOWN;
    if (key == RANKS)
        return set_ranks(o, arg);
    if (key == INSECURE)
        o->insecure = true;
    else
        *text[key] = arg;
    return 0;
}

bool net_options_join(const struct net_options *o)
{
    return o->listen || o->join;
}

/* Check options of which all require --listen or --join. */
static tg_status check_lonely(const struct net_options *o)
{
    const char *name = o->ranks       ? "ranks"
                       : o->key       ? "key"
                       : o->allow     ? "allow"
                       : o->peer_key  ? "peer-key"
                       : o->insecure  ? "insecure"
                       : o->advertise ? "advertise"
                                      : NULL;
    return name ? tg_fail(TG_E_SPEC, "--%s requires --listen (rank 0) or --join (the others)", name)
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
                                  "of rank 0: telegrad key show prints it there");
    if (o->join && o->allow)
        return tg_fail(TG_E_SPEC, "--join and --allow cannot be combined: rank 0 has the list of "
                                  "keys, and tells the others");
    if (!o->join && o->peer_key)
        return tg_fail(TG_E_SPEC, "--peer-key requires --join: rank 0 takes the keys of the others "
                                  "from --allow FILE");
    if (!o->join && !o->allow)
        return tg_fail(TG_E_SPEC, "--listen with --key requires --allow FILE, the public keys of "
                                  "the others, a key and a name per line");
    return TG_OK;
}

tg_status net_options_check(const struct net_options *o)
{
    int rank, size;
    if (!net_options_join(o))
        return check_lonely(o);
    const char *const role = o->join ? "join" : "listen";
    if (launch_under_mpi(&rank, &size))
        return tg_fail(TG_E_SPEC,
                       "--%s under mpirun or srun --mpi, which connect the ranks already: allowed: "
                       "one of the two",
                       role);
    if (!job_transport_find("tcp"))
        return tg_fail(TG_E_UNSUPPORTED,
                       "--%s: this telegrad was built without OpenSSL 3, which it requires", role);
    if (!o->join && !o->ranks)
        return tg_fail(TG_E_SPEC, "--listen requires --ranks N, the number of processes that take "
                                  "part, or --join, for others than rank 0");
    return check_keys(o);
}

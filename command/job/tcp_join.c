#include "command/job/tcp_join.h"
#include "command/output/console.h"
#include "command/output/stop.h"
#include "telegrad/clock.h"
#include "telegrad/tools.h"
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define SAID_AGAIN_NS INT64_C(60000000000) /* the same words, where there is no status line */

struct waiting {
    char said[400];
    int64_t said_ns;
};

static void on_wait(void *arg, const char *text)
{
    struct waiting *w = arg;
    char line[448];
    snprintf(line, sizeof line, "waiting for %s", text);
    if (console_terminal()) {
        console_status(line);
        return;
    }
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    if (strncmp(w->said, text, sizeof w->said - 1) == 0 && now - w->said_ns < SAID_AGAIN_NS)
        return;
    snprintf(w->said, sizeof w->said, "%s", text);
    w->said_ns = now;
    console_note("%s", line);
}

/* A call that failed: in any case only some of a flood are told. */
static void on_refused(void *arg, const char *text)
{
    (void)arg;
    console_note("%s", text);
}

static bool stopped(void *arg)
{
    (void)arg;
    return stop_signal != 0;
}

/* Put the option's dashes into a message about one of the addresses, or about rank 0's key. */
static tg_status of_option(tg_status status)
{
    static const char *const names[] = {"listen \"", "join \"", "advertise \""};
    static const char key[] = "(peer_key)";
    const char *at = status == TG_E_PEER ? strstr(tg_error(), key) : NULL;
    if (at)
        return tg_fail(status, "%.*s(--peer-key)%s", (int)(at - tg_error()), tg_error(),
                       at + sizeof key - 1);
    for (size_t i = 0; status == TG_E_SPEC && i < TG_COUNT(names); i++)
        if (strncmp(tg_error(), names[i], strlen(names[i])) == 0)
            return tg_fail(status, "--%s", tg_error());
    return status;
}

/* One kind of listener was taken for the other: name the option for this one. */
static tg_status of_kind(tg_status status)
{
    static const struct {
        const char *text, *option;
    } kinds[] = {{"not a parameter server", "--join"}, {"not a meeting point", "--server"}};
    for (size_t i = 0; status == TG_E_MISMATCH && i < TG_COUNT(kinds); i++)
        if (strstr(tg_error(), kinds[i].text))
            return tg_fail(status, "%s: use train %s", tg_error(), kinds[i].option);
    return status;
}

static tg_status read_list(const char *path, tg_keys **allow_p)
{
    const tg_status status = tg_keys_load(path, allow_p);
    return status == TG_OK
               ? TG_OK
               : tg_fail(status == TG_E_SPEC ? TG_E_IO : status, "--allow %s", tg_error());
}

/* Ranks may share a key, but then the list does not tell which of them it lets in. */
static void remark_few(const struct net_options *o, const tg_keys *allow)
{
    static atomic_flag said = ATOMIC_FLAG_INIT; /* some commands join more than once */
    const size_t count = tg_keys_count(allow);
    if (o->ranks > count + 1 && !atomic_flag_test_and_set(&said))
        console_remark(
            "--allow %s has %zu key%s for %zu other ranks: add those that are missing, or "
            "let ranks share a key",
            o->allow, count, count == 1 ? "" : "s", (size_t)o->ranks - 1);
}

static tg_status read_keys(const struct net_options *o, tg_key_pair **key_p, tg_keys **allow_p)
{
    char unused[TG_KEY_TEXT];
    if (o->key && tg_key_load(o->key, key_p) != TG_OK)
        return tg_fail(TG_E_IO, "--key %s", tg_error());
    if (o->allow) {
        TG_TRY(read_list(o->allow, allow_p));
        remark_few(o, *allow_p);
    }
    if (o->peer_key && tg_key_fingerprint(o->peer_key, unused) != TG_OK)
        return tg_fail(TG_E_SPEC, "--peer-key %s%s", tg_error(),
                       access(o->peer_key, F_OK) == 0 ? ", as printed by telegrad key show FILE"
                                                      : "");
    return TG_OK;
}

/* ---- a list that changes --------------------------------------------------------------------- */

static atomic_bool hung_up; /* SIGHUP has come */
static atomic_uint hangups; /* how often */

static void on_hangup(int signal_number)
{
    (void)signal_number;
    atomic_fetch_add(&hangups, 1);
    atomic_store(&hung_up, true);
}

unsigned tcp_join_hangups(void)
{
    return atomic_load(&hangups);
}

void tcp_join_await_hangups(const struct net_options *o)
{
    struct sigaction action = {.sa_handler = on_hangup, .sa_flags = SA_RESTART};
    if (!o->allow)
        return;
    sigemptyset(&action.sa_mask);
    sigaction(SIGHUP, &action, NULL);
}

/* Say how reading the list again went. */
static void say_read_again(const struct net_options *o, tg_status status, const tg_keys *allow)
{
    if (status == TG_OK)
        console_note("SIGHUP: --allow %s is read again: %zu key%s", o->allow, tg_keys_count(allow),
                     tg_keys_count(allow) == 1 ? "" : "s");
    else
        console_warning("SIGHUP: the list of keys stays as it was: %s", tg_error());
}

/* Once all have joined. */
void tcp_join_refresh(const struct net_options *o, tg_net *net)
{
    tg_keys *allow = NULL;
    if (!atomic_exchange(&hung_up, false))
        return;
    tg_status status = read_list(o->allow, &allow);
    if (status == TG_OK)
        status = tg_net_allow(net, allow);
    say_read_again(o, status, allow);
    tg_keys_destroy(allow);
}

/* Until then. */
const tg_keys *tcp_join_list_now(void *arg)
{
    struct tcp_lists *l = arg;
    tg_keys *allow = NULL;
    if (!atomic_exchange(&hung_up, false))
        return NULL;
    const tg_status status = read_list(l->options->allow, &allow);
    say_read_again(l->options, status, allow);
    if (status != TG_OK)
        return NULL;
    tg_keys_destroy(l->before);
    l->before = l->current;
    l->current = allow;
    return allow;
}

void tcp_join_lists_free(struct tcp_lists *l)
{
    tg_keys_destroy(l->current);
    tg_keys_destroy(l->before);
    *l = (struct tcp_lists){.options = NULL};
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Some commands join anew for each of their runs. */
static void warn_once(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    if (!atomic_flag_test_and_set(&said))
        console_say(
            "warning: --insecure: no keys and no encryption: anyone who reaches the port can "
            "join, read and change everything");
}

tg_status tcp_join(const struct net_options *o, const char *job, int rank, double timeout_s,
                   tg_net **net_p)
{
    tg_key_pair *key = NULL;
    struct tcp_lists lists = {.options = o};
    tg_net *net = NULL;
    struct waiting waiting = {.said = ""};
    tg_status status = read_keys(o, &key, &lists.current);
    if (status == TG_OK && o->insecure)
        warn_once();
    const tg_net_config config = {.struct_size = sizeof config,
                                  .listen = o->listen,
                                  .join = o->join,
                                  .advertise = o->advertise,
                                  .size = (int)o->ranks,
                                  .rank = rank,
                                  .job = job,
                                  .key = key,
                                  .allow = lists.current,
                                  .peer_key = o->peer_key,
                                  .insecure = o->insecure,
                                  .timeout_s = timeout_s,
                                  .stop = stopped,
                                  .on_wait = on_wait,
                                  .on_wait_arg = &waiting,
                                  .allow_now = o->allow ? tcp_join_list_now : NULL,
                                  .allow_now_arg = &lists,
                                  .on_refused = on_refused};
    if (status == TG_OK)
        status = of_kind(of_option(tg_net_join(&config, &net)));
    console_status("");
    tg_key_destroy(key);
    tcp_join_lists_free(&lists);
    if (status == TG_OK)
        *net_p = net;
    return status;
}

/* ---- servers --------------------------------------------------------------------------------- */

/* Cut a list with commas in place; only the first TG_SERVERS_MAX parts are kept. Returns how many
 * it has; text stays valid. */
static int cut(char *text, const char *part[TG_SERVERS_MAX])
{
    int count = 0;
    for (char *at = text; at; count++) {
        char *comma = strchr(at, ',');
        if (count < TG_SERVERS_MAX)
            part[count] = at;
        if (comma)
            *comma++ = '\0';
        at = comma;
    }
    return count;
}

static tg_status attach(const struct net_options *o, char *servers, char *keys,
                        tg_net_attach_config *config, tg_net **net_p)
{
    const char *address[TG_SERVERS_MAX], *key[TG_SERVERS_MAX];
    char unused[TG_KEY_TEXT];
    config->count = cut(servers, address);
    config->servers = address;
    const int count = keys ? cut(keys, key) : config->count;
    if (count != config->count)
        return tg_fail(TG_E_SPEC,
                       "--server-key with %d key%s and --server with %d address%s: give "
                       "each server its key, in the same order",
                       count, count == 1 ? "" : "s", config->count, config->count == 1 ? "" : "es");
    if (count > TG_SERVERS_MAX)
        return tg_fail(TG_E_SPEC, "--server with %d addresses: allowed: at most %d", count,
                       TG_SERVERS_MAX);
    for (int q = 0; keys && q < count; q++)
        if (tg_key_fingerprint(key[q], unused) != TG_OK)
            return tg_fail(TG_E_SPEC, "--server-key %s", tg_error());
    config->server_keys = keys ? key : NULL;
    if (o->insecure)
        warn_once();
    return of_kind(tg_net_attach(config, net_p));
}

tg_status tcp_join_servers(const struct net_options *o, const char *job, double timeout_s,
                           tg_net **net_p)
{
    tg_key_pair *key = NULL;
    tg_keys *none = NULL;
    struct waiting waiting = {.said = ""};
    char *servers = strdup(o->server), *keys = o->server_key ? strdup(o->server_key) : NULL;
    tg_status status = servers && (keys || !o->server_key)
                           ? read_keys(o, &key, &none)
                           : tg_fail(TG_E_NOMEM, "out of memory: servers");
    tg_net_attach_config config = {.struct_size = sizeof config,
                                   .job = job,
                                   .key = key,
                                   .insecure = o->insecure,
                                   .timeout_s = timeout_s,
                                   .stop = stopped,
                                   .on_wait = on_wait,
                                   .on_wait_arg = &waiting,
                                   .again_s = timeout_s};
    if (status == TG_OK)
        status = attach(o, servers, keys, &config, net_p);
    console_status("");
    tg_key_destroy(key);
    free(servers);
    free(keys);
    return status;
}

static void on_event(void *arg, const char *text)
{
    (void)arg;
    console_note("%s", text);
}

/* Each worker needs a file descriptor, and strangers at the door do. Many systems allow 1,024
 * unless a process asks for more. */
static void ask_for_descriptors(int workers)
{
    const rlim_t wanted = (rlim_t)workers + 1024;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* tg_net_serve says if it is too little */
}

#define PORT_NS INT64_C(10000000000) /* a server that ends takes 5 s at most to say goodbye */

bool tcp_join_port_again(int64_t *until_ns, tg_status *status)
{
    const int64_t now = tg_now_ns(tg_clock_monotonic());
    if (*status != TG_E_IO || !strstr(tg_error(), strerror(EADDRINUSE)) ||
        (*until_ns != 0 && now > *until_ns))
        return false;
    if (stop_signal != 0) {
        *status = tg_fail(TG_E_STOPPED, "%s", stop_words());
        return false;
    }
    if (*until_ns == 0) {
        *until_ns = now + PORT_NS;
        console_note("%s: trying again for %d s", tg_error(), (int)(PORT_NS / 1000000000));
    }
    (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    return true;
}

tg_status tcp_join_serve(const struct net_options *o, tg_net_serve_config *config,
                         struct tcp_lists *lists, tg_net **net_p)
{
    tg_key_pair *key = NULL;
    int64_t until = 0;
    *lists = (struct tcp_lists){.options = o};
    tg_status status = read_keys(o, &key, &lists->current);
    if (status == TG_OK && o->insecure)
        warn_once();
    config->listen = o->listen;
    config->key = key;
    config->allow = lists->current;
    config->insecure = o->insecure;
    config->on_event = on_event;
    ask_for_descriptors(config->workers);
    if (status == TG_OK)
        do
            status = of_option(tg_net_serve(config, net_p));
        while (tcp_join_port_again(&until, &status));
    tg_key_destroy(key);
    return status;
}

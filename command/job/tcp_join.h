/* Joining a job over a network as the options say, with words for the person who waits. Compiled
 * only with libtelegrad-net. */
#ifndef TG_CLI_TCP_JOIN_H
#define TG_CLI_TCP_JOIN_H

#include "command/job/net_options.h"
#include "telegrad/net.h"

/* Read the keys that the options name, and join. Says on stderr what it waits for. A signal ends
 * it, see stop.h.
 * job       a name that all ranks give alike: which command, and which of its jobs
 * rank      the rank to become again; 0: the meeting point chooses
 * timeout_s until all ranks are connected
 * Errors    those of tg_net_join, tg_key_load and tg_keys_load */
TG_NODISCARD tg_status tcp_join(const struct net_options *o, const char *job, int rank,
                                double timeout_s, tg_net **net_p);

/* Call the servers that the options name, as a worker. Says on stderr what it waits for.
 * Errors    those of tg_net_attach and tg_key_load */
TG_NODISCARD tg_status tcp_join_servers(const struct net_options *o, const char *job,
                                        double timeout_s, tg_net **net_p);

/* A list of keys that is read again on SIGHUP, see tcp_join_await_hangups. */
struct tcp_lists {
    const struct net_options *options;
    tg_keys *current, *before; /* the library may still use the latter when it asks for the next */
};
/* The list now; NULL: it has not changed, or cannot be read, which was said.
 * lists  a struct tcp_lists */
const tg_keys *tcp_join_list_now(void *lists);
void tcp_join_lists_free(struct tcp_lists *lists);

/* Listen for workers as the options say.
 * config  what the options do not say is set. allow_now is for the caller, and has to return what
 *         tcp_join_list_now does
 * lists   [out] lives as long as the membership; then tcp_join_lists_free, also after an error
 * Errors  those of tg_net_serve, tg_key_load and tg_keys_load */
TG_NODISCARD tg_status tcp_join_serve(const struct net_options *o, tg_net_serve_config *config,
                                      struct tcp_lists *lists, tg_net **net_p);

/* Whether to try to listen again, after a pause: the port is in use, maybe by a server that is
 * ending, and has not been for 10 s. Says so the first time.
 * until_ns  0 at first
 * status    of the attempt that has failed, with the text of tg_error; TG_E_STOPPED if the command
 *           was interrupted meanwhile */
bool tcp_join_port_again(int64_t *until_ns, tg_status *status);

/* From now on SIGHUP does not end this process: the list of keys is read again, while it joins, and
 * then by tcp_join_refresh. Without --allow: does nothing. */
void tcp_join_await_hangups(const struct net_options *o);
/* How often SIGHUP has come since. */
unsigned tcp_join_hangups(void);
/* Give the list of keys anew to rank 0's job, if SIGHUP has come since this was last asked; if the
 * file cannot be read, the list stays, and a warning says so. Any thread, while net lives. */
void tcp_join_refresh(const struct net_options *o, tg_net *net);

#endif

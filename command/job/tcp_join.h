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

/* From now on SIGHUP does not end this process: the list of keys is read again, while it joins, and
 * then by tcp_join_refresh. Without --allow: does nothing. */
void tcp_join_await_hangups(const struct net_options *o);
/* Give the list of keys anew to rank 0's job, if SIGHUP has come since this was last asked; if the
 * file cannot be read, the list stays, and a warning says so. Any thread, while net lives. */
void tcp_join_refresh(const struct net_options *o, tg_net *net);

#endif

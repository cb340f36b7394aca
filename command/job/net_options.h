/* The options by which processes meet over a network, without MPI. */
#ifndef TG_CLI_NET_OPTIONS_H
#define TG_CLI_NET_OPTIONS_H

#include "command/help/command.h"
#include "telegrad/base.h"
#include <stdint.h>

/* Strings are borrowed from the arguments. NULL, 0, false: not given. */
struct net_options {
    const char *listen, *join, *advertise; /* tcp://HOST:PORT */
    const char *key, *allow;               /* files */
    const char *peer_key;                  /* tgk1:... */
    const char *server, *server_key;       /* lists with commas: of train, see option_table.c */
    uint64_t ranks;
    bool insecure;
};

#define NET_OPTIONS_PATIENCE 600 /* seconds for all ranks to join, if nothing else is said */

/* For cli_command.net; a struct net_options is the parser's input. On error it prints the message
 * and returns EINVAL. */
extern const struct cli_option net_options_list[];
TG_NODISCARD tg_status net_options_set(struct net_options *o, int key, const char *arg);

/* Whether this process is to meet other ranks over a network. */
bool net_options_join(const struct net_options *o);

/* Check an address: its form, its port, and hosts that cannot be.
 * option  "listen", for the message
 * called  others call this address, so it has a host and a port
 * whose   the machine that it is of, for the message: "this machine"
 * least   lowest port allowed
 * Errors  TG_E_SPEC */
TG_NODISCARD tg_status net_options_address(const char *option, const char *text, bool called,
                                           const char *whose, unsigned least);

/* Check that the options fit together, and that this build and this process can join.
 * Errors TG_E_SPEC, TG_E_UNSUPPORTED (built without libtelegrad-net) */
TG_NODISCARD tg_status net_options_check(const struct net_options *o);

#endif

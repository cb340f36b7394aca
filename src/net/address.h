/* Addresses "tcp://HOST:PORT", and sockets for them. */
#ifndef TG_NET_ADDRESS_H
#define TG_NET_ADDRESS_H

#include "telegrad/base.h"

struct addrinfo;

#define TG__HOST_MAX 256
#define TG__ADDRESS_MAX 300 /* bytes of an address as text, with the NUL */

typedef struct tg__address {
    char host[TG__HOST_MAX]; /* without brackets; "": see tg__address_parse */
    int port;                /* 0: any */
} tg__address;

/* Parse "tcp://HOST:PORT"; an IPv6 HOST is in brackets.
 * what     names the option in errors
 * partial  HOST may be missing ("tcp://:4242"), and PORT 0
 * Errors   TG_E_SPEC */
TG_NODISCARD tg_status tg__address_parse(const char *what, const char *text, bool partial,
                                         tg__address *a_p);
void tg__address_text(const tg__address *a, char text[TG__ADDRESS_MAX]);

/* Listen at one of the addresses found; where they are those of every interface, IPv6 and IPv4.
 * port_p   [out] the port, chosen by the system if a->port is 0
 * Errors   TG_E_IO (the port is taken, ...) */
TG_NODISCARD tg_status tg__address_listen(const tg__address *a, const struct addrinfo *found,
                                          int *fd_p, int *port_p);

/* Start a non-blocking connection to one of the addresses found.
 * turn    which, counted from 0; taken modulo their number
 * Returns 0, or an errno */
int tg__address_dial(const struct addrinfo *found, int turn, int *fd_p);
int tg__address_count(const struct addrinfo *found);
/* The outcome of a connection whose socket has become writable: 0 or an errno. */
int tg__dial_result(int fd);
/* Set what all sockets of a job need: non-blocking, not inherited, no delay, and keep-alive
 * after a minute. */
bool tg__socket_prepare(int fd);
/* A machine that vanishes without a word is noticed: one that has sent nothing for `idle_s` is
 * asked whether it is there, and the connection fails once it has answered nothing for `lost_s`. */
void tg__socket_watch(int fd, int idle_s, int lost_s);
/* The host of the other end, as an IP address; "" for this machine itself. */
void tg__peer_host(int fd, char host[TG__HOST_MAX]);

#endif

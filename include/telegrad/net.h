/* telegrad/net.h - ranks on any machines: keys, joining a job, and the TCP transport
 * (libtelegrad-net). The core library needs no network.
 *
 * Every connection uses TLS 1.3, unless `insecure` is set. Both ends prove that they hold a private
 * key, and accept only the public keys they have been given. There are no certificate authorities,
 * names or expiry dates.
 * Members of a job are trusted: one may send wrong gradients. Nobody else can read, change or
 * repeat a byte. */
#ifndef TELEGRAD_NET_H
#define TELEGRAD_NET_H

#include "telegrad/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- keys ------------------------------------------------------------------------------------ */

/* A pair of Ed25519 keys (RFC 8032). Several threads may read it at the same time. */
typedef struct tg_key_pair tg_key_pair;

#define TG_KEY_TEXT 64 /* bytes for a public key or a fingerprint as text, with the NUL */

/* Make a new pair.
 * Errors  TG_E_NOMEM, TG_E_IO (no random numbers) */
TG_API TG_NODISCARD tg_status tg_key_create(tg_key_pair **key_p);
/* Read a pair from a file (PEM, as tg_key_save writes it).
 * Errors  TG_E_IO (it cannot be read, or users other than its owner can read or write it),
 *         TG_E_CORRUPT (it does not contain an Ed25519 key), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_key_load(const char *path, tg_key_pair **key_p);
/* Write a pair to a new file that only its owner can read (mode 0600).
 * Errors  TG_E_IO (also: the file already exists; it is not changed) */
TG_API TG_NODISCARD tg_status tg_key_save(const tg_key_pair *key, const char *path);
/* The public key as text: "tgk1:" and 43 characters of base64. */
TG_API void tg_key_text(const tg_key_pair *key, char text[TG_KEY_TEXT]);
/* The fingerprint, a shorter text for people to compare: the first 20 hexadecimal digits of the
 * public key's SHA-256, in 5 groups of 4.
 * key_text  a public key as text
 * Errors    TG_E_ARG (not a public key) */
TG_API TG_NODISCARD tg_status tg_key_fingerprint(const char *key_text, char text[TG_KEY_TEXT]);
/* Wipe the private key from memory, and free the pair. NULL is fine. */
TG_API void tg_key_destroy(tg_key_pair *key);

/* Public keys that may connect, with names. */
typedef struct tg_keys tg_keys;

/* Read a list from a file. Each line holds a public key, blanks, and a name that extends to the end
 * of the line. Blank lines are ignored, as is everything after a #.
 * Errors  TG_E_IO (also: users other than its owner can write it), TG_E_SPEC (names the line; also:
 *         a key appears twice, or there is none), TG_E_CORRUPT (1 MiB or more), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_keys_load(const char *path, tg_keys **keys_p);
/* Read a list from text instead of a file. */
TG_API TG_NODISCARD tg_status tg_keys_parse(const char *text, tg_keys **keys_p);
TG_API size_t tg_keys_count(const tg_keys *keys);
/* NULL is fine. */
TG_API void tg_keys_destroy(tg_keys *keys);

/* ---- joining --------------------------------------------------------------------------------- */

/* A rank's membership in a job: its connections to all other ranks. It can be queried while a
 * transport owns it, by the thread that drives the transport or between that thread's calls.
 *
 * fork()  The child has neither: its connections are closed there. What it calls of them fails with
 *         TG_E_STATE, or does nothing and frees nothing, as destroying does. So a child may outlive
 *         the rank, and does not hide its end from the others. It may join a job of its own */
typedef struct tg_net tg_net;

#define TG_NET_VALUE 1024 /* largest value in the caller's store, in bytes with the NUL */

/* How to join. Addresses are "tcp://HOST:PORT"; HOST is a name, an IPv4 address, or an IPv6 address
 * in brackets.
 *
 * Ranks find each other in one of three ways:
 *   meeting point   One rank, which becomes rank 0, sets `listen` and `allow`. All others are given
 *                   its address and key: `join` and `peer_key`.
 *   list            Every rank knows all addresses and keys: `addresses` and `public_keys`. Each
 *                   sets its `rank`, and `size`.
 *   store           All ranks share an existing key-value store, such as PyTorch's c10d Store:
 *                   `set` and `get`. Each sets its `rank`, and `size`.
 *
 * Whom to trust: With a list, each rank accepts only the keys on it, whatever rank 0 says. With a
 * meeting point, the other ranks learn each other's keys from rank 0; one that sets `allow`, too,
 * accepts only the keys on it. With a store, the keys come from the store. Anyone who can write to
 * it, or change what is read from it in transit, can impersonate a rank; anyone who can only read
 * it learns nothing of use. `allow` at rank 0 and `peer_key` at the others, if set, override the
 * store. */
typedef struct tg_net_config {
    size_t struct_size; /* sizeof(tg_net_config) */
    /* The address where this rank listens. A meeting point must name its port. NULL: all interfaces
     * and a free port; with `addresses`, the port of this rank's address. */
    const char *listen;
    /* The meeting point's address. NULL, if `addresses` and `set` are NULL too: this rank is the
     * meeting point, and becomes rank 0. */
    const char *join;
    /* The address where other ranks reach this one, if it differs from that of the interface that
     * leads to the meeting point (port forwarding). Port 0: the one where it listens. NULL:
     * detected */
    const char *advertise;
    int size; /* ranks of the job. Required at the meeting point; others: 0, or the same */
    /* The rank that this process asks for, 1 to size - 1. 0: the meeting point assigns one, in the
     * order of the keys on its list; processes with the same key in the order of arrival. */
    int rank;
    const char *job; /* the job's name, which must be the same on all ranks; NULL: "" */

    /* This rank's key; borrowed during tg_net_join. NULL with `set`: a new one for this job */
    const tg_key_pair *key;
    /* Keys of the other ranks; borrowed during tg_net_join. Only the meeting point needs it. */
    const tg_keys *allow;
    const char *peer_key; /* on other ranks: the meeting point's public key as text */
    /* No keys and no encryption: anyone who reaches the port can join, and can read and change
     * everything. key, allow, peer_key and public_keys must be NULL. */
    bool insecure;

    double timeout_s; /* seconds until all ranks must be connected; 0: 60 */
    /* Called about ten times a second while joining, by the joining thread. If it returns true,
     * joining ends with TG_E_STOPPED. NULL: joining is not stopped */
    bool (*stop)(void *arg);
    void *stop_arg;
    /* Told about once a second, in words, what joining waits for. NULL: not reported */
    void (*on_wait)(void *arg, const char *text);
    void *on_wait_arg;

    /* The list: where each rank listens, and its public key as text; the same on all ranks. */
    const char *const *addresses;   /* (size) NULL: no list */
    const char *const *public_keys; /* (size) */
    /* The store, called by the joining thread. Names and values are printable text. Names begin
     * with "telegrad/" and contain `job`, which must differ from those of earlier jobs.
     * set  Stores a value under a name. Returns TG_OK, or an error, which ends joining
     * get  Writes the value of a name (room: TG_NET_VALUE bytes, with the NUL), or "" if it has not
     *      been set; must not wait until it is. Called again every 50 to 250 ms. Return values: as
     *      for set */
    tg_status (*set)(void *arg, const char *name, const char *value);
    tg_status (*get)(void *arg, const char *name, char *value, size_t room);
    void *store_arg;

    /* Rank 0, with `allow`: returns the list of keys to use from now on, for example because its
     * file has changed; NULL or the previous list if it has not. Called about ten times a second,
     * by the joining thread, until all ranks have joined; after that, use tg_net_allow. Members
     * whose key is no longer on the list are disconnected. The list is borrowed until another one
     * is returned, or until tg_net_join returns. NULL: `allow` does not change */
    const tg_keys *(*allow_now)(void *arg);
    void *allow_now_arg;
    /* Rank 0: told, in words, of each connection attempt that failed: the caller's address, its
     * key's fingerprint if it presented one, and the reason, for example "a call from 10.0.0.7 with
     * the key 93af-... failed: it is not on the list of allowed keys". Rate-limited: the first 8,
     * then one per 10 s; the same text at most once a minute. Called by the joining thread. NULL:
     * not reported */
    void (*on_refused)(void *arg, const char *text);
    void *on_refused_arg;
} tg_net_config;

/* Join a job. Returns when every rank is connected to every other rank. The meeting point sends
 * every rank the addresses and keys of all ranks; then each pair connects, and accepts no other
 * keys.
 *
 * Relaying   The higher-numbered rank of a pair connects to the lower-numbered one. If that fails,
 *            the lower-numbered one tries the other direction. If that fails, too (behind NAT or a
 *            firewall, for example), the meeting point relays between them, after about 1 s if
 *            connections are refused, and 6 to 10 s if they are not answered. The two ranks encrypt
 *            end to end, so the meeting point cannot read what it forwards. It forwards in a thread
 *            of its own, which continues while rank 0 computes and takes at most 128 KiB of memory
 *            per relayed pair. When rank 0 leaves, it waits at most 5 s for these pairs to leave
 * Strangers  are turned away. A flood of their connections does not keep members at other addresses
 *            from joining
 *
 * net_p   [out] pass it to tg_transport_tcp, or to tg_net_destroy
 * Errors  TG_E_ARG (config), TG_E_SPEC (an address, a public key), TG_E_PEER (a rank or the meeting
 *         point does not answer, does not accept this key, speaks another version of the protocol,
 *         or leaves: the text names it), TG_E_MISMATCH (another job or size, a rank that is taken,
 *         a key other than the one on the list), TG_E_CORRUPT (the meeting point's message, or a
 *         value in the store, is malformed), those of set and get, TG_E_IO (the port is in use, the
 *         host name is unknown), TG_E_UNSUPPORTED (this OpenSSL lacks TLS 1.3 with Ed25519),
 *         TG_E_STOPPED, TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_net_join(const tg_net_config *config, tg_net **net_p);

/* This process's rank, from 0, and the number of ranks. */
TG_API int tg_net_rank(const tg_net *net);
TG_API int tg_net_size(const tg_net *net);
/* Find the node of each rank, for tg_session_config.nodes: ranks on machines with the same host
 * name and boot ID are on one node.
 * nodes   [out] (size) for each rank, the lowest rank on its machine; the same on all ranks */
TG_API void tg_net_nodes(const tg_net *net, int *nodes);

typedef enum tg_net_way {
    TG_NET_SELF,    /* this rank itself */
    TG_NET_DIRECT,  /* a connection of its own */
    TG_NET_RELAYED, /* relayed by rank 0 */
    TG_NET_LOCAL    /* shared memory: it is a process of the same user on this machine */
} tg_net_way;

typedef struct tg_net_peer_info {
    size_t struct_size;    /* sizeof(tg_net_peer_info) */
    int way;               /* tg_net_way */
    char address[300];     /* where it can be reached, as it says; "": this rank */
    char key[TG_KEY_TEXT]; /* its public key as text; "": without keys */
    /* This end of the TCP connection in use (if relayed, the one to rank 0): data packets sent so
     * far without retransmissions, retransmissions, and the name of its congestion control, such as
     * "bbr". 0 and "": this rank */
    uint64_t packets_sent, packets_resent;
    char congestion[16];
} tg_net_peer_info;

/* How this rank is connected to a rank.
 * info    struct_size must be set
 * Errors  TG_E_ARG, TG_E_STATE (of a server: this seat is vacant) */
TG_API TG_NODISCARD tg_status tg_net_peer(const tg_net *net, int rank, tg_net_peer_info *info);

/* Replace rank 0's list of keys while the job runs, for example when its file has changed. If the
 * key of a member is no longer on it, the job ends: when rank 0 next waits in its transport (poll),
 * it disconnects the member, leaves, and says why. All operations on all ranks then fail with
 * TG_E_PEER, and the error names the rank whose key was removed. New keys have no effect, because
 * no rank can join a running job.
 *
 * Any thread may call it at any time before the transport (or net) is destroyed, but a signal
 * handler must not: have the handler set a flag, then load the list and call this between steps.
 * Errors  TG_E_ARG, TG_E_STATE (this is not rank 0, or the job has no keys; a server or a worker:
 *         see allow_now of tg_net_serve_config) */
TG_API TG_NODISCARD tg_status tg_net_allow(tg_net *net, const tg_keys *allow);

/* ---- servers --------------------------------------------------------------------------------- */

/* Connections between a server (server.h) and workers, which come and go while it runs. Workers
 * call servers, and are not connected to each other. */
typedef enum tg_net_event_kind {
    TG_NET_CAME,    /* a worker has a seat */
    TG_NET_BACK,    /* one whose connection had broken is back in its seat */
    TG_NET_LEFT,    /* one has left by itself */
    TG_NET_LOST,    /* the connection with one has broken; it may be back */
    TG_NET_DROPPED, /* this server has disconnected one */
    TG_NET_REFUSED  /* a call has failed, so nobody has come */
} tg_net_event_kind;

/* What has happened to a worker. Texts are valid during the call, and "" where there is none. Read
 * only members that struct_size includes. */
typedef struct tg_net_event {
    size_t struct_size;
    int kind;           /* tg_net_event_kind */
    int seat;           /* of the worker; -1: refused */
    const char *host;   /* its address without port */
    const char *name;   /* that of its key on the list */
    const char *key;    /* its key's fingerprint; "": without keys, or it has shown none */
    const char *reason; /* why it has left, or is refused */
    const char *text;   /* all of that in words, as on_event is told; "": it is not told */
} tg_net_event;

typedef struct tg_net_serve_config {
    size_t struct_size;     /* sizeof(tg_net_serve_config) */
    const char *listen;     /* where workers call: "tcp://HOST:PORT", or "tcp://:PORT" */
    int workers;            /* the most at a time: 1 to TG_RANKS_MAX - 1 */
    int shard, shards;      /* this is server `shard`, from 0, of `shards`; 0: 1 */
    const char *job;        /* as for tg_net_join */
    const tg_key_pair *key; /* this server's; borrowed during the call */
    /* Keys of the workers that may call; several workers may share one. Borrowed until allow_now
     * returns another list, or the membership is destroyed. */
    const tg_keys *allow;
    bool insecure; /* as for tg_net_join: key and allow must be NULL */
    /* Returns the list of keys to use from now on; NULL or the previous one: no change. Called
     * about ten times a second by the thread that drives the transport. Workers whose key is no
     * longer on it are disconnected. NULL: `allow` does not change */
    const tg_keys *(*allow_now)(void *arg);
    void *allow_now_arg;
    /* Told, in words, which worker has joined or left, and whose call has failed (rate-limited as
     * on_refused of tg_net_config). Called by the thread that drives the transport. NULL: not
     * reported */
    void (*on_event)(void *arg, const char *text);
    void *on_event_arg;
    /* A text for each worker that joins (tg_net_about), such as the server's optimizer: printable,
     * at most 511 bytes, copied. NULL: "" */
    const char *about;
    /* Told what on_event is told, in parts, and in the same way; but of each call that has failed.
     * NULL: not reported */
    void (*on_change)(void *arg, const tg_net_event *event);
    void *on_change_arg;
} tg_net_serve_config;

/* Listen for workers. Returns at once. The transport (tg_transport_tcp) has workers + 1 ranks: the
 * last one is this server, and each of the others is a seat for a worker (tg_transport_ops.drop).
 * net_p   [out] pass it to tg_transport_tcp, or to tg_net_destroy
 * Errors  TG_E_ARG, TG_E_SPEC (the address), TG_E_IO (the port is in use, or the process may not
 *         open a file descriptor for each worker), TG_E_UNSUPPORTED (this OpenSSL lacks what is
 *         needed), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_net_serve(const tg_net_serve_config *config, tg_net **net_p);

typedef struct tg_net_attach_config {
    size_t struct_size;             /* sizeof(tg_net_attach_config) */
    int count;                      /* servers: 1 to TG_SERVERS_MAX, all shards of the job */
    const char *const *servers;     /* (count) their addresses, in the order of their shards */
    const char *const *server_keys; /* (count) their public keys as text; NULL with insecure */
    const char *job;                /* these four: as for tg_net_join */
    const tg_key_pair *key;
    bool insecure;
    double timeout_s;        /* seconds until all servers must have answered; 0: 60 */
    bool (*stop)(void *arg); /* these four: as for tg_net_join */
    void *stop_arg;
    void (*on_wait)(void *arg, const char *text);
    void *on_wait_arg;
    /* If the connection with a server breaks, call it again for this many seconds while the job
     * waits; 0: a broken connection is an error. Messages that were not answered are sent again,
     * and the server takes each of them once; a server that was restarted in between needs a
     * journal (server.h) for that. The calls end with TG_E_PEER once another worker uses the seat.
     * `stop` may then be called as long as the transport lives, by the thread that drives it. */
    double again_s;
} tg_net_attach_config;

/* Connect to servers, as a worker. A server that does not answer yet is called again until the
 * timeout. The transport (tg_transport_tcp) has count + 1 ranks: this worker, rank 0, and the
 * servers. Pass it on to tg_transport_worker(t, count, &t), whose transport has the seat that the
 * servers assigned.
 * net_p   [out] pass it to tg_transport_tcp, or to tg_net_destroy
 * Errors  TG_E_ARG, TG_E_SPEC (an address, a key), TG_E_PEER (a server does not answer, does not
 *         accept this key, speaks another version of the protocol, or has no seat free; the text
 *         names it), TG_E_MISMATCH (it is for another job, another shard, or has another key),
 *         TG_E_CORRUPT (its message is malformed), TG_E_IO (the host name is unknown),
 *         TG_E_UNSUPPORTED, TG_E_STOPPED, TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_net_attach(const tg_net_attach_config *config, tg_net **net_p);
/* The text `about` of a server; "" if it has none, or the rank is not a server. Valid while net
 * lives.
 * rank  of the transport: 1 + the server's number */
TG_API const char *tg_net_about(const tg_net *net, int rank);

/* ---- leaving, and the transport -------------------------------------------------------------- */

/* Leave the job, and free the membership. Waits at most 5 s for delivery of what was sent. NULL is
 * fine. Do not call it after tg_transport_tcp has taken ownership. */
TG_API void tg_net_destroy(tg_net *net);
/* The same, and give the other ranks a reason: their operations that wait for this rank fail with
 * this text.
 * why  at most 511 bytes are sent. NULL or "": no reason */
TG_API void tg_net_leave(tg_net *net, const char *why);

/* Create the transport of a job.
 * net      owned by the transport on success
 * Leaving  A rank that shuts or destroys its transport says goodbye, and names the rank it blames.
 *          If it shuts the transport without blaming anyone, it sends its last error (tg_error) as
 *          the reason. Ranks that wait for it get TG_E_PEER at once, as they do when its process
 *          dies. A machine that stops responding is detected by the timeouts of operations that
 *          wait for it. Destroying the transport waits at most 5 s for delivery of what was sent
 * Machine  Two ranks that run as the same user, and whose connection does not leave the machine,
 *          exchange bytes through shared memory instead (TG_NET_LOCAL), once both have proved their
 *          keys. This takes two descriptors more for each such peer
 * Memory   Messages that arrive before their receive is posted are kept, up to 64 MiB from each
 *          rank; beyond that, a message stays with its sender until its receive is posted
 * Threads  any one at a time; TG_DRIVER_THREAD is possible
 * Errors   TG_E_ARG, TG_E_NOMEM, TG_E_IO (out of file descriptors) */
TG_API TG_NODISCARD tg_status tg_transport_tcp(tg_net *net, tg_transport **t_p);

#ifdef __cplusplus
}
#endif
#endif

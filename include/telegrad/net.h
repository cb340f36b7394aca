/* telegrad/net.h - ranks on any machines: keys, joining a job, and the TCP transport
 * (libtelegrad-net). The core library needs no network.
 *
 * Every connection is TLS 1.3, unless `insecure` is set. Both ends prove that they hold a private
 * key, and accept only public keys that they were told of. There are no certificate authorities,
 * names or dates.
 * A member of a job is trusted: it may send wrong gradients. Nobody else can read, change or repeat
 * a byte. */
#ifndef TELEGRAD_NET_H
#define TELEGRAD_NET_H

#include "telegrad/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- keys ------------------------------------------------------------------------------------ */

/* A pair of Ed25519 keys (RFC 8032). Reading is safe from several threads at a time. */
typedef struct tg_key_pair tg_key_pair;

#define TG_KEY_TEXT 64 /* bytes for a public key or a fingerprint as text, with the NUL */

/* Make a new pair.
 * Errors  TG_E_NOMEM, TG_E_IO (no random numbers) */
TG_API TG_NODISCARD tg_status tg_key_create(tg_key_pair **key_p);
/* Read a pair from a file (PEM, as tg_key_save writes it).
 * Errors  TG_E_IO (it cannot be read; or others than its owner may read or write it), TG_E_CORRUPT
 *         (it holds no Ed25519 key), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_key_load(const char *path, tg_key_pair **key_p);
/* Write a pair to a new file that only its owner may read (mode 0600).
 * Errors  TG_E_IO (also: there is a file of this name, which is left as it is) */
TG_API TG_NODISCARD tg_status tg_key_save(const tg_key_pair *key, const char *path);
/* The public key as text: "tgk1:" and 43 characters of base64. */
TG_API void tg_key_text(const tg_key_pair *key, char text[TG_KEY_TEXT]);
/* A shorter text for people to compare: 5 groups of 4 hexadecimal digits of the public key's
 * SHA-256.
 * key_text  a public key as text
 * Errors    TG_E_ARG (it is no public key) */
TG_API TG_NODISCARD tg_status tg_key_fingerprint(const char *key_text, char text[TG_KEY_TEXT]);
/* Wipe the private key from memory, and free. NULL is fine. */
TG_API void tg_key_destroy(tg_key_pair *key);

/* Public keys that may connect, with names. */
typedef struct tg_keys tg_keys;

/* Read a list: on each line a public key, blanks, and a name up to the line's end. Blank lines and
 * what follows a # are ignored.
 * Errors  TG_E_IO (also: others than its owner may write it), TG_E_SPEC (names the line; also: one
 *         key twice, or none at all), TG_E_CORRUPT (1 MiB or more), TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_keys_load(const char *path, tg_keys **keys_p);
/* The same from text instead of a file. */
TG_API TG_NODISCARD tg_status tg_keys_parse(const char *text, tg_keys **keys_p);
TG_API size_t tg_keys_count(const tg_keys *keys);
/* NULL is fine. */
TG_API void tg_keys_destroy(tg_keys *keys);

/* ---- joining --------------------------------------------------------------------------------- */

/* A rank's membership in a job: its connections to all other ranks. It may be asked about them also
 * while a transport owns it, by the thread that drives the transport or between its calls. After a
 * fork, the child must use neither: it would send with the parent's keys and numbers of records. */
typedef struct tg_net tg_net;

#define TG_NET_VALUE 1024 /* most bytes of a value in the caller's store, with the NUL */

/* How to join. Addresses are "tcp://HOST:PORT"; HOST is a name, an IPv4 address, or an IPv6 address
 * in brackets.
 *
 * Ranks find each other in one of three ways:
 *   meeting point   All are told the address and key of one rank, which becomes rank 0: `join` and
 *                   `peer_key`; it has `listen` and `allow`.
 *   list            All know all addresses and keys: `addresses` and `public_keys`. Each gives its
 *                   `rank`, and `size`.
 *   store           All share a store of texts that has another purpose, such as c10d's Store of
 *                   PyTorch: `set` and `get`. Each gives its `rank`, and `size`.
 *
 * Whom to trust: With a list, each rank accepts the keys on it only, whatever rank 0 says. With a
 * meeting point, the others learn each other's keys from rank 0; if they have `allow`, too, they
 * accept those on it only. With a store, keys come from there: who can write to it, or change what
 * is read from it on the way, can take a rank's place. So it is as safe as the store, but who can
 * only read the store learns nothing of use. `allow` at rank 0 and `peer_key` at the others, if
 * given, count instead of what the store says. */
typedef struct tg_net_config {
    size_t struct_size; /* sizeof(tg_net_config) */
    /* The address that this rank listens at. A meeting point must name its port. NULL: any port of
     * every interface; with `addresses`, the port of this rank's there. */
    const char *listen;
    /* The meeting point's address. NULL, without `addresses` and `set`: this rank is the meeting
     * point, and becomes rank 0. */
    const char *join;
    /* The address where other ranks reach this one, if it is not that of the interface that leads
     * to the meeting point (port forwarding). Port 0: the one where it listens. NULL: found out */
    const char *advertise;
    int size; /* ranks of the job. Only the meeting point must know; others: 0, or the same */
    /* The rank that this process wants to be, 1 to size - 1. 0: the meeting point chooses, in the
     * order of the keys on its list, and of arrival among processes with the same key. */
    int rank;
    const char *job; /* a name that all ranks must give alike; NULL: "" */

    /* This rank's key; borrowed during tg_net_join. NULL with `set`: a new one for this job */
    const tg_key_pair *key;
    /* Keys of the other ranks; borrowed during tg_net_join. Only the meeting point needs it. */
    const tg_keys *allow;
    const char *peer_key; /* others: the meeting point's public key as text */
    /* No keys and no encryption: anybody who reaches the port can join, read and change everything.
     * key, allow, peer_key and public_keys must be NULL then. */
    bool insecure;

    double timeout_s; /* until all ranks are connected; 0: 60 */
    /* Asked about ten times a second while joining. If it returns true, joining ends with
     * TG_E_STOPPED. NULL: never. Called by the joining thread */
    bool (*stop)(void *arg);
    void *stop_arg;
    /* What joining waits for, in words: about once a second. NULL: nobody wants to know */
    void (*on_wait)(void *arg, const char *text);
    void *on_wait_arg;

    /* The list: where each rank listens, and its public key as text; the same on all ranks. */
    const char *const *addresses;   /* (size) NULL: no list */
    const char *const *public_keys; /* (size) */
    /* The store, called by the joining thread. Names and values are printable texts; names begin
     * with "telegrad/" and contain `job`, which must differ from those of jobs before.
     * set  Returns TG_OK, or an error, which ends joining
     * get  Writes the value of a name (room: TG_NET_VALUE bytes, with the NUL), or "" if nobody has
     *      set it; must not wait until somebody does. Called again every 50 to 250 ms. Returns as
     *      set */
    tg_status (*set)(void *arg, const char *name, const char *value);
    tg_status (*get)(void *arg, const char *name, char *value, size_t room);
    void *store_arg;

    /* Rank 0, with `allow`: the list of keys that counts from now on, for example because its file
     * has changed; NULL, or the last one: no other. Asked about ten times a second until all ranks
     * have joined; tg_net_allow is for the time after. Who has joined with a key that is not on it
     * is turned away. Borrowed until the next one is given, or tg_net_join returns. Called by the
     * joining thread. NULL: `allow` stays */
    const tg_keys *(*allow_now)(void *arg);
    void *allow_now_arg;
    /* Rank 0: a call that failed, in words: the caller's address, its key's fingerprint if it
     * showed one, and why, as "a call from 10.0.0.7 with the key 93af-... failed: it is not on the
     * list of allowed keys". Of a flood only some are told: at first 8, then one in 10 s, and the
     * same words once a minute. Called by the joining thread. NULL: nobody wants to know */
    void (*on_refused)(void *arg, const char *text);
    void *on_refused_arg;
} tg_net_config;

/* Join a job. Returns when all ranks are connected to all others. The meeting point tells all ranks
 * the addresses and keys of all others; then each pair connects, and accepts no other keys.
 *
 * Of two ranks the higher one calls the lower one. If that fails, the lower one calls back; if that
 * fails, too, both are connected by way of the meeting point (behind NAT or a firewall, for
 * example), after about 1 s where calls are refused, and 6 to 10 s where they are not answered.
 * They encrypt for each other: the meeting point passes on bytes that it cannot read. It does so in
 * a thread of its own, which needs at most 128 KiB of memory for each such pair, and goes on while
 * rank 0 computes. It ends when rank 0 leaves, after all such pairs have left or 5 s.
 *
 * Strangers are turned away. A flood of their connections does not keep members at other addresses
 * from joining.
 * net_p   [out] to be given to tg_transport_tcp, or to tg_net_destroy
 * Errors  TG_E_ARG (config), TG_E_SPEC (an address, a public key), TG_E_PEER (a rank or the meeting
 *         point does not answer, does not accept this key, speaks another version of the protocol,
 *         or leaves: the text names it), TG_E_MISMATCH (another job or size, a rank that is taken,
 *         a key that is not the one on the list), TG_E_CORRUPT (the meeting point's message, or
 *         what is in the store, is malformed), those of set and get, TG_E_IO (the port is taken,
 *         the name is unknown), TG_E_UNSUPPORTED (this OpenSSL cannot do TLS 1.3 with Ed25519),
 *         TG_E_STOPPED, TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_net_join(const tg_net_config *config, tg_net **net_p);

/* This process's rank, from 0, and the number of ranks. */
TG_API int tg_net_rank(const tg_net *net);
TG_API int tg_net_size(const tg_net *net);
/* Find the node of each rank, for tg_session_config.nodes: ranks whose machines have the same
 * identity (host name and boot) are on one node.
 * nodes   [out] (size) for each rank, the lowest rank on its machine; the same on all ranks */
TG_API void tg_net_nodes(const tg_net *net, int *nodes);

typedef enum tg_net_way {
    TG_NET_SELF,   /* it is this rank */
    TG_NET_DIRECT, /* a connection of its own */
    TG_NET_RELAYED /* by way of rank 0 */
} tg_net_way;

typedef struct tg_net_peer_info {
    size_t struct_size;    /* sizeof(tg_net_peer_info) */
    int way;               /* tg_net_way */
    char address[300];     /* where it said that it can be reached; "": this rank */
    char key[TG_KEY_TEXT]; /* its public key as text; "": without keys */
    /* Of the TCP connection in use (relayed: the one to rank 0), on this side: packets with data
     * that it has sent so far, how many more it had to send because they were lost, and the name of
     * its congestion control, as "bbr". 0 and "": this rank */
    uint64_t packets_sent, packets_resent;
    char congestion[16];
} tg_net_peer_info;

/* How this rank is connected to a rank.
 * info    struct_size must be set
 * Errors  TG_E_ARG */
TG_API TG_NODISCARD tg_status tg_net_peer(const tg_net *net, int rank, tg_net_peer_info *info);

/* Replace rank 0's list of keys while the job runs, for example when its file has changed. A member
 * whose key is not on it is disconnected: when rank 0 next waits in its transport (poll), it leaves
 * the job and says why. All operations of all ranks then fail with TG_E_PEER, and the text names
 * the rank whose key was taken off. Keys that are new change nothing, because nobody joins later.
 *
 * It may be called by any thread at any time before the transport (or net) is destroyed, but not by
 * a signal handler: let that set a flag, and load the list and call this between two steps.
 * Errors  TG_E_ARG, TG_E_STATE (this is not rank 0, or the job has no keys) */
TG_API TG_NODISCARD tg_status tg_net_allow(tg_net *net, const tg_keys *allow);

/* Leave the job, and free; waits at most 5 s until what was sent has arrived. NULL is fine. Not
 * after tg_transport_tcp has taken the membership. */
TG_API void tg_net_destroy(tg_net *net);
/* The same, and tell the other ranks why: operations that wait for this rank fail with this text.
 * why  at most 511 bytes are told. NULL or "": no reason */
TG_API void tg_net_leave(tg_net *net, const char *why);

/* Create the transport of a job.
 * net     owned by the transport on success
 * Leaving A rank that shuts or destroys its transport says goodbye, and names the rank to blame;
 *         one that shuts it, and blames nobody, also says why: with the text of its last failure
 *         (tg_error). Others that wait for it get TG_E_PEER at once, as they do when its process
 *         dies. A machine that falls silent is found by the timeouts of the operations that wait
 *         for it. Destroying it waits at most 5 s until what was sent has arrived
 * Memory  A message that nobody has asked for yet is kept, up to 64 MiB from each rank; the sender
 *         of more is held back until its message is asked for
 * Threads any one at a time; TG_DRIVER_THREAD is possible
 * Errors  TG_E_ARG, TG_E_NOMEM, TG_E_IO (no descriptors left) */
TG_API TG_NODISCARD tg_status tg_transport_tcp(tg_net *net, tg_transport **t_p);

#ifdef __cplusplus
}
#endif
#endif

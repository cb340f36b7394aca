/* A membership, and the steps of joining. */
#ifndef TG_NET_MEMBERSHIP_H
#define TG_NET_MEMBERSHIP_H

#include "net/caller.h"
#include "net/relay.h"
#include <stdatomic.h>

#define TG__NONCE_BYTES 16
#define TG__JOB_MAX 128                       /* bytes of a job's name, with the NUL */
#define TG__JOIN_MAX 1024                     /* bytes of the message of a rank that joins */
#define TG__TEXT_MAX 512                      /* bytes of a text in a message, with the NUL */
#define TG__LEAVES_MAX (4 + 2 + TG__TEXT_MAX) /* bytes of the message of a rank that gives up */

typedef struct tg__member {
    tg__public_key key;
    uint64_t machine; /* equal on ranks of one machine */
    tg__address address;
    char *about;     /* of a server: what it has said of itself; NULL: nothing */
    uint64_t token;  /* of a worker: by which its server knows it when it comes back */
    int64_t lost_ns; /* of a seat: since when its worker is away; 0: it left as planned */
    bool settled;    /* of a seat: a message of its worker has come */
    bool is_back;    /* of a seat: the worker calls again, so this connection is of no use */
    bool dropped;    /* of a seat: its worker's key is no longer allowed */
} tg__member;

typedef struct tg__directory tg__directory;
typedef struct tg__seats tg__seats;
typedef struct tg__renewal tg__renewal;

struct tg_net {
    int rank, size;
    int forks;            /* tg__forks() of the process that has made it */
    bool attached;        /* a worker: the other ranks are servers */
    int seat, seats;      /* of a worker: which of how many it is */
    uint64_t token;       /* of a worker: tg__member.token of its servers */
    tg__seats *hosts;     /* of a server: the other ranks come and go; NULL: of another rank */
    tg__renewal *renewal; /* of a worker that calls its servers again; NULL: of another rank */
    tg__tls *tls;         /* NULL: without keys */
    uint8_t nonce[TG__NONCE_BYTES];
    tg__member *member;  /* (size) */
    tg__stream **stream; /* (size) NULL: this rank itself, or not connected yet */
    bool *relayed;       /* (size) connected by way of the meeting point */
    tg__relay *relay;    /* of the meeting point; NULL: all reach each other */
    int listener;        /* -1: none */
    int port;            /* of the listener */
    /* A rank whose key was removed from the list, which the transport is to disconnect; 0: none. */
    atomic_int expelled;
    atomic_int wake; /* an eventfd that ends the transport's waiting; -1: none */
    /* While joining. */
    const tg_net_config *config;
    const tg_keys *allow; /* the list of keys that counts now */
    tg__directory *directory;
    tg__public_key peer_key; /* the meeting point's */
    tg__address meeting;
    char advertise[TG__ADDRESS_MAX]; /* "": found out */
    int meeting_turn;                /* which of its addresses has answered */
    tg__caller control;              /* the connection to it, until all are connected */
    bool few_files;                  /* tg__door.few_files */
    int64_t timeout_ns, deadline_ns, told_ns;
};

#define TG__LEAVE_NS INT64_C(5000000000) /* for what is on its way when a rank leaves */
/* As tg_net_destroy, but waits until then. */
void tg__net_leave(tg_net *n, int64_t until_ns);
/* What a rank is called: "rank 3", "server 0", "worker 3". */
#define TG__NAME_MAX 24
const char *tg__net_name(const tg_net *n, int rank, char name[TG__NAME_MAX]);
/* An empty membership that joins now.
 * config     borrowed until n->config is set to NULL
 * timeout_s  0: 60
 * Errors     TG_E_NOMEM */
TG_NODISCARD tg_status tg__net_create(const tg_net_config *config, double timeout_s, tg_net **n_p);
/* The end of the call that has created it: return the membership, or free it if `status` is an
 * error, which is then returned. */
TG_NODISCARD tg_status tg__net_created(tg_net *n, tg_status status, tg_net **net_p);
/* Check the name of a job; `call` is for the text. Errors TG_E_ARG */
TG_NODISCARD tg_status tg__net_check_job(const char *call, const char *job);
/* Listen at n->config->listen. Errors TG_E_SPEC, TG_E_IO, TG_E_NOMEM, those of tg__net_patience */
TG_NODISCARD tg_status tg__net_listen(tg_net *n);
/* Copy a caller's configuration, of any version, to the own one of `size` bytes.
 * call      the public function
 * smallest  bytes of the first version
 * Errors    TG_E_ARG */
TG_NODISCARD tg_status tg__net_take_config(const char *call, const void *from, size_t smallest,
                                           void *own, size_t size);
/* Size the lists of members. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__net_members(tg_net *n, int size);
/* The identity of this machine: its name and its boot. */
uint64_t tg__this_machine(void);
/* The rank whose nonce and key a message shows: nonce, rank, other rank. Returns false if they are
 * not those of two different ranks of this job other than the meeting point. */
bool tg__net_read_pair(const tg_net *n, const tg__caller *c, int *from_p, int *to_p);
/* The body of such a message, from this rank. */
#define TG__PAIR_BYTES (TG__NONCE_BYTES + 8)
void tg__net_write_pair(const tg_net *n, int to, uint8_t body[TG__PAIR_BYTES]);
/* For tg__stream.accepts: the key is the one that arg points to. */
bool tg__net_is_key(void *arg, const tg__public_key *key);
/* The same: the key of another member of the job, arg. */
bool tg__net_is_member(void *arg, const tg__public_key *key);

/* How often a rank that joins looks around. */
#define TG__LOOK_MS 100
#define TG__TIMED_OUT "joining timed out" /* how the text of a deadline that has passed begins */
#define TG__LEG_NS INT64_C(20000000000)   /* for another rank to come to the relay */
/* Check the caller's wish to stop, and tell what is waited for, about once a second.
 * Errors  TG_E_STOPPED, TG_E_PEER (the deadline has passed) */
TG_NODISCARD tg_status tg__net_patience(tg_net *n, const char *waits_for);
/* The same for other ranks that have not joined.
 * waits  whom it waits for: "1 of 2 other ranks (not here: anna)"
 * lacks  the same, if it does not come: "anna has", or "2 of 3 other ranks have"
 * more   what to add then; "": nothing */
TG_NODISCARD tg_status tg__net_patience_for(tg_net *n, const char *waits, const char *lacks,
                                            const char *more);
/* Say REFUSED, with at most TG__TEXT_MAX bytes of text. Returns false if it is out of memory. */
bool tg__net_say_refused(tg__caller *c, tg_status status, const char *text);
/* Read REFUSED. Returns false if the message is another one, or malformed. */
bool tg__net_read_refused(const tg__caller *c, tg_status *status_p, char text[TG__TEXT_MAX]);
/* This rank gives up, with the status and text of tg_fail: what it says to others in LEAVES.
 * Returns its length. */
size_t tg__net_write_leaves(tg_status status, uint8_t body[TG__LEAVES_MAX]);
/* Say it, and wait a moment until the peer's machine has it. Keeps the text of tg_fail. */
void tg__net_say_leaves(tg__caller *c, tg_status status);
/* Read LEAVES. Returns false if it is malformed.
 * text  (TG__TEXT_MAX) why */
bool tg__net_read_leaves(const tg__caller *c, tg_status *status_p, char *text);
/* Where a call has failed because of the key at the other end: say so. Returns false, and leaves
 * text, if it has failed otherwise.
 * expected  the key that is accepted
 * source    what says that it is */
bool tg__net_describe_key(const tg__caller *c, const tg__public_key *expected, const char *source,
                          char *text, size_t room);

/* The meeting point: wait until all ranks have joined, tell them of each other, and wait until
 * they are connected. */
TG_NODISCARD tg_status tg__net_host(tg_net *n);
/* Another rank: call the meeting point, and learn who all are. */
TG_NODISCARD tg_status tg__net_call(tg_net *n);
/* Another rank, then: connect to all the others. */
TG_NODISCARD tg_status tg__net_mesh(tg_net *n);

#endif

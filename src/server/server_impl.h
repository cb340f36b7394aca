/* The inside of a server. Its loop (server.c) receives messages (intake.c), gathers them and
 * answers them (answer.c). */
#ifndef TG_SERVER_IMPL_H
#define TG_SERVER_IMPL_H

#include "exchange/nodes.h"
#include "server/gathering.h"
#include "server/journal.h"
#include "telegrad/server.h"
#include "transport/worker.h"

enum tg__awaits { TG__AWAITS_NOTHING, TG__AWAITS_STAMP, TG__AWAITS_MESSAGE };

/* What a rank sends. */
typedef struct tg__intake {
    bool here; /* it has not left; if workers come and go: the seat is taken */
    enum tg__awaits awaits;
    tg_request req;
    uint8_t stamp[TG__WORKER_STAMP];
    tg__stamp said;  /* the stamp, while MESSAGE */
    uint8_t *msg;    /* from the store, while MESSAGE */
    uint32_t worker; /* the worker that has the seat, by its stamps. It keeps the seat while it is
                         away, because it may come back. 0: none, or one that does not come back */
    uint64_t number; /* of the last message that was accepted from it */
    uint64_t base;   /* the step at which it began */
    bool met;        /* a message was accepted since it joined */
    bool named[2];   /* by the log; by tg_server_event_kind */
    struct {
        uint64_t step; /* 1 + the latest with an event */
        uint64_t bits; /* i: the step i before it had one */
    } reported[2];     /* likewise */
    uint64_t held;     /* bytes in gatherings that wait for lower ranks */
    uint64_t owed;     /* bytes of answers to its own gatherings that it has not received yet */
    int64_t heard_ns;  /* when its last message arrived */
} tg__intake;

/* The session whose messages a channel carries. */
typedef struct tg__heard_on {
    uint16_t channel;
    uint64_t session;
    char *settings; /* (settings_len) its text, as a worker has told it; NULL: none has */
    size_t settings_len;
} tg__heard_on;

/* The state of this server for the session of a channel, on its way to or from a rank. */
typedef struct tg__state_copy {
    struct tg__state_copy *next;
    uint16_t channel;
    void *saved;    /* (saved_len) that is being read; NULL: none */
    uint8_t *given; /* (given_len) that is being written */
    size_t saved_len, given_len, given_cap;
    uint64_t expected; /* bytes that are going to be written */
} tg__state_copy;

struct tg_server {
    tg_transport *t;
    int ranks;         /* that send gradients */
    int first_server;  /* its number in the transport */
    tg__nodes *nodes;  /* these are the leaders of nodes, in their order; NULL: all ranks */
    bool hosts;        /* workers come and go: ranks are seats */
    int shard, shards; /* shards 0: unknown */
    int64_t timeout_ns;
    int64_t deadline_ns;  /* of a round, from its first gradient on; 0: none */
    int64_t expires_ns;   /* when the next round's deadline passes */
    uint64_t stops_after; /* with rounds of ranks that stay: the step after which all stop */
    bool stop_wished;     /* ... and whether some rank wants to */
    const volatile sig_atomic_t *stop;
    tg__intake *in; /* (ranks) */
    tg__gathering *active, *idle;
    tg__heard_on *channels;
    size_t nchannels, channels_cap;
    struct tg__tensors *tensors; /* of the parameters: tensors.h */
    tg__mode mode;
    tg__robust robust;
    tg__region *regions;
    tg__recoder *recoders;
    tg__round *rounds;
    uint64_t step;   /* with rounds: the steps of which some elements are updated */
    int min_workers; /* of a round */
    bool founded;    /* workers come and go: a gradient has arrived, so all regions exist */
    tg__store store;
    tg__journal journal;    /* dir NULL: none */
    uint64_t journal_bytes; /* a longer log is replaced by a snapshot */
    int64_t worked_ns;      /* time spent on what is in the log: how long it takes to replay */
    int64_t snapshot_ns;    /* what the last snapshot took; 0: unknown */
    bool unsynced;          /* a gradient that was logged is not on disk yet */
    tg__kept kept;          /* of a checkpoint: what has not been taken up yet */
    tg__state_copy *copies; /* for ranks that read or write it */
    tg_server_stats stats;
    void (*on_event)(void *arg, const tg_server_event *event);
    void *on_event_arg;
    void (*on_replay)(void *arg, uint64_t bytes, uint64_t all);
    void *on_replay_arg;
    int culprit; /* after an error: the rank to blame; -1: the sender of the message */
    bool ran;
    bool failed, released; /* it has left its transport; that no longer uses posted memory */
};

static inline bool tg__has_left(const tg_server *s, int rank)
{
    return !s->in[rank].here;
}

/* The number in the transport of what the server counts as `rank`. */
static inline int tg__server_peer(const tg_server *s, int rank)
{
    return s->nodes != NULL ? s->nodes->leader[rank] : rank;
}

/* "(step 7, bucket 3)" */
const char *tg__server_where(const tg__envelope *id, char text[64]);

/* Post the receive for a rank's next message. */
TG_NODISCARD tg_status tg__intake_begin(tg_server *s, int rank);
/* Make a worker's seat vacant: it has left, or is disconnected with the text of tg_error. */
TG_NODISCARD tg_status tg__intake_vacate(tg_server *s, int rank);
/* Receive what has arrived from a rank. *any_p: set to true if anything has.
 * Errors  also TG_E_PEER: it has left, and others wait for it */
TG_NODISCARD tg_status tg__intake_receive(tg_server *s, int rank, bool *any_p);

/* Forget which sessions channels belong to. */
void tg__intake_forget_sessions(tg_server *s);

TG_NODISCARD tg_status tg__gathering_new(tg_server *s, tg__gathering **g_p);
/* Release the memory of its answer. */
void tg__gathering_free_answer(tg_server *s, tg__gathering *g);
void tg__gathering_end(tg_server *s, tg__gathering *g);
/* Apply g, whose frames have all arrived. It waits in a round instead if it belongs to one; or, if
 * that is over, for its answer. */
TG_NODISCARD tg_status tg__gathering_take(tg_server *s, tg__gathering *g);
/* Read the answer: what workers have of its region. */
void tg__gathering_read(tg__gathering *g);
/* Send the answer. */
TG_NODISCARD tg_status tg__gathering_answer(tg_server *s, tg__gathering *g);
/* Count the gradient of g if it was not applied, and say so. */
void tg__note_unfit(tg_server *s, const tg__gathering *g);
/* Say that the gradient of g, which is that of one rank, is not applied: in the log once of each
 * rank, and to on_event once of each of its steps.
 * logs  whether the log has it at all */
void tg__say_unapplied(tg_server *s, const tg__gathering *g, tg_server_event_kind kind, bool logs,
                       const char *format, ...) TG_PRINTF(5, 6);
/* Begin a gathering with its first message, whose envelope has been opened.
 * payload  (len) of the message
 * Errors   those of tg__gathering_begin; TG_E_MISMATCH, TG_E_UNSUPPORTED. The gathering then
 *          ends */
TG_NODISCARD tg_status tg__gathering_open(tg_server *s, uint32_t tag, int rank,
                                          const tg__envelope *id, const uint8_t *payload,
                                          size_t len, tg__gathering **g_p);

/* ---- journal_replay.c: the journal ---- */

/* Apply a record of the journal, without answering. */
TG_NODISCARD tg_status tg__gathering_replay(tg_server *s, const tg__journal_record *record,
                                            const uint8_t *body);
TG_NODISCARD tg_status tg__gathering_replay_place(tg_server *s, const tg__journal_record *record,
                                                  const uint8_t *body);
/* Write a rank's message, which belongs to g, to the journal.
 * msg  (said.len) */
TG_NODISCARD tg_status tg__gathering_note(tg_server *s, const tg__gathering *g, int rank,
                                          const uint8_t *msg);
/* Write to the journal what a rank is answered. */
TG_NODISCARD tg_status tg__gathering_note_answer(tg_server *s, const tg__gathering *g);
/* Write to the journal that a worker has come back to its seat (tg__clocks_return). */
TG_NODISCARD tg_status tg__gathering_note_return(tg_server *s, int rank, uint64_t step);
/* After reading the journal, to its end or until an error, `status`, which is returned. */
TG_NODISCARD tg_status tg__gatherings_end_replay(tg_server *s, tg_status status);

/* ---- answer.c: answers ---- */

/* Once all frames of g have arrived: form the answer, and send it unless it must be held. */
TG_NODISCARD tg_status tg__gathering_complete(tg_server *s, tg__gathering *g);
/* Send the answers that need not be held any longer. */
TG_NODISCARD tg_status tg__gatherings_release(tg_server *s);
/* Discard parameters for which no gradient has ever arrived, and forget who offered them. */
TG_NODISCARD tg_status tg__regions_abandon(tg_server *s);
/* Discard what was to be sent to a worker, which leaves its seat. */
TG_NODISCARD tg_status tg__gatherings_forget(tg_server *s, int rank);
/* Complete answers that have been sent. *any_p: set to true if there were any. */
TG_NODISCARD tg_status tg__answers_progress(tg_server *s, bool *any_p);
/* The rank that g waits for: the first one whose frame is missing, or the slowest; -1: none. */
int tg__gathering_waits_for(const tg_server *s, const tg__gathering *g);

/* Decoding and updating have taken since begin_ns. */
void tg__note_work(tg_server *s, int64_t begin_ns);

/* ---- keeping.c: checkpoints of the ranks ---- */

/* Check a request about this server's state, that of g, which has begun.
 * Errors  TG_E_MISMATCH, TG_E_CORRUPT */
TG_NODISCARD tg_status tg__keeping_check(const tg_server *s, const tg__gathering *g);
/* Put the answer in place of the request. */
void tg__keeping_answer(tg_server *s, tg__gathering *g);
/* Free what is on its way. */
void tg__keeping_fini(tg_server *s);
/* A region has been created: take over what a checkpoint holds of it.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__keeping_restore(tg_server *s, tg__region *r);
/* The same of the codec of its answers, once that is told. */
void tg__keeping_restore_coder(tg_server *s, tg__region *r);

/* ---- clocks.c: how many steps workers have made ---- */

/* The rank with the fewest steps in a region, of those that have not left; -1: all have left. */
int tg__clocks_slowest(const tg_server *s, const tg__region *r);
/* The most steps that any worker has made in a region. */
uint64_t tg__clocks_newest(const tg_server *s, const tg__region *r);
/* How many steps it has seen. */
enum tg__star_age tg__clocks_age(const tg_server *s);
/* The step at which a new worker begins: that of the slowest worker of those that were heard within
 * the timeout, or, if none was, of all; if none is connected, the one after the last that was made;
 * 0 if there are no parameters yet. */
uint64_t tg__clocks_now(const tg_server *s);
/* Set the step at which a worker begins, which has sent its first message, that of g. */
void tg__clocks_begin(tg_server *s, int rank, tg__gathering *g);
/* Count steps from 0 again. */
void tg__clocks_clear(tg_server *s);
/* Include a worker that has come back to its seat in the bound of staleness again. If it has made
 * fewer steps than `step`, it counts as if it had made so many. */
void tg__clocks_return(tg_server *s, int rank, uint64_t step);
/* Count the gradient of a rank, that of g, which was applied. */
void tg__clocks_note(const tg_server *s, const tg__gathering *g, int rank);
/* Whether the rank of g, which is complete, is further ahead of the slowest one than allowed. */
bool tg__clocks_ahead(const tg_server *s, const tg__gathering *g);

#endif

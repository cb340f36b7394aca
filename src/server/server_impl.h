/* The inside of a server: what ranks send is received (intake.c), gathered and answered (answer.c)
 * in the loop (server.c). */
#ifndef TG_SERVER_IMPL_H
#define TG_SERVER_IMPL_H

#include "server/gathering.h"
#include "server/journal.h"
#include "telegrad/server.h"
#include "transport/worker.h"

enum tg__awaits { TG__AWAITS_NOTHING, TG__AWAITS_STAMP, TG__AWAITS_MESSAGE };

/* What comes from a rank. */
typedef struct tg__intake {
    bool here; /* it has not left; of workers that come and go: it has come */
    enum tg__awaits awaits;
    tg_request req;
    uint8_t stamp[TG__WORKER_STAMP];
    tg__stamp said;   /* what it says, while MESSAGE */
    uint8_t *msg;     /* from the store, while MESSAGE */
    uint32_t worker;  /* whose the seat is, as its stamps say; also when it is away, as it may be
                         back; 0: nobody's who does that */
    uint64_t number;  /* of its messages, the last one taken */
    bool met;         /* since it came, a message of it was taken */
    uint64_t held;    /* bytes in gatherings that wait for lower ranks */
    uint64_t owed;    /* bytes of answers that it has not taken, to gatherings of its own */
    int64_t heard_ns; /* when its last message came */
} tg__intake;

/* The session whose messages a channel carries. */
typedef struct tg__heard_on {
    uint16_t channel;
    uint64_t session;
} tg__heard_on;

struct tg_server {
    tg_transport *t;
    int ranks;
    bool hosts;        /* workers come and go: ranks are seats */
    int shard, shards; /* shards: 0: not known */
    int64_t timeout_ns;
    const volatile sig_atomic_t *stop;
    tg__intake *in; /* (ranks) */
    tg__gathering *active, *idle;
    tg__heard_on *channels;
    size_t nchannels, channels_cap;
    tg__mode mode;
    tg__robust robust;
    tg__region *regions;
    bool founded; /* workers come and go: all regions are there, since a gradient has come */
    tg__store store;
    tg__journal journal;    /* dir NULL: none */
    uint64_t journal_bytes; /* a longer log is replaced by a snapshot */
    bool unsynced;          /* a gradient that was logged is not on disk yet */
    tg_server_stats stats;
    int culprit; /* the rank that others wait for, of an error; -1: the one whose message it is */
    bool ran;
    bool failed, released; /* it has left its transport; which no longer uses posted memory */
};

static inline bool tg__has_left(const tg_server *s, int rank)
{
    return !s->in[rank].here;
}

/* "(step 7, bucket 3)" */
const char *tg__server_where(const tg__envelope *id, char text[64]);

/* Await what a rank sends next. */
TG_NODISCARD tg_status tg__intake_begin(tg_server *s, int rank);
/* A worker that came and goes leaves its seat, or has to, because of tg_error. */
TG_NODISCARD tg_status tg__intake_vacate(tg_server *s, int rank);
/* Receive from a rank what has come. *any_p: set if something has.
 * Errors  also TG_E_PEER: it has left, and others wait for it */
TG_NODISCARD tg_status tg__intake_receive(tg_server *s, int rank, bool *any_p);

/* Begin a gathering with the first message to come, which has been opened.
 * payload  (len) of the message
 * Errors   those of tg__gathering_begin; TG_E_MISMATCH, TG_E_UNSUPPORTED. It is over then */
TG_NODISCARD tg_status tg__gathering_open(tg_server *s, uint32_t tag, int rank,
                                          const tg__envelope *id, const uint8_t *payload,
                                          size_t len, tg__gathering **g_p);
/* A worker has come back to its seat: it counts again. */
void tg__regions_readmit(const tg_server *s, int rank);
/* Do again what a record of the journal says, without answering. */
TG_NODISCARD tg_status tg__gathering_replay(tg_server *s, const tg__journal_record *record,
                                            const uint8_t *body);
TG_NODISCARD tg_status tg__gathering_replay_place(tg_server *s, const tg__journal_record *record,
                                                  const uint8_t *body);
/* Write to the journal that a rank's message has come, which g is about.
 * msg  (said.len) */
TG_NODISCARD tg_status tg__gathering_note(tg_server *s, const tg__gathering *g, int rank,
                                          const uint8_t *msg);
/* The journal has been read to its end, or until an error, which is returned. */
TG_NODISCARD tg_status tg__gatherings_end_replay(tg_server *s, tg_status status);
/* All frames of g are in: form the answer, and send it unless a rank is too far ahead. */
TG_NODISCARD tg_status tg__gathering_complete(tg_server *s, tg__gathering *g);
/* Answer those who no longer are. */
TG_NODISCARD tg_status tg__gatherings_release(tg_server *s);
/* Forget parameters of which no gradient has ever come, and who has sent them. */
TG_NODISCARD tg_status tg__regions_abandon(tg_server *s);
/* A worker leaves its seat: forget what was to be sent to it. */
TG_NODISCARD tg_status tg__gatherings_forget(tg_server *s, int rank);
/* Complete answers. *any_p: set if one is. */
TG_NODISCARD tg_status tg__answers_progress(tg_server *s, bool *any_p);
/* The rank that g waits for: the first one missing, or the slowest; -1: none. */
int tg__gathering_waits_for(const tg_server *s, const tg__gathering *g);

#endif

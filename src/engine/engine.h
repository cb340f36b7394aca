/* An engine runs the operations of one reducer or session: each is taken up (compensate, encode),
 * its exchanges go through the pump, and it is finished. All engines of one transport share a hub
 * (hub.h): whoever drives it moves the operations of all. Two drivers of the same code: a
 * communication thread, or inline progress inside calls.
 *
 * Threads  any number of engines of a transport, each used by one thread at a time. Where the
 *          transport is bound to a thread: that one, else TG_E_STATE */
#ifndef TG_ENGINE_H
#define TG_ENGINE_H

#include "exchange/pump.h"
#include "engine/claim.h"
#include "method/method.h"
#include "telegrad/transport.h"
#include "telegrad/trace.h"

#define TG__WORLD_MAX 4096 /* ranks */
#define TG__TIMEOUT_MS_MAX (INT64_MAX / 1000000)

typedef enum tg__op_state {
    TG__OP_IDLE,
    TG__OP_QUEUED,
    TG__OP_BEGUN,   /* its buffer has been read */
    TG__OP_ENCODED, /* and the method's memory updated, at once but in programs that defer it */
    TG__OP_DONE
} tg__op_state;

/* One operation; the caller's memory, in place until DONE. Either a method's task, or a bare
 * exchange (method NULL). */
typedef struct tg__op {
    tg__method *method;
    tg__task task;
    tg__exchange *x; /* bare: launched as it is */
    uint64_t step;
    uint16_t bucket, flags; /* flags of the envelopes */
    int priority;           /* smaller is taken up first; FIFO among equals */
    /* By simulated time: to begin; to start a round and to finish it; to take in a byte of a frame,
     * in picoseconds. */
    int64_t encode_cost_ns, start_cost_ns, finish_cost_ns, decode_cost_ps;
    /* [out], stable once DONE (encode times and task once ENCODED) */
    uint16_t flags_in; /* NONFINITE also if the task's `overflow` says so */
    uint64_t bytes_sent;
    int64_t encode_ns, begin_ns, end_ns;
    int64_t decode_ns; /* between begin and end: checking, decoding and combining, all rounds */
    /* the engine's */
    struct tg__engine *engine;
    uint32_t sequence; /* of its first round, among its engine's exchanges */
    tg__op_state state;
    tg__flight flight;
    struct tg__op *next, *older, *newer;
} tg__op;

typedef struct tg__engine tg__engine;

/* transport, trace (NULL: none) are borrowed. Until tg__engine_join the engine has no channel of
 * its own. Errors TG_E_NOMEM, TG_E_UNSUPPORTED (thread driver on a transport that is bound to one
 * thread) */
TG_NODISCARD tg_status tg__engine_create(tg_transport *transport, tg_driver driver,
                                         int64_t timeout_ns, tg_trace *trace, tg__engine **e_p);
/* If anything of this engine is under way the transport is shut first, for all its engines. NULL is
 * fine. Returns whether message buffers may be freed: false if the transport still holds some (MPI
 * after a failure), then they must live until the process ends. */
bool tg__engine_destroy(tg__engine *e);

/* Free op and its bare exchange, both made by malloc. op is DONE, was never submitted, or is what
 * the engine failed with: then the transport may still write to the buffers, and the engine keeps
 * them until it can free them. */
void tg__op_release(tg__engine *e, tg__op *op);

/* Becoming a channel, in which all ranks take part, one engine of the transport after the other:
 * begin_setup waits until no other thread's engine is between these calls; the ranks tell each
 * other their claims (what they have given away); join, unless they found that they do not belong
 * together, gives the engine a number and tags of its own, the same on all ranks. */
void tg__engine_begin_setup(tg__engine *e);
void tg__engine_claim(tg__engine *e, uint8_t claim[TG__CLAIM_BYTES]);
/* claims: all ranks', merged by tg__claim_merge. hash: what envelopes carry from now on. at_once:
 * so many exchanges should be able to be under way at once (more wait for each other); a power of
 * two. Errors TG_E_STATE: too many channels */
TG_NODISCARD tg_status tg__engine_join(tg__engine *e, const uint8_t claims[TG__CLAIM_BYTES],
                                       uint64_t hash, uint32_t at_once);
void tg__engine_end_setup(tg__engine *e);

/* Queue op. All ranks submit the same operations to an engine in the same order, whatever they do
 * with other engines. Never blocks on the network. */
TG_NODISCARD tg_status tg__engine_submit(tg__engine *e, tg__op *op);
/* Wait until op's buffer has been read (BEGUN or later) / no begin of its method is due or running
 * any more (ENCODED or DONE) / its result stands (DONE). An op never submitted counts as done.
 * Errors: the transport's failure, for good, whichever engine met it */
TG_NODISCARD tg_status tg__engine_wait_begun(tg__engine *e, tg__op *op);
TG_NODISCARD tg_status tg__engine_wait_encoded(tg__engine *e, tg__op *op);
TG_NODISCARD tg_status tg__engine_wait(tg__engine *e, tg__op *op);
/* Move what can be moved without blocking, of all engines; nothing where another thread drives. */
TG_NODISCARD tg_status tg__engine_progress(tg__engine *e);
/* Whether op is DONE; no progress is made. */
bool tg__engine_is_done(tg__engine *e, const tg__op *op);

/* Which ranks are near (size), of whom bytes are counted apart; before anything is submitted.
 * Borrowed. */
void tg__engine_set_near(tg__engine *e, const bool *near);

/* Whom waits are told to, before anything is submitted: see tg_session_config.on_wait. */
void tg__engine_on_wait(tg__engine *e, void (*tell)(void *arg, const tg_wait *wait), void *arg);
/* See tg_session_waited. ns (size) */
void tg__engine_waited(const tg__engine *e, int64_t *ns);

uint64_t tg__engine_bytes(tg__engine *e); /* handed to the transport so far */
/* ... of them to ranks that are near; *sent_p: all, at the same moment. */
uint64_t tg__engine_bytes_near(tg__engine *e, uint64_t *sent_p);
tg_transport *tg__engine_transport(const tg__engine *e);

#endif

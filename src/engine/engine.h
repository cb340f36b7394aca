/* An engine runs the operations of one reducer or session. It takes up each operation (compensate,
 * encode), passes its exchanges to the pump, and finishes it. All engines of a transport share a
 * hub (hub.h): whoever drives it makes progress on the operations of all. Two drivers run the same
 * code: a communication thread, or inline progress inside calls.
 *
 * Threads  different engines of a transport may be used by different threads at the same time, each
 *          by one. If the transport is bound to a thread, only by that one; else TG_E_STATE */
#ifndef TG_ENGINE_H
#define TG_ENGINE_H

#include "exchange/nodes.h"
#include "engine/claim.h"
#include "method/method.h"
#include "telegrad/transport.h"
#include "telegrad/trace.h"

#define TG__TIMEOUT_MS_MAX (INT64_MAX / 1000000)

typedef enum tg__op_state {
    TG__OP_IDLE,
    TG__OP_QUEUED,
    TG__OP_BEGUN, /* its buffer has been read */
    /* ... and the method's memory is updated: at the same time, unless the method defers that */
    TG__OP_ENCODED,
    TG__OP_DONE
} tg__op_state;

/* One operation: a method's task, or a bare exchange (method NULL). The caller owns the memory, and
 * keeps it in place until DONE. */
typedef struct tg__op {
    tg__method *method;
    tg__task task;
    tg__exchange *x; /* bare: the exchange to launch */
    uint16_t flags;  /* of the envelopes */
    /* The exchange in flight. The caller sets its bucket, its costs, and its priority: operations
     * with a smaller one are taken up first; FIFO among equals */
    tg__flight flight;
    /* [out] final once DONE (encode_ns and task once ENCODED) */
    uint16_t flags_in; /* also NONFINITE if the task has an `overflow` */
    bool left_out;     /* servers have combined the others' vectors: see tg__op_flagged */
    bool late;         /* servers have updated without all of this rank's vector ... */
    uint64_t told;     /* ... and it goes on at this step */
    uint64_t bytes_sent, bytes_near;
    int64_t encode_ns, begin_ns, end_ns;
    int64_t decode_ns; /* between begin and end: checking, decoding and combining, in all rounds */
    /* for the engine only */
    struct tg__engine *engine;
    uint32_t sequence; /* of its first round, among its engine's exchanges */
    tg__op_state state;
    struct tg__op *next, *older, *newer;
} tg__op;

/* True if a vector that is not finite makes all ranks drop op, which is DONE. With a robust rule,
 * servers leave out a rank that sends NONFINITE, and answer without the flag: then the rank applies
 * the result as the others do. */
static inline bool tg__op_flagged(const tg__op *op)
{
    return !op->left_out && ((op->flags | op->flags_in) & TG__FLAG_NONFINITE) != 0;
}

typedef struct tg__engine tg__engine;

/* Create an engine. It has no channel of its own until tg__engine_join.
 * transport  borrowed
 * trace      borrowed; NULL: none
 * Errors     TG_E_NOMEM, TG_E_UNSUPPORTED (thread driver on a transport that is bound to a
 *            thread) */
TG_NODISCARD tg_status tg__engine_create(tg_transport *transport, tg_driver driver,
                                         int64_t timeout_ns, tg_trace *trace, tg__engine **e_p);
/* Free the engine; NULL is fine. If anything of it is under way, the transport is shut first, for
 * all engines.
 * Returns  true if message buffers may be freed. False if the transport still uses some (MPI after
 *          a failure): then they must live until the process ends */
bool tg__engine_destroy(tg__engine *e);

/* Free op and its bare exchange, both allocated by malloc. op is DONE, was never submitted, or was
 * in flight when the engine failed. In the last case the transport may still write to the buffers,
 * and the engine keeps them until they can be freed. */
void tg__op_release(tg__engine *e, tg__op *op);

/* Give up: this rank cannot go on (status and tg_error(), which does not change), and the other
 * ranks do not know. It leaves the transport, with all its channels, so that no rank waits for it.
 * because_of  the rank that the others name: this one (out of memory), or one that sent something
 *             invalid; -1: no particular rank
 * Does nothing if the transport has failed already, if all ranks know, or on a thread that may not
 * use the transport. */
void tg__engine_give_up(tg__engine *e, tg_status status, int because_of);
/* The same for a rank that has no engine yet; the others name this rank. */
void tg__leave_transport(tg_transport *t, tg_status status);
/* From now on, if an operation of e is still in flight one second after wants(arg) became true, end
 * it with TG_E_STOPPED and leave the transport. NULL: stop doing so.
 * Called again, the second is counted anew. */
void tg__engine_stop_if(tg__engine *e, bool (*wants)(const void *arg), const void *arg);
/* Record that all ranks have agreed that they fail. This holds until something is submitted. */
void tg__engine_all_know(tg__engine *e);

/* How an engine becomes a channel. All ranks take part, for one engine of the transport at a time:
 * 1. begin_setup waits until no other thread's engine is between begin_setup and end_setup, and
 *    returns this rank's claim: the tags that it has given away.
 * 2. The ranks exchange their claims.
 * 3. join gives the engine a channel number and tags, the same on all ranks. It is omitted if the
 *    ranks' settings differ.
 * 4. end_setup lets the next engine in. */
void tg__engine_begin_setup(tg__engine *e, uint8_t claim[TG__CLAIM_BYTES]);
/* claims   of all ranks, merged by tg__claim_merge
 * hash     envelopes carry it from now on
 * at_once  exchanges that can be in flight at once (others wait); a power of two
 * Errors   TG_E_STATE (too many channels) */
TG_NODISCARD tg_status tg__engine_join(tg__engine *e, const uint8_t claims[TG__CLAIM_BYTES],
                                       uint64_t hash, uint32_t at_once);
void tg__engine_end_setup(tg__engine *e);

/* Queue op. All ranks must submit the same operations to an engine in the same order, whatever they
 * do with other engines. Never blocks on the network. */
TG_NODISCARD tg_status tg__engine_submit(tg__engine *e, tg__op *op);
/* This rank leaves out `count` exchanges that the others have begun: those that it submits next
 * have the same tags as theirs. */
void tg__engine_skip(tg__engine *e, uint64_t count);
/* Wait for op. An op that was never submitted counts as done.
 * state   BEGUN, ENCODED (no begin of its method is due or running), or DONE (its result is
 *         complete), which tg__engine_wait waits for
 * Errors  the transport's failure, which is final, whichever engine it occurred on */
TG_NODISCARD tg_status tg__engine_wait_for(tg__engine *e, tg__op *op, tg__op_state state);
static inline TG_NODISCARD tg_status tg__engine_wait(tg__engine *e, tg__op *op)
{
    return tg__engine_wait_for(e, op, TG__OP_DONE);
}
/* Make progress on all engines without blocking. Does nothing while another thread drives. */
TG_NODISCARD tg_status tg__engine_progress(tg__engine *e);
/* True if op is DONE. Makes no progress. */
bool tg__engine_is_done(tg__engine *e, const tg__op *op);

/* Set the nodes: bytes to ranks of the same one are counted separately, and only their leaders send
 * to servers. Call it before anything is submitted.
 * nodes  borrowed */
void tg__engine_set_nodes(tg__engine *e, const tg__nodes *nodes);

/* Set the function that reports long waits (tg_session_config.on_wait). Call it before anything is
 * submitted. */
void tg__engine_on_wait(tg__engine *e, void (*tell)(void *arg, const tg_wait *wait), void *arg);
/* See tg_session_waited.
 * ns  [out] (size) */
void tg__engine_waited(const tg__engine *e, int64_t *ns);

/* Bytes handed to the transport so far; *near_p (NULL: not asked for): of them to near ranks. */
uint64_t tg__engine_bytes(tg__engine *e, uint64_t *near_p);
/* Of them, bytes of the exchanges of collect.h to ranks that are not near. For the calling
 * thread. */
uint64_t tg__engine_control_bytes(const tg__engine *e);
tg_transport *tg__engine_transport(const tg__engine *e);

#endif

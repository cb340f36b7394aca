/* Shared by the files of the simulation. */
#ifndef TG_SIMULATE_IMPL_H
#define TG_SIMULATE_IMPL_H

#include "exchange/predict.h"
#include "exchange/star_cost.h"
#include "method/rehearsal.h"
#include "session/session_impl.h"
#include "telegrad/simulate.h"

/* The kinds of operations: dense, coded by the method, or pushed to a single rank (gossip). */
typedef enum tg__sim_way { TG__SIM_DENSE, TG__SIM_CODED, TG__SIM_PUSHED, TG__SIM_WAYS } tg__sim_way;

/* The exchanges of a bucket's operations. */
typedef struct tg__sim_bucket {
    tg__rehearsal way[TG__SIM_WAYS];
    const char
        *exchange; /* exchange=auto: the exchange that `way` was computed for; NULL: none yet */
} tg__sim_bucket;

struct tg_simulation {
    tg_transport *transport; /* of one rank; a session needs one */
    tg_session *session;     /* with buckets, without methods; never begun */
    tg__sim_bucket *bucket;  /* (session->nbuckets) */
    /* The vectors that strategies work on: one element per tensor. */
    float *zero;    /* (ntrained) parameters */
    float *none;    /* (ntrained) gradients and aggregates */
    tg__owned open; /* memory of the open strategy */
};

/* Create the strategy from this spec, for rank 0 of `world` ranks, with its vectors, and check it
 * against the methods. It is in sim->session until closed. (simulate_strategy.c)
 * Errors  TG_E_SPEC, TG_E_UNSUPPORTED, TG_E_NOMEM */
TG_NODISCARD tg_status tg__sim_open_strategy(tg_simulation *sim, const char *spec, int world);
void tg__sim_close_strategy(tg_simulation *sim);

/* Compute `way` of bucket b, for `world` ranks with links of this kind. (simulate.c)
 * Errors  those of methods */
TG_NODISCARD tg_status tg__sim_find_way(tg_simulation *sim, uint32_t b, int world,
                                        const tg__network *net);

/* The network of equal links of this kind, in seconds. */
tg__network tg__sim_network(const tg_link *link, int world);
/* Check a link.
 * Errors  TG_E_ARG: slower, or with longer delays, than a transport allows */
TG_NODISCARD tg_status tg__sim_check_link(const char *what, const tg_link *link);

/* ---- the wire (simulate_wire.c) -------------------------------------------------------------- */

/* One exchange of a bucket, as a sequence of stages: the method's rounds. */
typedef struct tg__sim_stage {
    double wire_ns, delay_ns; /* the time in which the bytes are sent; the delay of the last one */
    double decode_ns;         /* of all frames */
    double last_ns;           /* the part that follows the last arrival */
    double around_ns;         /* allocating memory for it, and finishing it */
} tg__sim_stage;

typedef struct tg__sim_route {
    tg__sim_stage stage[2 * TG__REHEARSAL_ROUNDS];
    size_t stages;
    double encode_ns, bytes, coded_bytes;
} tg__sim_route;

/* star: the links if there are servers; NULL: there are none, and `net` counts. */
void tg__sim_route_make(const tg__sim_bucket *b, const bucket_costs *costs, tg__sim_way kind,
                        int world, const tg__network *net, const tg__star_net *star,
                        tg__sim_route *r);

/* An operation in flight. */
typedef struct tg__sim_op {
    tg__action action;
    const tg__sim_route *route;
    uint64_t step;
    bool early;        /* may be delivered after its step */
    double ready_ns;   /* when all ranks have encoded it */
    double arrived_ns; /* when the last bytes of its last stage arrive */
    double end_ns;     /* when they are decoded, in parallel to computing */
    double decode_ns;  /* of all stages */
    /* set by the wire */
    double left_ns, begin_ns;
    size_t at;
} tg__sim_op;

enum { TG__SIM_STRETCHES = 64 };

typedef struct tg__sim_wire {
    /* When the wire carries earlier operations: in order, disjoint; the oldest are dropped. In
     * between, while delays pass, it is idle. */
    struct tg__sim_stretch {
        double begin_ns, end_ns;
    } busy[TG__SIM_STRETCHES];
    size_t count;
    double decoder_ns; /* the decoder is busy until then */
} tg__sim_wire;

/* Carry the operations (count), all known now: the most urgent of those that are ready. A more
 * urgent one that becomes ready overtakes. Sets arrived_ns and end_ns. */
void tg__sim_wire_carry(tg__sim_wire *wire, tg__sim_op *op, size_t count);

/* ---- servers (simulate_server.c) ------------------------------------------------------------- */

/* The strategy that makes the same exchanges without servers: "ssgd" for "server". */
const char *tg__sim_unserved(const char *strategy);
/* Check what the run says about servers. *async_p: each gradient is applied as it comes;
 * *staleness_p: its bound, TG__NO_BOUND: none.
 * Errors  TG_E_ARG, TG_E_SPEC, TG_E_UNSUPPORTED, TG_E_NOMEM */
TG_NODISCARD tg_status tg__sim_check_servers(const tg_simulation *sim, const tg_sim_run *run,
                                             bool *async_p, int64_t *staleness_p);
/* The links of a rank and of the servers; rank -1: the slowest of all in each respect. */
tg__star_net tg__sim_star_net(const tg_sim_run *run, int rank);

/* ---- a run (simulate_run.c; its steps: simulate_step.c) ------------------------------------- */

/* One rank, which stands for all that behave the same. */
typedef struct tg__sim_actor {
    int rank;                  /* -1: any rank that takes part in all rounds */
    double now_ns, encoder_ns; /* the encoder is busy until then */
    bool idle;                 /* sits this step out */
    double round_ns;           /* when the strategy's round began */
    bool late;                 /* past its deadline: it sits out the rest of the round */
} tg__sim_actor;

typedef struct tg__sim_player {
    tg_simulation *sim;
    tg_session *s;
    const tg_sim_run *run;
    tg__sim_actor *actor; /* (nactors) */
    size_t nactors;
    tg__sim_route *route; /* (nbuckets, TG__SIM_WAYS) */
    /* (nops, room allocated) in the order submitted: in flight, not delivered */
    tg__sim_op *op;
    size_t nops, room, fresh; /* those from `fresh` on are new to the wire */
    tg__sim_wire wire;
    uint32_t *trigger; /* (room) of the fresh ones: the bucket that triggered them */
    uint32_t *missing; /* (nbuckets) */
    bool *read;        /* (nbuckets) already delivered to this rank in this step */
    bool early, inline_coding;
    uint64_t t;
    tg_sim_step told;
    double compute_ns, wait_ns, apply_ns, covered_ns;
    double bytes;
    bool async; /* servers apply each gradient as it comes */
    int64_t staleness;
    tg__owned owned; /* memory */
} tg__sim_player;

/* Play one step; then, after all steps, drain as tg_session_finish does.
 * Errors  TG_E_STATE, and what the caller's callback returns */
TG_NODISCARD tg_status tg__sim_play_step(tg__sim_player *p);
TG_NODISCARD tg_status tg__sim_drain(tg__sim_player *p);
/* Play a run with servers in mode async, whose routes are made. (simulate_async.c)
 * Errors  TG_E_NOMEM, and what the caller's callback returns */
TG_NODISCARD tg_status tg__sim_play_async(tg__sim_player *p, tg_sim_end *end);

#endif

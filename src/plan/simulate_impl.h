/* What the files of the simulation share. */
#ifndef TG_SIMULATE_IMPL_H
#define TG_SIMULATE_IMPL_H

#include "exchange/predict.h"
#include "method/rehearsal.h"
#include "session/session_impl.h"
#include "telegrad/simulate.h"

/* The ways of an operation: dense, by the method, or to one rank alone (gossip). */
typedef enum tg__sim_way { TG__SIM_DENSE, TG__SIM_CODED, TG__SIM_PUSHED, TG__SIM_WAYS } tg__sim_way;

/* What a bucket's operations run. */
typedef struct tg__sim_bucket {
    tg__rehearsal way[TG__SIM_WAYS];
    const char
        *exchange; /* that `way` is of, where the method says exchange=auto; NULL: none yet */
} tg__sim_bucket;

struct tg_simulation {
    tg_transport *transport; /* of one rank: what a session must have */
    tg_session *session;     /* with buckets, without methods; never begun */
    tg__sim_bucket *bucket;  /* (session->nbuckets) */
    /* The vectors that strategies play with: an element a tensor. */
    float *zero;       /* (ntrained) parameters ... */
    float *none;       /* (ntrained) ... gradients and aggregates */
    float *slots;      /* of the strategy that is open */
    uint64_t *updates; /* ... and its counters */
};

/* The strategy by this spec, of rank 0 among `world`, with its vectors; checked against the
 * methods. It is in sim->session until closed. (simulate_strategy.c)
 * Errors TG_E_SPEC, TG_E_UNSUPPORTED, TG_E_NOMEM */
TG_NODISCARD tg_status tg__sim_open_strategy(tg_simulation *sim, const char *spec, int world);
void tg__sim_close_strategy(tg_simulation *sim);

/* Have `way` of bucket b, for so many ranks behind links of that kind. (simulate.c)
 * Errors those of methods */
TG_NODISCARD tg_status tg__sim_find_way(tg_simulation *sim, uint32_t b, int world,
                                        const tg__network *net);

/* A network of such links, all alike: seconds. */
tg__network tg__sim_network(const tg_link *link, int world);
/* Errors TG_E_ARG: a link that is none (slower or later than a transport's may be) */
TG_NODISCARD tg_status tg__sim_check_link(const char *what, const tg_link *link);

/* ---- the wire (simulate_wire.c) -------------------------------------------------------------- */

/* One exchange of a bucket, in sequence: stages of the method's rounds. */
typedef struct tg__sim_stage {
    double wire_ns, delay_ns; /* bytes leave for so long; then the last one is under way */
    double decode_ns;         /* in all, ... */
    double last_ns;           /* ... of what comes last */
    double around_ns;         /* to make room for it and to finish it */
} tg__sim_stage;

typedef struct tg__sim_route {
    tg__sim_stage stage[2 * TG__REHEARSAL_ROUNDS];
    size_t stages;
    double encode_ns, bytes, coded_bytes;
} tg__sim_route;

void tg__sim_route_make(const tg__sim_bucket *b, const tg_bucket_cost *cost, tg__sim_way kind,
                        int world, const tg__network *net, tg__sim_route *r);

/* An operation on its way. */
typedef struct tg__sim_op {
    tg__action action;
    const tg__sim_route *route;
    uint64_t step;
    bool early;        /* may be delivered after its step */
    double ready_ns;   /* all ranks have encoded it */
    double arrived_ns; /* the last bytes of its last stage are there */
    double end_ns;     /* and decoded, beside computing */
    double decode_ns;  /* of all stages */
    /* the wire's */
    double left_ns, begin_ns;
    size_t at;
} tg__sim_op;

enum { TG__SIM_STRETCHES = 64 };

typedef struct tg__sim_wire {
    /* When it carries what was given before: in order, disjoint; the oldest are forgotten. Between
     * them it is idle, while delays pass. */
    struct tg__sim_stretch {
        double begin_ns, end_ns;
    } busy[TG__SIM_STRETCHES];
    size_t count;
    double decoder_ns; /* until then what came is being decoded */
} tg__sim_wire;

/* Carry the operations (count), all known now: of those that are ready, the most urgent one; a more
 * urgent one that gets ready overtakes. Sets arrived_ns, end_ns. */
void tg__sim_wire_carry(tg__sim_wire *wire, tg__sim_op *op, size_t count);

/* ---- a run (simulate_run.c; its steps: simulate_step.c) ------------------------------------- */

/* A rank: of all that are alike, one. */
typedef struct tg__sim_actor {
    int rank;                  /* -1: any that takes part in all rounds */
    double now_ns, encoder_ns; /* the encoder is busy until then */
    bool idle;                 /* sits this step out */
    double round_ns;           /* when the strategy's round began */
    bool late;                 /* past its deadline: sits out the rest of it */
} tg__sim_actor;

typedef struct tg__sim_player {
    tg_simulation *sim;
    tg_session *s;
    const tg_sim_run *run;
    tg__sim_actor *actor; /* (nactors) */
    size_t nactors;
    tg__sim_route *route; /* (nbuckets, TG__SIM_WAYS) */
    tg__sim_op *op;       /* (nops of room) in the order submitted: on their way, not delivered */
    size_t nops, room, fresh; /* from `fresh` on the wire has not seen them */
    tg__sim_wire wire;
    uint32_t *trigger; /* (room) of the fresh ones: the bucket that was complete */
    uint32_t *missing; /* (nbuckets) */
    bool *read;        /* (nbuckets) delivered to this rank in this step */
    bool early, inline_coding;
    uint64_t t;
    tg_sim_step told;
    double compute_ns, wait_ns, apply_ns, covered_ns;
    double bytes;
} tg__sim_player;

/* One step; then, when all have been played, what is left: as tg_session_finish. Errors TG_E_STATE,
 * and what the caller's callback returns */
TG_NODISCARD tg_status tg__sim_play_step(tg__sim_player *p);
TG_NODISCARD tg_status tg__sim_drain(tg__sim_player *p);

#endif

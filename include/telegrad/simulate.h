/* How long training would take, without training: the plan of a session is played step by step on
 * the times of its parts. No gradient is computed or sent.
 *
 * What is played is the strategy itself, over vectors of one element a tensor, so the plan of
 * exchanges is that of training. What an exchange sends follows from its method, made once alone in
 * the world and asked to encode a random gradient; how long that takes on links, from the
 * exchange's own account of delays and bytes. One network stands for all links. So the time of a
 * step does not grow with the number of ranks, but for those that compute differently. Where links
 * differ give that of the rank with the lowest rate and the longest delay, as every exchange waits
 * for it: times are then too long rather than too short, as what others send each other is faster
 * (by a sixth where one of three ranks has a tenth of the rate). Where these are two ranks' no link
 * is right.
 *
 * It knows of no losses, no round trips of TCP, and no density that warms up: all is as after
 * warm-ups of methods (a strategy's own warm-up is played). Threads: one at a time. */
#ifndef TELEGRAD_SIMULATE_H
#define TELEGRAD_SIMULATE_H

#include "telegrad/session.h"
#include "telegrad/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TG_SIM_WORLD_MAX 1000000 /* ranks */

typedef struct tg_simulation tg_simulation;

/* A trained tensor. Strings and shapes are copied. */
typedef struct tg_sim_tensor {
    const char *name;
    const size_t *shape; /* (ndim) */
    size_t ndim;
} tg_sim_tensor;

/* config   as for a session. Its nodes must be NULL. `driver` TG_DRIVER_INLINE: coding is done by
 *          the thread that computes; else beside it, on a core of its own
 * tensors  (ntensors) in forward order
 * Errors   those of tg_session_create and tg_session_add, of making the methods;
 *          TG_E_UNSUPPORTED (nodes) */
TG_API TG_NODISCARD tg_status tg_simulation_create(const tg_session_config *config,
                                                   const tg_sim_tensor *tensors, size_t ntensors,
                                                   tg_simulation **sim_p);
TG_API void tg_simulation_destroy(tg_simulation *sim); /* NULL is fine */

/* The normal form of its method or strategy, with warm-ups as a run of config->total_steps has
 * them. Lives as long as the simulation. NULL for other kinds. */
TG_API const char *tg_simulation_spec(const tg_simulation *sim, tg_kind kind);

/* What coding and updating take: as tg_session_measure and tg_session_set_costs; nothing, before
 * these are called. Errors TG_E_NOMEM, TG_E_MISMATCH (another number of buckets), those of the
 * methods */
TG_API TG_NODISCARD tg_status tg_simulation_measure(tg_simulation *sim, size_t room,
                                                    tg_bucket_cost *cost, size_t *count_p);
TG_API TG_NODISCARD tg_status tg_simulation_set_costs(tg_simulation *sim,
                                                      const tg_bucket_cost *cost, size_t count);

/* What a rank does in a step, in this order. `tensor` counts those given to create. */
typedef enum tg_work_kind {
    TG_WORK_COMPUTE = 0,    /* for ns */
    TG_WORK_PARAM_WAIT = 1, /* the tensor is read from here on */
    TG_WORK_GRAD_READY = 2  /* its gradient is complete */
} tg_work_kind;

typedef struct tg_work {
    tg_work_kind kind;
    uint32_t tensor;
    int64_t ns;
} tg_work;

/* A step, of the rank that is told of. Times in nanoseconds, from the beginning of the run; not
 * integers, as a step of many ranks over a slow link may take longer than 64 bits hold. */
typedef struct tg_sim_step {
    uint64_t step; /* 0, 1, ... */
    double begin_ns, end_ns;
    double compute_ns, wait_ns, apply_ns;     /* of it */
    double encode_ns, exchange_ns, decode_ns; /* of what was delivered since the last step */
    double bytes_sent;                        /* of exchanges that were begun in it */
    double bytes_dense;                       /* of the best dense exchange of all: 8 n (P-1)/P */
    double coded_bytes; /* of what was delivered: this rank's frames; 0: nothing was */
    bool coded;         /* ... by the method's codec */
} tg_sim_step;

typedef struct tg_sim_run {
    size_t struct_size;   /* sizeof(tg_sim_run) */
    const char *strategy; /* in the place of the config's; NULL: that */
    int world;            /* ranks: 1 to TG_SIM_WORLD_MAX */
    tg_link link;         /* all ranks are behind one like it; rates of 0: unlimited */
    const tg_work *work;  /* (nwork) */
    size_t nwork;
    /* (nranks) those whose pace is asked for: at least one of each sort that there is. The first is
     * told of. nranks 0: all are alike, and rank 0 is told of */
    const int *rank;
    size_t nranks;
    double (*pace)(void *arg, int rank, uint64_t step); /* computing takes so many times as long;
                                                           NULL: 1 */
    uint64_t steps;
    tg_status (*each)(void *arg, const tg_sim_step *step); /* NULL: not wanted; what it returns ends
                                                              the run unless TG_OK */
    void *arg;
} tg_sim_run;

typedef struct tg_sim_end {
    double ns;    /* until all that was in flight has been delivered and applied */
    double bytes; /* sent, that included: by the rank that sends most */
} tg_sim_end;

/* end_p may be NULL. Errors TG_E_ARG, TG_E_SPEC and TG_E_UNSUPPORTED (what strategy and method, or
 * world, do not allow together), TG_E_NOMEM, and what each returns */
TG_API TG_NODISCARD tg_status tg_simulation_run(tg_simulation *sim, const tg_sim_run *run,
                                                tg_sim_end *end_p);

/* One exchange of all buckets, [0] dense, [1] by the method. */
typedef struct tg_sim_exchange {
    double coded_bytes[2]; /* of this rank's gradient, frames and an envelope a bucket */
    double bytes[2];       /* sent, by the rank that sends most */
    double wire_ns[2];     /* buckets one behind the other, with nothing else to do */
    double encode_ns[2], decode_ns[2];
    double apply_ns;
    size_t buckets, elements;
} tg_sim_exchange;

/* Errors TG_E_ARG (world, link) */
TG_API TG_NODISCARD tg_status tg_simulation_exchange(tg_simulation *sim, int world,
                                                     const tg_link *link, tg_sim_exchange *x_p);

#ifdef __cplusplus
}
#endif
#endif

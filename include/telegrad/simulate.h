/* telegrad/simulate.h - how long training would take, without training.
 *
 * A simulation plays the steps of a session on the durations of its parts. No gradient is computed
 * or sent.
 *
 * Plan      The real strategy runs, on vectors of one element per tensor, so it schedules the same
 *           exchanges as in training.
 * Bytes     Each method encodes a random gradient once, on a single rank.
 * Wire      The exchange's own cost model turns bytes and delays into time. One link stands for all
 *           links, so simulating takes no longer with more ranks, unless they compute at different
 *           paces.
 * Links     If links differ, give the link of the rank with the lowest rate and the longest delay,
 *           because every exchange waits for that rank. The prediction is then too long, by a sixth
 *           if one of three ranks has a tenth of the rate, because the other ranks exchange data
 *           with each other faster. If the lowest rate and the longest delay belong to different
 *           ranks, no single link is exact.
 * Servers   Parameter servers (server.h) have a link of their own, and then each rank may have one.
 *           With mode async each rank is simulated, with its messages in the queues of the servers'
 *           links. The servers' own work takes no time.
 * Left out  Packet loss, TCP round trips, and warm-ups of methods: densities are the final ones. A
 *           strategy's own warm-up is simulated.
 * Threads   one thread per simulation at a time */
#ifndef TELEGRAD_SIMULATE_H
#define TELEGRAD_SIMULATE_H

#include "telegrad/costs.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TG_SIM_WORLD_MAX 1000000 /* ranks */

typedef struct tg_simulation tg_simulation;

/* A trained tensor. Strings and shapes are copied. Never grows, because it is used in arrays. */
typedef struct tg_sim_tensor {
    const char *name;
    const size_t *shape; /* (ndim) */
    size_t ndim;
} tg_sim_tensor;

/* Create a simulation.
 * config   as for a session; nodes must be NULL. With driver TG_DRIVER_INLINE the computing thread
 *          encodes and decodes; otherwise that happens in parallel, on a core of its own
 * tensors  (ntensors) in forward order
 * Errors   those of tg_session_create, of tg_session_add and of creating the methods;
 *          TG_E_UNSUPPORTED (nodes, the optimizer external) */
TG_API TG_NODISCARD tg_status tg_simulation_create(const tg_session_config *config,
                                                   const tg_sim_tensor *tensors, size_t ntensors,
                                                   tg_simulation **sim_p);
TG_API void tg_simulation_destroy(tg_simulation *sim); /* NULL is fine */

/* The normal form of the method or strategy, with the warm-ups of a run of config->total_steps.
 * NULL for other kinds. Lives as long as the simulation. */
TG_API const char *tg_simulation_spec(const tg_simulation *sim, tg_kind kind);

/* Measure and set what coding and updating cost, as tg_session_measure and tg_session_set_costs do.
 * Before costs are set, both take no time.
 * Errors  TG_E_ARG (struct_size), TG_E_NOMEM, TG_E_MISMATCH (count is not the number of buckets),
 *         those of the methods */
TG_API TG_NODISCARD tg_status tg_simulation_measure(tg_simulation *sim, size_t room,
                                                    tg_bucket_cost *cost, size_t *count_p);
TG_API TG_NODISCARD tg_status tg_simulation_set_costs(tg_simulation *sim,
                                                      const tg_bucket_cost *cost, size_t count);

/* What a rank does in a step: a list of these, in order. */
typedef enum tg_work_kind {
    TG_WORK_COMPUTE = 0,    /* compute for ns */
    TG_WORK_PARAM_WAIT = 1, /* wait for the tensor's parameters, which are read from here on */
    TG_WORK_GRAD_READY = 2  /* the tensor's gradient is complete */
} tg_work_kind;

/* Never grows, because it is used in arrays. */
typedef struct tg_work {
    tg_work_kind kind;
    uint32_t tensor; /* index of the tensors given to tg_simulation_create */
    int64_t ns;
} tg_work;

/* A step of the reported rank. Times are in nanoseconds; begin and end count from the start of the
 * run. They are not integers, because a step of many ranks over a slow link may exceed 64 bits. */
typedef struct tg_sim_step {
    size_t struct_size; /* of the library's structure */
    uint64_t step;      /* 0, 1, ... */
    bool coded;         /* the exchanges delivered were by the method's codec */
    double begin_ns, end_ns;
    double compute_ns, wait_ns, apply_ns;     /* within the step */
    double encode_ns, exchange_ns, decode_ns; /* of exchanges delivered since the last step */
    double bytes_sent;                        /* by exchanges that started in this step */
    double bytes_dense;                       /* of the best dense exchange: 8 n (P-1)/P */
    double coded_bytes; /* this rank's frames, of exchanges delivered; 0: none was */
} tg_sim_step;

typedef struct tg_sim_run {
    size_t struct_size;   /* sizeof(tg_sim_run) */
    const char *strategy; /* NULL: that of the config */
    int world;            /* ranks: 1 to TG_SIM_WORLD_MAX */
    tg_link link;         /* of every rank; rates of 0: unlimited */
    const tg_work *work;  /* (nwork) one step */
    size_t nwork;
    /* (nranks) the ranks to simulate: at least one of each kind that `pace` distinguishes. The
     * first is the reported one. nranks 0: all ranks are alike, and rank 0 is reported */
    const int *rank;
    size_t nranks;
    /* Factor by which the rank's computing in this step is slower than `work` says; NULL: 1 */
    double (*pace)(void *arg, int rank, uint64_t step);
    uint64_t steps;
    /* Called after each step; NULL: not wanted. The run ends if it returns anything but TG_OK, and
     * returns that */
    tg_status (*each)(void *arg, const tg_sim_step *step);
    void *arg;
    /* Parameter servers beside the ranks; 0: none. All exchanges are then exchange=star, which the
     * methods must be able to use, or twoway if the method says so; and the strategy "server" is
     * allowed */
    int64_t servers;
    /* What they do (tg_server_config.mode); NULL: "sum". With async, which requires the strategy
     * "server", ranks share the steps: fast ones make more, and the run ends when all together have
     * made world * steps. The steps of the reported rank are reported; each is numbered by how many
     * the run had begun before it, divided by world. Computing does not overlap exchanges */
    const char *server_mode;
    tg_link server;       /* of each server */
    const tg_link *links; /* (world) with servers: of each rank; NULL: all have `link` */
} tg_sim_run;

typedef struct tg_sim_end {
    size_t struct_size; /* set by the caller: sizeof(tg_sim_end) */
    double ns;          /* until everything in flight has been delivered and applied */
    double bytes;       /* sent until then, by the rank that sends most */
} tg_sim_end;

/* Play the steps of a run.
 * end_p   [out] totals; NULL: not wanted
 * Errors  TG_E_ARG, TG_E_NOMEM,
 *         TG_E_SPEC and TG_E_UNSUPPORTED (strategy, method and world do not go together),
 *         what run->each returns */
TG_API TG_NODISCARD tg_status tg_simulation_run(tg_simulation *sim, const tg_sim_run *run,
                                                tg_sim_end *end_p);

/* One exchange of all buckets: [0] dense, [1] by the method. */
typedef struct tg_sim_exchange {
    size_t struct_size;    /* set by the caller: sizeof(tg_sim_exchange) */
    double coded_bytes[2]; /* one rank's gradient: frames, plus one envelope per bucket */
    double bytes[2];       /* sent by the rank that sends most */
    double wire_ns[2];     /* one bucket after the other, and nothing else */
    double encode_ns[2], decode_ns[2];
    double apply_ns;
    size_t buckets, elements;
} tg_sim_exchange;

/* How long one exchange of all buckets takes among `world` ranks over these links.
 * Errors  TG_E_ARG (world, link, struct_size) */
TG_API TG_NODISCARD tg_status tg_simulation_exchange(tg_simulation *sim, int world,
                                                     const tg_link *link, tg_sim_exchange *x_p);

#ifdef __cplusplus
}
#endif
#endif

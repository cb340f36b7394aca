/* Shared by the files of `bench exchange`. */
#ifndef TG_BENCH_EXCHANGE_IMPL_H
#define TG_BENCH_EXCHANGE_IMPL_H

#include "bench/exchange/bench_exchange.h"
#include "bench/rows/bench_impl.h"
#include "exchange/pump.h"

/* ---- exchange_figures.c: pure arithmetic ----------------------------------------------------- */

enum { BENCH_ROUNDS = 8 }; /* most exchanges of one program */

/* What a rank reports about a step. */
typedef struct step_figures {
    double ns, codec_ns, processor_ns, bytes, behind_ns;
    double frame[BENCH_ROUNDS]; /* bytes of its whole vector as one frame; 0: it sent none */
} step_figures;

/* One exchange of the program, the same on all ranks. */
typedef struct step_round {
    const tg__exchange_ops *ops; /* whose cost() is used */
    size_t n;
} step_round;

typedef struct step_samples {
    size_t count;
    double ms[BENCH_SAMPLES], codec_ms[BENCH_SAMPLES], processor_ms[BENCH_SAMPLES];
    double behind_ms[BENCH_SAMPLES];
    double bytes, predicted, serial; /* sums */
    double delays;
    unsigned rounds;
} step_samples;

/* Bytes of the whole vector of x as one frame; 0 if this rank sends nothing. */
double bench_frame_bytes(const tg__exchange *x);
/* Add a step that all ranks (size) have finished. Does nothing when s is full. */
void bench_step_add(step_samples *s, const step_figures *ranks, int size, const step_round *rounds,
                    size_t nrounds);
/* Compute the figures of a row whose method, workers and link are set, from at least one step. The
 * codec's figures come from `without`, the steps with the network off (may be s). */
void bench_step_row(const step_samples *s, const step_samples *without, bench_exchange_row *row);

/* Check that this machine has memory for so many workers, each receiving `bytes` from the others:
 * a machine that swaps gives useless times, or kills the process. Errors TG_E_ARG */
TG_NODISCARD tg_status bench_check_memory(const bench_exchange_options *o, size_t workers,
                                          double received);

/* ---- exchange_turn.c: the ranks take turns --------------------------------------------------- */

/* The messages between steps, over the transport that is measured. The object does not move while
 * messages are under way. */
typedef struct turn turn;

/* Errors TG_E_NOMEM, TG_E_PEER. After a failure the caller calls t->ops->shut before turn_close. */
TG_NODISCARD tg_status turn_open(tg_transport *t, turn **u_p);
void turn_close(turn *u); /* NULL is fine */
/* End a step: rank 0 receives the figures of all ranks, see turn_figures. */
TG_NODISCARD tg_status turn_end(turn *u, const step_figures *mine);
const step_figures *turn_figures(const turn *u); /* (size), on rank 0 only */
/* Begin the next step. Rank 0 decides whether there is one; *more_p is its decision on all ranks.
 * All ranks return at about the same time: rank 0 waits for as long as its message travels, which
 * is half a round trip. */
TG_NODISCARD tg_status turn_begin(turn *u, bool *more_p);

/* ---- exchange_behind.c: the urgent exchange -------------------------------------------------- */

/* A dense exchange of n elements among all ranks. */
typedef struct behind behind;

/* Errors TG_E_NOMEM. After a failure, too, the caller calls behind_close. */
TG_NODISCARD tg_status behind_open(int rank, int size, size_t n, behind **b_p);
void behind_close(behind *b); /* NULL is fine */
/* Launch it with a higher priority behind `large`, which is under way; return when it is finished.
 * *ns_p is the time this took. */
TG_NODISCARD tg_status behind_run(behind *b, tg__pump *p, const tg__flight *large,
                                  uint32_t sequence, double *ns_p);

/* ---- exchange_rank.c: one rank --------------------------------------------------------------- */

typedef struct rank_job {
    const bench_exchange_options *o;
    const bench *layout;   /* its tensors */
    const bench_link *run; /* (runs) */
    tg_transport **t;      /* (runs) this rank's ends; owned by the caller */
    size_t runs;
    size_t first; /* first run that is reported: 1 if run 0 is the one without a network, else 0 */
    const char *method;
    bool held; /* [out] after a failure: a transport still uses memory, which was not freed */
} rank_job;

/* Run all of them, one after the other; rank 0 reports the rows. Errors those of the method, of the
 * transport, of o->row */
TG_NODISCARD tg_status bench_rank(rank_job *job);

#endif

/* What the files of `bench exchange` share. */
#ifndef TG_BENCH_EXCHANGE_IMPL_H
#define TG_BENCH_EXCHANGE_IMPL_H

#include "bench/exchange/bench_exchange.h"
#include "bench/rows/bench_impl.h"
#include "exchange/pump.h"

/* ---- exchange_figures.c: pure arithmetic ----------------------------------------------------- */

enum { BENCH_ROUNDS = 8 }; /* exchanges of one program */

/* What a rank says about a step. */
typedef struct step_figures {
    double ns, codec_ns, processor_ns, bytes, behind_ns;
    double frame[BENCH_ROUNDS]; /* bytes its whole vector would have as one frame; 0: it had none */
} step_figures;

/* One exchange of the program, the same on all ranks. */
typedef struct step_round {
    const tg__exchange_ops *ops; /* whose cost counts */
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

/* Bytes the whole vector of x would have as one frame, 0 if this rank has no part in sending. */
double bench_frame_bytes(const tg__exchange *x);
/* Add a step that all ranks (size) have taken. Without effect when full. */
void bench_step_add(step_samples *s, const step_figures *ranks, int size, const step_round *rounds,
                    size_t nrounds);
/* Figures of a row whose method, workers and link are set, from at least one step; the codec's from
 * those with the network off (may be s). */
void bench_step_row(const step_samples *s, const step_samples *without, bench_exchange_row *row);

/* Whether this machine has room for so many workers, each of which gets so many bytes from the
 * others: one that swaps measures nothing, or kills. Errors TG_E_ARG */
TG_NODISCARD tg_status bench_check_memory(const bench_exchange_options *o, size_t workers,
                                          double received);

/* ---- exchange_turn.c: the ranks take turns --------------------------------------------------- */

/* What ranks tell each other between steps, over the transport that is measured. Its memory stays
 * where it is while messages are under way. */
typedef struct turn turn;

/* Errors TG_E_NOMEM, TG_E_PEER. After a failure t->ops->shut is the caller's to call, before
 * turn_close. */
TG_NODISCARD tg_status turn_open(tg_transport *t, turn **u_p);
void turn_close(turn *u); /* NULL is fine */
/* End a step: rank 0 hears what all ranks say of it, in turn_figures. */
TG_NODISCARD tg_status turn_end(turn *u, const step_figures *mine);
const step_figures *turn_figures(const turn *u); /* (size), rank 0 */
/* Begin the next: rank 0 says whether there is one (*more_p, which the others get). All ranks
 * return at about the same time: rank 0 waits as long as its word takes to the others, which it
 * takes from half a round trip. */
TG_NODISCARD tg_status turn_begin(turn *u, bool *more_p);

/* ---- exchange_behind.c: what is urgent ------------------------------------------------------- */

/* A dense exchange of n elements among all ranks. */
typedef struct behind behind;

/* Errors TG_E_NOMEM. After a failure behind_close is the caller's to call. */
TG_NODISCARD tg_status behind_open(int rank, int size, size_t n, behind **b_p);
void behind_close(behind *b); /* NULL is fine */
/* Launch it behind `large`, which is under way, with a higher priority; return when it is finished.
 * *ns_p: how long that took. */
TG_NODISCARD tg_status behind_run(behind *b, tg__pump *p, const tg__flight *large,
                                  uint32_t sequence, double *ns_p);

/* ---- exchange_rank.c: one rank --------------------------------------------------------------- */

typedef struct rank_job {
    const bench_exchange_options *o;
    const bench *layout;   /* its tensors */
    const bench_link *run; /* (runs) */
    tg_transport **t;      /* (runs) this rank's ends; they stay the caller's */
    size_t runs;
    size_t first; /* run that was asked for: 1 where the one before has no network, 0 */
    const char *method;
    bool held; /* [out] after a failure: some transport still holds memory, which was left to it */
} rank_job;

/* Run all of them, one after the other; rank 0 gives the rows out. Errors those of the method, of
 * the transport, of o->row */
TG_NODISCARD tg_status bench_rank(rank_job *job);

#endif

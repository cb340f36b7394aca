/* Rounds: steps that take the gradients of all workers, while workers come and go (modes sync and
 * async:staleness=0 on a transport with seats).
 *
 * A round is the update of some elements in one step. Each worker's gradient of them is a gathering
 * of its own, which waits in the round until all workers that count have sent theirs. Then the
 * round's gradients are combined in the order of seats, the elements are updated once, and all who
 * sent one are answered. So with workers that stay, the bits are those of ranks that never change.
 *
 * Who counts is decided by steps (tg_server.step: those of which something was updated). A worker
 * that comes is told this step, and counts from it on: nothing of it has been updated yet, so the
 * others wait for the newcomer, in all regions. One that leaves in order counts no more, but the
 * gradients that it has sent do. One that vanishes may be back, and is waited for until the
 * server's timeout; then it is passed over, and is refused if it comes later.
 *
 * With a deadline (late.c), a round that has enough gradients ends so long after its first one. The
 * gradient of a worker that it has ended without is late: it is not applied, and the answer says
 * so, with the step at which the worker goes on, which is that of now. Until the worker has sent
 * what it owes, no later round waits for it. */
#ifndef TG_SERVER_ROUND_H
#define TG_SERVER_ROUND_H

#include "server/server_impl.h"

struct tg__round {
    tg__region *region;
    uint64_t number, begin; /* the step; first element, in the bucket */
    size_t n;
    uint16_t slice;
    int64_t from_ns; /* when its first gradient came */
    tg__round *next;
    tg__gathering *of[]; /* (ranks) NULL: has not come */
};

/* The gathering belongs to a round: a gradient, in a mode with rounds. */
bool tg__rounds_take_it(const tg_server *s, const tg__gathering *g);
/* A gradient has come: g, with its frame, waits in its round. One that comes again is answered in
 * place of the first; if its round is over, it is to be answered, and g->round is NULL.
 * Errors  TG_E_MISMATCH, TG_E_CORRUPT, TG_E_NOMEM, TG_E_PEER (too few ranks are left); g is in no
 *         round then */
TG_NODISCARD tg_status tg__rounds_add(tg_server *s, tg__gathering *g);
/* A gradient has been added to the round: end it if it is complete, and what may end then.
 * Errors  as of tg__rounds_advance */
TG_NODISCARD tg_status tg__round_advance(tg_server *s, tg__round *round);
/* End the rounds that are complete: update, and answer.
 * Errors  those of the journal and the transport, TG_E_NOMEM */
TG_NODISCARD tg_status tg__rounds_advance(tg_server *s);
/* A new worker takes a seat: it counts from step `base` on, in all regions. */
void tg__rounds_admit(tg_server *s, int rank, uint64_t base);
/* The worker of a seat, which is away or has left, counts no more; in modes with rounds it cannot
 * be back. The journal has it if it cannot. */
TG_NODISCARD tg_status tg__rounds_pass(tg_server *s, int rank);
/* Of ranks that stay, too few are left for a round. rank: the one to blame; -1: nobody.
 * Errors  TG_E_PEER */
TG_NODISCARD tg_status tg__rounds_check_ranks(tg_server *s, int rank);
/* No worker is there that the steps take, or may be back. */
bool tg__rounds_nobody_counts(const tg_server *s);
/* The lowest rank that g's round waits for; -1: none, it waits for more workers to come. */
int tg__round_waits_for(const tg_server *s, const tg__gathering *g);
/* Something waits in a round. */
bool tg__rounds_wait(const tg_server *s);
/* Forget a round, but not what waits in it. */
void tg__round_free(tg_server *s, tg__round *round);
/* Forget all rounds, and what waits in them. */
void tg__rounds_clear(tg_server *s);

/* The gradient of the lowest rank. */
const tg__gathering *tg__round_first(const tg_server *s, const tg__round *round);
int tg__round_count(const tg_server *s, const tg__round *round);

/* ---- round_form.c ---- */

/* The learning rate: the first gradient's; with a rule, the median of all, of an even number the
 * lower one. */
double tg__round_rate(const tg_server *s, const tg__round *round);
/* Form one gradient in acc (n). *formed_p: false if it, or one that it is made of, is not finite.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__round_form(tg_server *s, const tg__round *round, float *acc,
                                      bool *formed_p);

/* ---- late.c ---- */

/* The round waits for a gradient of the rank. */
bool tg__round_lacks(const tg__round *round, int rank);
/* Its deadline has passed, and no earlier round of its elements waits. */
bool tg__round_is_over(const tg_server *s, const tg__round *round);
/* The round ends: what comes for it from now on is late. */
void tg__round_note_end(const tg__round *round);
/* End the rounds whose deadline has passed. */
TG_NODISCARD tg_status tg__rounds_expire(tg_server *s);
/* Whether g, whose step is known, is late; then it is counted, and is to be answered. */
bool tg__late_take(tg_server *s, tg__gathering *g);
/* The same for one that has come again: whether it was late the first time. */
void tg__late_take_again(const tg_server *s, tg__gathering *g);
/* With ranks that stay, of which some may be late, all stop after the same step: note the wish of
 * g, and say in g's answer whether that is the step. number: of g's round. */
void tg__late_note_stop(tg_server *s, const tg__gathering *g, uint64_t number);
void tg__late_say_stop(const tg_server *s, tg__gathering *g, uint64_t number);
/* A rank that is away, and has owed a gradient for so long that nobody waits for it any more; -1:
 * none. *due_ns_p: reduced to the time at which to ask again. */
int tg__late_absent(const tg_server *s, int64_t now, int64_t *due_ns_p);

/* ---- the journal ---- */

/* The journal's record of a round that has ended. */
TG_NODISCARD tg_status tg__rounds_replay(tg_server *s, const tg__journal_record *record,
                                         const uint8_t *body);
/* That a worker counts no more. */
TG_NODISCARD tg_status tg__rounds_replay_pass(tg_server *s, int rank);
/* The journal has been read: nobody is there yet, and those who were may be back. */
void tg__rounds_end_replay(tg_server *s);

#endif

/* What is in a rank's file of a checkpoint, beside slots: what saving and loading share. */
#ifndef TG_SESSION_CKPT_H
#define TG_SESSION_CKPT_H

#include "session/session_impl.h"
#include "state/weights_impl.h"

/* One exchange that was in flight, as stored before its aggregate. */
typedef struct tg__inbox_head {
    uint64_t of_step, due, order;
    double lr, density, eta;
    uint32_t bucket, lane, flags, coded, tag, update, owes, unused;
    uint64_t coded_bytes;
} tg__inbox_head;

typedef struct tg__counters {
    uint64_t t, skipped, order, in_flight, steps_per_epoch, drained, anew, lost;
    double lr;
    int32_t world, rank;
} tg__counters;

#define TG__SECTION_EPOCHS "epoch_shift" /* int64_t, tg__epochs; only if it is not 0 */
#define TG__LINE_NODES "nodes="          /* of the identity: with two levels */

/* What a checkpoint and a job must have in common; to be freed. World and rank are compared apart.
 * NULL: out of memory */
char *tg__session_identity(const tg_session *s);

/* A section of exchange `number` of those in flight: "head", "aggregate", "owed". */
void tg__inbox_name(char name[64], uint64_t number, const char *what);
/* Take one in, unapplied. Errors TG_E_CORRUPT, TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_get_inbox(tg_session *s, tg__ckpt_reader *r,
                                             const tg__counters *c, uint64_t number, lane_op **o_p);
/* The caller's bytes; counters (session_load.c) */
TG_NODISCARD tg_status tg__session_get_extra(tg_session *s, tg__ckpt_reader *r);
void tg__session_take_counters(tg_session *s, const tg__counters *c);

/* The checkpoint of step s->from.step, which s->from.ranks saved, by another number of ranks: all
 * of it but methods' exchanges. w: its weights. Parameters are changed only if nothing fails.
 * (session_takeover.c)
 * Errors TG_E_IO (a rank's file is missing), TG_E_CORRUPT, TG_E_MISMATCH, TG_E_NOMEM */
TG_NODISCARD tg_status tg__session_take_over(tg_session *s, const char *dir, const tg_weights *w);

#endif

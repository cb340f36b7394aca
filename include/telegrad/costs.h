/* telegrad/costs.h - what a session's own work costs, for runs on a simulated clock.
 *
 * A simulated clock (tg_clock.work) does not see how long encoding, decoding and updating take.
 * Measure it once, where nothing else runs; then set it in each session that runs on such a clock.
 *
 *     tg_session_measure(s, 0, NULL, &count);         after tg_session_begin
 *     tg_bucket_cost *cost = calloc(count, sizeof *cost);
 *     cost[0].struct_size = sizeof *cost;
 *     tg_session_measure(s, count, cost, &count);
 *     tg_session_set_costs(s, cost, count); */
#ifndef TELEGRAD_COSTS_H
#define TELEGRAD_COSTS_H

#include "telegrad/session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How long the work of one rank on one bucket takes: [0] in dense exchanges, [1] in coded ones. */
typedef struct tg_bucket_cost {
    size_t struct_size;        /* set by the caller in the first entry: sizeof(tg_bucket_cost) */
    int64_t encode_ns[2];      /* compensate and encode */
    int64_t start_ns[2];       /* per round: prepare the sum ... */
    int64_t finish_ns[2];      /* ... and form the aggregate from it when all frames are in */
    int64_t decode_byte_ps[2]; /* decode and combine: picoseconds per byte of frames */
    int64_t apply_ns;          /* the optimizer's update */
} tg_bucket_cost;

/* Measure these costs on this rank alone. Nothing is sent, and the session's state does not change.
 * room     entries of cost: the first `room` buckets are measured
 * cost     [out] (room); may be NULL if room is 0
 * count_p  [out] number of buckets
 * Errors   TG_E_ARG (struct_size), TG_E_STATE (before begin), TG_E_NOMEM, those of the methods */
TG_API TG_NODISCARD tg_status tg_session_measure(tg_session *s, size_t room, tg_bucket_cost *cost,
                                                 size_t *count_p);
/* Set what work costs from here on. Each thread is charged for its own work, so encoding and
 * decoding on the communication thread overlap the caller's computation. Before this call work
 * takes no time. On a real clock it changes nothing. Waits for the exchanges in flight.
 * cost    (count)
 * Errors  TG_E_ARG (struct_size), TG_E_STATE, TG_E_MISMATCH (count is not the number of buckets),
 *         TG_E_PEER (an exchange in flight failed) */
TG_API TG_NODISCARD tg_status tg_session_set_costs(tg_session *s, const tg_bucket_cost *cost,
                                                   size_t count);

#ifdef __cplusplus
}
#endif
#endif

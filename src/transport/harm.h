/* How a faulty rank damages messages: message i of this rank is dropped, damaged, enlarged, cut or
 * repeated, as determined by the counter-based random numbers (seed, rank, kind of fault; i), so
 * that a run can be repeated. */
#ifndef TG_HARM_H
#define TG_HARM_H

#include "telegrad/base.h"

typedef struct tg__harm { /* zero it, then set probabilities, seed and rank */
    double drop, corrupt, truncate, oversize, garbage, replay;
    uint64_t seed;
    uint32_t rank;
    struct tg__kept *kept; /* replay > 0: the last message of each peer and tag */
} tg__harm;

typedef struct tg__outbound {
    const void *buf; /* (len) the caller's, or `copy` */
    size_t len;
    void *copy; /* freed by the owner of the message */
    bool lost;
} tg__outbound;

/* Apply faults to message `number` to peer: on input m is the message to send, on output what is
 * sent instead.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__harm_message(tg__harm *h, uint64_t number, int peer, uint32_t tag,
                                        tg__outbound *m);
void tg__harm_fini(tg__harm *h);

#endif

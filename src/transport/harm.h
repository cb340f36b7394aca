/* What a faulty rank does to messages: number i of this rank is dropped, damaged, blown up, cut or
 * repeated as the counter random numbers (seed, rank, kind of fault; i) say, so that a run can be
 * repeated. */
#ifndef TG_HARM_H
#define TG_HARM_H

#include "telegrad/base.h"

typedef struct tg__harm { /* zeroed, then probabilities, seed and rank set */
    double drop, corrupt, truncate, oversize, garbage, replay;
    uint64_t seed;
    uint32_t rank;
    struct tg__kept *kept; /* the last message of each peer and place, with replay > 0 */
} tg__harm;

typedef struct tg__message {
    const void *buf; /* (len) the caller's, or copy */
    size_t len;
    void *copy; /* the owner of the message frees it */
    bool lost;
} tg__message;

/* What becomes of message `number` to peer: m holds what was to be sent, and then what goes
 * instead. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__harm_message(tg__harm *h, uint64_t number, int peer, uint32_t tag,
                                        tg__message *m);
void tg__harm_fini(tg__harm *h);

#endif

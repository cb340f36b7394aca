/* Calls that failed at the meeting point while it waits for others, told to whoever runs it: each,
 * but only some of a flood. */
#ifndef TG_NET_REFUSALS_H
#define TG_NET_REFUSALS_H

#include "net/key.h"

#define TG__REFUSALS_KNOWN 16 /* texts that are not told again for a while */
#define TG__REFUSALS_AT_ONCE 8
#define TG__REFUSALS_AGAIN_NS INT64_C(60000000000) /* the same text */
#define TG__REFUSALS_EVERY_NS INT64_C(10000000000) /* others, once as many as that were told */

typedef struct tg__refusals {
    struct {
        uint64_t hash;
        int64_t told_ns;
    } known[TG__REFUSALS_KNOWN];
    size_t next;
    int told;          /* since paid_ns */
    int64_t paid_ns;   /* one less counts after each TG__REFUSALS_EVERY_NS */
    uint64_t untold;   /* since the last one that was told */
    char text[600];    /* the last one; "": none */
    char telling[700]; /* the same, and how many were not told */
} tg__refusals;

/* Note a call that failed.
 * host     where it came from, as an IP address
 * key      NULL: not known
 * Returns  what to tell now; NULL: nothing. Valid until the next call */
const char *tg__refusals_add(tg__refusals *r, int64_t now_ns, const char *host,
                             const tg__public_key *key, const char *why);

#endif

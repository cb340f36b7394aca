/* Which tags a channel has. An exchange under way has one of TG__SEQUENCES tag numbers; they are
 * given away in blocks of TG__BLOCK, the first of which is for setting up channels. A rank's claim
 * says what it has given away; ranks destroy channels in different orders, so a new one gets what
 * is free on all of them, and a number above all that any of them has used. */
#ifndef TG_CLAIM_H
#define TG_CLAIM_H

#include "exchange/pump.h"

#define TG__BLOCK 4u
#define TG__BLOCKS (TG__SEQUENCES / TG__BLOCK)
/* A claim: how many channels there have been (4 bytes, little-endian), and a bit for each block,
 * bit i % 8 of byte 4 + i / 8: it is taken. */
#define TG__CLAIM_BYTES (4u + TG__BLOCKS / 8u)

/* all |= one rank's. */
void tg__claim_merge(uint8_t all[TG__CLAIM_BYTES], const uint8_t one[TG__CLAIM_BYTES]);

/* The lowest free run of so many blocks (a power of two), or of half as many and so on if there is
 * none; it begins at a multiple of its length. Returns the length; 0: nothing is free. */
uint32_t tg__claim_find(const uint8_t claim[TG__CLAIM_BYTES], uint32_t blocks, uint32_t *first_p);

/* Take, or give back, `count` blocks. */
void tg__claim_mark(uint8_t claim[TG__CLAIM_BYTES], uint32_t first, uint32_t count, bool taken);

#endif

/* Which tags a channel has. Each exchange in flight has one of TG__SEQUENCES tag numbers. They are
 * assigned in blocks of TG__BLOCK; the first block is for setting up channels. A rank's claim lists
 * the blocks it has assigned. Ranks may destroy channels in different orders, so a new channel gets
 * blocks that are free on all ranks, and a channel number above all that any rank has used. */
#ifndef TG_CLAIM_H
#define TG_CLAIM_H

#include "exchange/pump.h"

#define TG__BLOCK 4u
#define TG__BLOCKS (TG__SEQUENCES / TG__BLOCK)
/* A claim: the number of channels so far (4 bytes, little-endian), then one bit per block, set if
 * the block is taken. Block i is bit i % 8 of byte 4 + i / 8. */
#define TG__CLAIM_BYTES (4u + TG__BLOCKS / 8u)

/* Merge the claim of one rank into that of all: all |= one. */
void tg__claim_merge(uint8_t all[TG__CLAIM_BYTES], const uint8_t one[TG__CLAIM_BYTES]);

/* Find the lowest free run of `blocks` blocks (a power of two); if there is none, of half as many,
 * and so on. The run begins at a multiple of its length. Returns its length; 0: nothing is free. */
uint32_t tg__claim_find(const uint8_t claim[TG__CLAIM_BYTES], uint32_t blocks, uint32_t *first_p);

/* The number of taken blocks. */
uint32_t tg__claim_count(const uint8_t claim[TG__CLAIM_BYTES]);

/* Mark `count` blocks as taken or free. */
void tg__claim_mark(uint8_t claim[TG__CLAIM_BYTES], uint32_t first, uint32_t count, bool taken);

#endif

/* The two rounds that the exchanges direct and reducescatter share: first, parts go to the owners
 * of blocks; then, finished blocks go to all. The two differ in how a block is finished. */
#ifndef TG_EXCHANGE_DIRECT_H
#define TG_EXCHANGE_DIRECT_H

#include "exchange/message.h"

typedef struct tg__direct {
    tg__messages parts;  /* (P) own parts, to send */
    tg__messages in;     /* (P) the ranks' parts of this rank's block; its own entry is unused */
    tg__messages blocks; /* (P) finished blocks */
    size_t *in_len;      /* (P) bytes of each part's frame; 0: not arrived */
    size_t *block_len;   /* (P) the same for blocks */
    size_t block_n;      /* elements of this rank's block */
    /* (block_n) its sum, in its frame; coded: in its own memory, where it keeps the leftover */
    float *sum;
    bool coded;          /* blocks are frames of x->codec; false: dense f32 */
    int next;            /* the parts of ranks below it are in the sum; P: the block is finished */
    bool spoilt;         /* a decoded block is not finite */
    uint32_t told, over; /* messages returned as wishes, and completed */
} tg__direct;

/* Members of tg__exchange_ops, which TG__DIRECT_OPS sets. Blocks are coded if x has a leftover. */
TG_NODISCARD tg_status tg__direct_init(tg__exchange *x);
TG_NODISCARD tg_status tg__direct_start(tg__exchange *x);
size_t tg__direct_wants(tg__exchange *x, tg__wish *wish, size_t max);
TG_NODISCARD tg_status tg__direct_done(tg__exchange *x, uint32_t id, size_t len);
bool tg__direct_finished(const tg__exchange *x);
void tg__direct_result(tg__exchange *x, float *dst);
#define TG__DIRECT_OPS                                                                    \
    .impl_bytes = sizeof(tg__direct), .init = tg__direct_init, .start = tg__direct_start, \
    .wants = tg__direct_wants, .done = tg__direct_done, .finished = tg__direct_finished

#endif

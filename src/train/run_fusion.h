/* Which tensors share an exchange. */
#ifndef TG_TRAIN_RUN_FUSION_H
#define TG_TRAIN_RUN_FUSION_H

#include <stddef.h>
#include <stdint.h>

typedef struct fusion_tensor {
    double ready;    /* seconds from the start of the backward pass to its gradient */
    double exchange; /* seconds that its bytes take */
} fusion_tensor;

/* Merge tensor i into the bucket of those behind it, if its gradient is ready before their
 * exchange, which waits for the ones before it, could have begun and paid its start-up time alpha:
 * then waiting for it costs less than one more start-up. t        (n) in forward order buckets  (n)
 * [out] tensors of each bucket, in forward order; returns how many Source   Shi et al. 2019
 * (MG-WFBP), arXiv:1811.11141, algorithm 1 */
size_t fusion_merge(const fusion_tensor *t, size_t n, double alpha, uint32_t *buckets);

#endif

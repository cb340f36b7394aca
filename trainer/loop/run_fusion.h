/* Which tensors share an exchange. */
#ifndef TG_TRAIN_RUN_FUSION_H
#define TG_TRAIN_RUN_FUSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fusion_tensor {
    double ready;    /* seconds from the start of the backward pass to its gradient */
    double exchange; /* seconds that its bytes take */
} fusion_tensor;

/* Merge tensor i into the bucket of those behind it, if its gradient is ready before their
 * exchange, which waits for the ones before it, could have begun and paid its start-up time alpha:
 * then waiting for it costs less than one more start-up.
 * forward   parameters are waited for layer by layer (TG_OVERLAP_FULL), so that a layer pays for
 *           all of its bucket: one whose bytes take alpha or more takes in no more tensors
 * t         (n) in forward order
 * buckets   (n) [out] tensors of each bucket, in forward order; returns how many
 * Source    Shi et al. 2019 (MG-WFBP), arXiv:1811.11141, algorithm 1; it knows no `forward` */
size_t fusion_merge(const fusion_tensor *t, size_t n, double alpha, bool forward,
                    uint32_t *buckets);

#endif

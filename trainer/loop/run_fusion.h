/* Decides which tensors share an exchange. */
#ifndef TG_TRAIN_RUN_FUSION_H
#define TG_TRAIN_RUN_FUSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fusion_tensor {
    double ready;    /* seconds from the start of the backward pass to its gradient */
    double exchange; /* seconds that its bytes take in an exchange */
} fusion_tensor;

/* Merge tensor i into the bucket behind it if its gradient is ready before that bucket's exchange,
 * which waits for earlier ones, could begin and pay its start-up time alpha. Then waiting for the
 * gradient costs less than another start-up.
 * forward   parameters are waited for layer by layer (TG_OVERLAP_FULL), so a layer waits for all of
 *           its bucket: a bucket whose bytes take alpha or more takes in no more tensors
 * t         (n) in forward order
 * buckets   (n) [out] number of tensors in each bucket, in forward order; returns the number of
 *           buckets
 * Source    Shi et al. 2019 (MG-WFBP), arXiv:1811.11141, algorithm 1; without `forward` */
size_t fusion_merge(const fusion_tensor *t, size_t n, double alpha, bool forward,
                    uint32_t *buckets);

#endif

/* What data give and models take. */
#ifndef TG_TRAIN_BATCH_H
#define TG_TRAIN_BATCH_H

#include "telegrad/base.h"

/* What goes in and comes out, and how it is multiplied in between: images with one label each, or
 * rows of tokens with a label for each token (the next one). */
typedef struct model_input {
    size_t height, width, channels; /* images; 0: tokens */
    size_t context;                 /* tokens in a sample; 0: images */
    size_t classes;                 /* labels are below it; tokens too: the vocabulary */
    bool bf16;                      /* convolutions and dense layers read what they multiply rounded
                                       to bf16; what lies between layers stays fp32 */
} model_input;

typedef struct model_batch {
    const float *x;        /* images (batch, height, width, channels); NULL: tokens */
    const int32_t *tokens; /* (batch, context); NULL: images */
    const int32_t *labels; /* (batch), of tokens (batch, context); -1: does not count */
    size_t count;          /* samples that count, from the first; 1 to the model's batch */
} model_batch;

#endif

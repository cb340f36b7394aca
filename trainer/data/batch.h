/* Batches: what data sets provide and models take. */
#ifndef TG_TRAIN_BATCH_H
#define TG_TRAIN_BATCH_H

#include "telegrad/base.h"

/* The kind of input, labels and arithmetic: images with one label each, or rows of tokens with a
 * label for each token (the next token). */
typedef struct model_input {
    size_t height, width, channels; /* images; 0: tokens */
    size_t context;                 /* tokens in a sample; 0: images */
    size_t classes;                 /* labels are below this; of tokens, the vocabulary */
    bool bf16;                      /* convolutions and dense layers round the operands of products
                                     * to bf16; activations between layers stay fp32 */
} model_input;

typedef struct model_batch {
    const float *x;        /* images (batch, height, width, channels); NULL: tokens */
    const int32_t *tokens; /* (batch, context); NULL: images */
    const int32_t *labels; /* (batch), of tokens (batch, context); -1: ignored */
    size_t count;          /* number of samples that count, from the first; 1 to the batch */
} model_batch;

#endif

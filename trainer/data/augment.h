/* Random crops and mirroring of training images. */
#ifndef TG_TRAIN_AUGMENT_H
#define TG_TRAIN_AUGMENT_H

#include "trainer/data/data.h"

/* The same as data_sample of the training split, augmented: pad the image with 4 black pixels on
 * all sides, crop it to its size at a random place, and mirror it left to right in half of all
 * cases. Place and mirroring are a function of (seed, pass, index).
 * Source  He et al. 2016, arXiv:1512.03385, sec. 4.2 */
void augment_crop_flip(const train_data *d, uint64_t seed, uint64_t pass, size_t index, float *x,
                       int32_t *label_p);

#endif

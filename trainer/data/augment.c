#include "trainer/data/augment.h"
#include "telegrad/random.h"

#define PAD 4
#define STREAM 2 /* tg_rng_key.tensor; glyphs.c's are 0 and 1 */

void augment_crop_flip(const train_data *d, uint64_t seed, uint64_t pass, size_t index, float *x,
                       int32_t *label_p)
{
    const size_t height = d->set->height, width = d->set->width, channels = d->set->channels;
    const tg_rng_key key = {
        .seed = seed, .purpose = TG_PURPOSE_DATA, .step = pass, .tensor = STREAM};
    uint32_t word[4];
    tg_rng_block(&key, index, word);
    const size_t down = word[0] % (2 * PAD + 1), right = word[1] % (2 * PAD + 1);
    const bool mirrored = word[2] & 1;
    const uint8_t *image = d->view[DATA_TRAIN].images + index * height * width * channels;
    for (size_t i = 0; i < height; i++) {
        const size_t row = i + down - PAD; /* beyond the image: too large, as it is unsigned */
        for (size_t j = 0; j < width; j++) {
            const size_t column = (mirrored ? width - 1 - j : j) + right - PAD;
            const bool inside = row < height && column < width;
            for (size_t c = 0; c < channels; c++)
                *x++ = d->value[c][inside ? image[(row * width + column) * channels + c] : 0];
        }
    }
    *label_p = d->view[DATA_TRAIN].labels[index];
}

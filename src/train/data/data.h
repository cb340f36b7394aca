/* A data set in memory, and its two sources. */
#ifndef TG_TRAIN_DATA_H
#define TG_TRAIN_DATA_H

#include "train/train.h"

#define DATA_SIDE 28
#define DATA_PIXELS (DATA_SIDE * DATA_SIDE)
#define DATA_CLASSES 10

/* One part of a data set: `count` images of DATA_PIXELS bytes, row by row, and their labels. */
typedef struct data_part {
    uint8_t *images, *labels;
    size_t count;
} data_part;

void data_part_free(data_part *p);

typedef enum data_split { DATA_TRAIN = 0, DATA_TEST = 1 } data_split;

/* Sample `index` of a split: x (DATA_PIXELS) = (pixel / 255 - mean) / std, *label_p its class. The
 * constants are the set's own: mean and standard deviation over its training pixels. Threads any */
void data_sample(const train_data *d, data_split split, size_t index, float *x, int32_t *label_p);

/* ---- IDX files (idx.c) ----------------------------------------------------------------------- */

/* Read STEM-images-idx3-ubyte and STEM-labels-idx1-ubyte of dir, plain or with .gz at the end
 * ("train", "t10k"). part_p's arrays are the caller's (data_part_free).
 * Errors  TG_E_IO (not found, unreadable), TG_E_CORRUPT (names file, field, value and what was
 *         expected), TG_E_NOMEM */
TG_NODISCARD tg_status idx_read(const char *dir, const char *stem, data_part *part_p);
/* Whether dir holds all four files of a set. */
bool idx_present(const char *dir);

/* ---- generated digits (glyphs.c) ------------------------------------------------------------- */

/* Draw `count` digits; sample i is a function of (seed, split, i) alone, and its label is i mod 10.
 * Only operations that IEEE 754 rounds exactly are used, so every machine draws the same bytes.
 * Errors TG_E_NOMEM */
TG_NODISCARD tg_status glyphs_draw(uint64_t seed, data_split split, size_t count,
                                   data_part *part_p);

#endif

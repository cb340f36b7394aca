/* A data set in memory, and its source. A source is one file that defines data_sets, and a line for
 * each of them in sets.def. */
#ifndef TG_TRAIN_DATA_H
#define TG_TRAIN_DATA_H

#include <stdlib.h>
#include "trainer/data/batch.h"
#include "trainer/data/dataset.h"
#include "telegrad/spec.h"

/* One part of a set: `count` labelled images of height * width * channels bytes (channels
 * innermost), or `count` tokens. */
typedef struct data_part {
    uint8_t *images, *labels;
    int32_t *tokens;
    size_t count;
} data_part;

static inline void data_part_free(data_part *p)
{
    free(p->images);
    free(p->labels);
    free(p->tokens);
    *p = (data_part){NULL, NULL, NULL, 0};
}

typedef enum data_split { DATA_TRAIN = 0, DATA_TEST = 1 } data_split;

#define DATA_CHANNELS 3 /* at most */

typedef struct data_set data_set;

struct train_data {
    const data_set *set;
    char *origin;
    data_part part[2]; /* by data_split, as read */
    data_part view[2]; /* the samples in use; borrows from part */
    size_t vocabulary; /* of tokens */
    bool augment;      /* crop and mirror training images (augment.h) */
    uint64_t hash;
    float value[DATA_CHANNELS][256]; /* of a pixel: (pixel / 255 - mean) / deviation */
};

struct data_set {
    const tg_entry *entry; /* with all keys except the path's */
    const char *path_key;  /* "dir", "file"; NULL: generated */
    const char *place;     /* default path below $TELEGRAD_DATA and ./data; NULL: none */
    const char *wants;     /* the files needed, for messages */
    train_unit unit;
    /* Images only: */
    size_t height, width, channels, classes;
    size_t samples; /* training samples without the key `train`; 0: set by the files */
    float mean[DATA_CHANNELS], deviation[DATA_CHANNELS]; /* of the training pixels / 255 */
    /* True if path has the files that the spec needs, readable. */
    bool (*present)(const char *path, const tg_spec *spec);
    /* Fill d->part (and d->vocabulary). On failure the caller frees what has been filled.
     * path  NULL for generated sets */
    tg_status (*load)(train_data *d, const tg_spec *spec, const char *path);
};

/* All sets, in the order of sets.def. */
const data_set *const *data_sets(size_t *count_p);

/* The input that a model for this set must take.
 * context  tokens in a sample, for sets of tokens */
model_input train_data_input(const train_data *d, size_t context);
/* The same for a spec, without reading images; in_p->context is 0.
 * Errors  those of train_data_open */
TG_NODISCARD tg_status data_input(const char *spec, train_unit *unit_p, model_input *in_p);

/* Labels that an evaluation counts: all images, or all tokens but the first. */
size_t data_test_labels(const train_data *d);

/* Image `index` of a split, not augmented.
 * x        [out] (height, width, channels) = (pixel / 255 - mean) / deviation
 * label_p  [out] its class
 * Threads  any */
void data_sample(const train_data *d, data_split split, size_t index, float *x, int32_t *label_p);

/* ---- IDX files (idx.c) and generated digits (glyphs.c): 28 x 28 grey images of 10 classes ---- */

#define DATA_SIDE 28
#define DATA_PIXELS (DATA_SIDE * DATA_SIDE)
#define DATA_CLASSES 10

/* Read STEM-images-idx3-ubyte and STEM-labels-idx1-ubyte of dir, packed or not.
 * stem    "train" or "t10k"
 * part_p  [out] free it with data_part_free
 * Errors  TG_E_IO (not found, unreadable), TG_E_NOMEM,
 *         TG_E_CORRUPT (names file, field, value and what was expected) */
TG_NODISCARD tg_status idx_read(const char *dir, const char *stem, data_part *part_p);

/* ---- CIFAR-10's binary version (cifar.c): 32 x 32 colour images of 10 classes ---------------- */

#define CIFAR_SIDE 32
#define CIFAR_CLASSES 10

/* Append the records of a file (1 label byte, then the red, green and blue planes) to part, whose
 * arrays grow. Fewer than 10,000 records are logged as a warning.
 * Errors  TG_E_IO, TG_E_CORRUPT, TG_E_UNSUPPORTED, TG_E_NOMEM */
TG_NODISCARD tg_status cifar_append(const char *path, data_part *part);

/* ---- text (text.c, words.c) ------------------------------------------------------------------ */

/* Read a file of characters as numbers from 0, in the order of their codes.
 * split   the first fraction of the text is for training, the rest for testing
 * bytes   true: each byte is a character; false: the file is UTF-8
 * Errors  TG_E_IO, TG_E_CORRUPT (not UTF-8: names the byte), TG_E_ARG (a part is empty),
 *         TG_E_UNSUPPORTED, TG_E_NOMEM */
TG_NODISCARD tg_status text_read(const char *path, double split, bool bytes, data_part parts[2],
                                 size_t *vocabulary_p);

/* Read two files of words, with a word <eos> at each end of line. Words are numbered in the order
 * in which they appear in the first file. A word that occurs only in the second becomes <unk>,
 * which the first must contain then.
 * Errors  as for text_read; TG_E_CORRUPT names line and word */
TG_NODISCARD tg_status words_read(const char *train, const char *test, data_part parts[2],
                                  size_t *vocabulary_p);

#endif

/* Data sets, as a training program uses them: open one by its spec string, and query it. */
#ifndef TG_TRAIN_DATASET_H
#define TG_TRAIN_DATASET_H

#include "telegrad/base.h"

/* A data set in memory. It is immutable once open, and the ranks of a process share it. */
typedef struct train_data train_data;

typedef enum train_unit { TRAIN_IMAGES = 0, TRAIN_CHARACTERS, TRAIN_WORDS } train_unit;

/* Open a data set.
 * spec     NAME, NAME:PATH, NAME:key=value,... or NAME:PATH,key=value,...: "mnist",
 *          "cifar10:train=1-4,test=5", "text:poems.txt,split=0.8" (docs/data.md). Without a path,
 *          sets with a usual place are looked for below $TELEGRAD_DATA, then in ./data
 * holdout  0: test on the test files. N: train without the last N training images (of a text:
 *          tokens, at least 2) and test on those, to choose rates without looking at the test set
 * Errors   TG_E_SPEC, TG_E_ARG, TG_E_NOMEM,
 *          TG_E_IO (names the files and folders looked for),
 *          TG_E_CORRUPT (names file, field, value),
 *          TG_E_UNSUPPORTED (.xz in a build without liblzma) */
TG_NODISCARD tg_status train_data_open(const char *spec, size_t holdout, train_data **d_p);
void train_data_close(train_data *d);
const char *train_data_name(const train_data *d);   /* "mnist" */
const char *train_data_origin(const train_data *d); /* folder, file, or "generated" */
uint64_t train_data_hash(const train_data *d);      /* of all bytes used */
train_unit train_data_unit(const train_data *d);
size_t train_data_classes(const train_data *d); /* of tokens: the vocabulary */
size_t train_data_train(const train_data *d);   /* images, or tokens */
size_t train_data_test(const train_data *d);
/* True if the files of a set are found without a path; for choosing a default.
 * path_p  [out] where, if true: a static string, or one of the environment */
bool train_data_find(const char *name, const char **path_p);
/* True if something stands in a place of a set without being one; `text` says what, and what is
 * wanted. For a set that train_data_find does not find. */
bool train_data_unusable(const char *name, char *text, size_t room);

/* The number of training samples of a spec. Sets with a known, published size are not read.
 * Errors  those of train_data_open */
TG_NODISCARD tg_status train_data_samples(const char *spec, size_t holdout, size_t *count_p);

/* How many training images of each class each rank gets.
 * shard   "dirichlet:alpha=0.5", ... (shard.h); NULL: "iid", where all ranks draw from the same
 * counts  [out] (world, classes). Not written for a text, which has no classes; may be NULL then
 * Errors  TG_E_SPEC, TG_E_ARG (more ranks than samples; a shard by classes of a text),
 *         TG_E_NOMEM */
TG_NODISCARD tg_status train_data_shards(const train_data *d, const char *shard, uint64_t seed,
                                         int world, uint64_t *counts);

#endif

/* CIFAR-10's binary version: records of 3,073 bytes, each a label and three planes of 32 x 32
 * pixels, row by row. */
#include "trainer/data/data.h"
#include "trainer/data/data_keys.h"
#include "trainer/data/packed.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <string.h>

#define PLANE (CIFAR_SIDE * CIFAR_SIDE)
#define PIXELS (3 * PLANE)
#define RECORD (1 + PIXELS)
#define RECORDS 10000u /* in a published file; smaller files also exist */
#define BATCHES 5

/* ---- one file -------------------------------------------------------------------------------- */

/* Make room for one more image; the capacity of the arrays doubles. */
static tg_status grow(data_part *part, const char *path)
{
    const size_t count = part->count;
    if (count & (count - 1) || (count > 0 && count < 1024)) /* full only at powers of two */
        return TG_OK;
    const size_t room = count ? 2 * count : 1024;
    uint8_t *images = realloc(part->images, room * PIXELS);
    part->images = images ? images : part->images;
    uint8_t *labels = images ? realloc(part->labels, room) : NULL;
    part->labels = labels ? labels : part->labels;
    if (!labels)
        return tg_fail(TG_E_NOMEM, "%s: out of memory for %zu images", path, room);
    return TG_OK;
}

/* Convert planes to pixels. */
static void interleave(const uint8_t *planes, uint8_t *image)
{
    for (size_t i = 0; i < PLANE; i++) {
        for (size_t c = 0; c < 3; c++)
            image[3 * i + c] = planes[c * PLANE + i];
    }
}

static tg_status read_records(packed *file, data_part *part)
{
    const char *path = packed_path(file);
    uint8_t record[RECORD];
    for (size_t number = 0;; number++) {
        size_t got;
        TG_TRY(packed_read(file, record, sizeof record, &got));
        if (got == 0 && number > 0) {
            if (number < RECORDS) /* fewer: the file may have been cut between records */
                tg_log(TG_LOG_WARN, "%s: %zu records, and CIFAR-10's files have %u", path, number,
                       RECORDS);
            return TG_OK;
        }
        if (got < sizeof record)
            return tg_fail(TG_E_CORRUPT,
                           "%s: record %zu has %zu bytes, expected %d: truncated, or not of "
                           "CIFAR-10's binary version",
                           path, number, got, RECORD);
        if (number == RECORDS)
            return tg_fail(TG_E_CORRUPT, "%s: more than %u records of %d bytes", path, RECORDS,
                           RECORD);
        if (record[0] >= CIFAR_CLASSES)
            return tg_fail(TG_E_CORRUPT, "%s: label[%zu]=%u, expected 0 to %d", path, number,
                           record[0], CIFAR_CLASSES - 1);
        TG_TRY(grow(part, path));
        part->labels[part->count] = record[0];
        interleave(record + 1, part->images + part->count * PIXELS);
        part->count++;
    }
}

tg_status cifar_append(const char *path, data_part *part)
{
    packed *file;
    TG_TRY(packed_open(path, &file));
    const tg_status status = read_records(file, part);
    packed_close(file);
    return status;
}

/* ---- the set --------------------------------------------------------------------------------- */

/* File 0 is the test batch. */
static void name_of(int file, char name[32])
{
    if (file == 0)
        strcpy(name, "test_batch.bin");
    else
        snprintf(name, 32, "data_batch_%d.bin", file);
}

/* Read the number of a batch at *p; 0 if there is none. */
static int take_number(const char **p)
{
    return **p >= '1' && **p <= '0' + BATCHES ? *(*p)++ - '0' : 0;
}

/* Read "test", "3" or "2-4" at *p into a mask with one bit per file; 0: none of these. */
static unsigned take_item(const char **p)
{
    if (strncmp(*p, "test", 4) == 0) {
        *p += 4;
        return 1;
    }
    const int first = take_number(p);
    int last = first;
    if (**p == '-') {
        ++*p;
        last = take_number(p);
    }
    return first > 0 && last >= first ? (2u << last) - (1u << first) : 0;
}

/* "1-4", "1+3-5", "5+test" */
static tg_status parse_files(const char *key, const char *text, unsigned *files_p)
{
    unsigned files = 0;
    const char *p = text;
    do {
        const unsigned item = take_item(&p);
        if (item == 0 || item & files || (*p && *p != '+'))
            return tg_fail(TG_E_SPEC,
                           "data set cifar10: %s=%.64s: allowed: test, batches 1 to %d and ranges "
                           "of them, each once: 1-4, 1+3-5, 5+test",
                           key, text, BATCHES);
        files |= item;
    } while (*p++ == '+');
    *files_p = files;
    return TG_OK;
}

/* The files of each part, as a mask with one bit per file. */
static tg_status files_of(const tg_spec *spec, unsigned *train_p, unsigned *test_p)
{
    const char *train = tg_spec_word(spec, "train"), *test = tg_spec_word(spec, "test");
    TG_TRY(parse_files("train", train, train_p));
    TG_TRY(parse_files("test", test, test_p));
    if (*train_p & *test_p)
        return tg_fail(TG_E_SPEC,
                       "data set cifar10: train=%s and test=%s have a batch in common: each may be "
                       "in only one of them",
                       train, test);
    return TG_OK;
}

static bool present(const char *dir, const tg_spec *spec)
{
    unsigned train, test;
    char name[32], path[PACKED_PATH];
    if (files_of(spec, &train, &test) != TG_OK)
        return true; /* load reports what is wrong with them */
    for (int file = 0; file <= BATCHES; file++) {
        name_of(file, name);
        if ((train | test) >> file & 1 && !packed_find(dir, name, path))
            return false;
    }
    return true;
}

static tg_status read_files(const char *dir, unsigned files, data_part *part)
{
    for (int i = 1; i <= BATCHES + 1; i++) { /* the test batch last */
        const int file = i % (BATCHES + 1);
        char name[32], path[PACKED_PATH];
        if (!(files >> file & 1))
            continue;
        name_of(file, name);
        TG_TRY(packed_check_folder(dir));
        if (!packed_find(dir, name, path))
            return tg_fail(TG_E_IO, "%s: neither %s nor the same with .gz or .xz can be read", dir,
                           name);
        TG_TRY(cifar_append(path, part));
    }
    return TG_OK;
}

static tg_status load(train_data *d, const tg_spec *spec, const char *path)
{
    unsigned train, test;
    TG_TRY(files_of(spec, &train, &test));
    TG_TRY(read_files(path, train, &d->part[DATA_TRAIN]));
    return read_files(path, test, &d->part[DATA_TEST]);
}

static const tg_key keys[] = {
    {.name = "train",
     .type = TG_KEY_SPEC,
     .def = "1-5",
     .help = "training batches: numbers and ranges, such as 1-4 or 1+3-5"},
    {.name = "test",
     .type = TG_KEY_SPEC,
     .def = "test",
     .help = "test batches: test (test_batch.bin), numbers and ranges"},
    DATA_AUGMENT_KEY("crop-flip"),
    {.name = NULL},
};

static const tg_entry entry = {
    .name = "cifar10",
    .summary = "photographs, 32 x 32 colour, 10 classes",
    .source = "Krizhevsky 2009, Learning Multiple Layers of Features from Tiny Images",
    .keys = keys,
};

const data_set data_cifar10 = {
    .entry = &entry,
    .path_key = "dir",
    .place = "cifar-10",
    .wants = "folder with the batches asked for, of data_batch_{1,2,3,4,5}.bin and test_batch.bin "
             "or the same with .gz or .xz",
    .unit = TRAIN_IMAGES,
    .samples = 50000,
    .height = CIFAR_SIDE,
    .width = CIFAR_SIDE,
    .channels = 3,
    .classes = CIFAR_CLASSES,
    .mean = {0.4914f, 0.4822f, 0.4465f},
    .deviation = {0.2470f, 0.2435f, 0.2616f},
    .present = present,
    .load = load,
};

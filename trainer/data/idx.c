/* IDX: big-endian 32-bit magic (0x00000803: bytes in 3 dimensions, 0x00000801: in 1), the
 * dimensions, then the bytes. */
#include "trainer/data/data.h"
#include "trainer/data/data_keys.h"
#include "trainer/data/packed.h"
#include "telegrad/tools.h"
#include <stdio.h>
#include <string.h>

#define COUNT_MAX 1000000u

static const char *const kinds[] = {"images-idx3-ubyte", "labels-idx1-ubyte"};

/* Find DIR/STEM-KIND, packed or not. */
static bool find(const char *dir, const char *stem, const char *kind, char path[PACKED_PATH])
{
    char name[64];
    snprintf(name, sizeof name, "%s-%s", stem, kind);
    return packed_find(dir, name, path);
}

static bool present(const char *dir, const tg_spec *spec)
{
    (void)spec;
    char path[PACKED_PATH];
    for (size_t i = 0; i < TG_COUNT(kinds); i++) {
        if (!find(dir, "train", kinds[i], path) || !find(dir, "t10k", kinds[i], path))
            return false;
    }
    return true;
}

/* Read exactly `len` bytes, which must be the rest of the file. */
static tg_status read_body(packed *file, size_t len, uint8_t **body_p)
{
    uint8_t *body = NULL, more;
    size_t have = 0, extra = 0;
    tg_status status = packed_rest(file, len, &body, &have);
    if (status == TG_OK && have < len)
        status = tg_fail(TG_E_CORRUPT, "%s: %zu bytes of data, expected %zu", packed_path(file),
                         have, len);
    if (status == TG_OK) /* also makes the decoder check the trailer */
        status = packed_read(file, &more, 1, &extra);
    if (status == TG_OK && extra > 0)
        status = tg_fail(TG_E_CORRUPT, "%s: trailing bytes after %zu bytes of data",
                         packed_path(file), len);
    if (status != TG_OK) {
        free(body);
        return status;
    }
    *body_p = body;
    return TG_OK;
}

static uint32_t big32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* expected: the required number of items; 0: any number. It is checked before the body is read, so
 * that a small file cannot make the reader allocate much memory. */
static tg_status read_file(packed *file, bool images, size_t expected, size_t *count_p,
                           uint8_t **body_p)
{
    const char *path = packed_path(file);
    uint8_t header[16];
    const size_t len = images ? 16 : 8;
    const uint32_t magic = images ? 0x803 : 0x801;
    size_t got;
    TG_TRY(packed_read(file, header, len, &got));
    if (got < len)
        return tg_fail(TG_E_CORRUPT, "%s: header of %zu bytes, expected %zu", path, got, len);
    if (big32(header) != magic)
        return tg_fail(TG_E_CORRUPT, "%s: magic=0x%08x, expected 0x%08x (%s)", path, big32(header),
                       magic, images ? "images" : "labels");
    const uint32_t count = big32(header + 4);
    if (count == 0 || count > COUNT_MAX)
        return tg_fail(TG_E_CORRUPT, "%s: count=%u, expected 1 to %u", path, count, COUNT_MAX);
    if (expected != 0 && count != expected)
        return tg_fail(TG_E_CORRUPT, "%s: count=%u, expected %zu as there are labels", path, count,
                       expected);
    if (images) {
        const uint32_t rows = big32(header + 8), columns = big32(header + 12);
        if (rows != DATA_SIDE || columns != DATA_SIDE)
            return tg_fail(TG_E_CORRUPT, "%s: images of %u x %u, expected %d x %d", path, rows,
                           columns, DATA_SIDE, DATA_SIDE);
    }
    TG_TRY(read_body(file, (size_t)count * (images ? DATA_PIXELS : 1), body_p));
    *count_p = count;
    return TG_OK;
}

static tg_status read_kind(const char *dir, const char *stem, bool images, size_t expected,
                           char path[PACKED_PATH], size_t *count_p, uint8_t **body_p)
{
    const char *kind = kinds[images ? 0 : 1];
    packed *file;
    TG_TRY(packed_check_folder(dir));
    if (!find(dir, stem, kind, path))
        return tg_fail(TG_E_IO, "%s: neither %s-%s nor the same with .gz or .xz can be read", dir,
                       stem, kind);
    TG_TRY(packed_open(path, &file));
    const tg_status status = read_file(file, images, expected, count_p, body_p);
    packed_close(file);
    return status;
}

static tg_status check_labels(const char *path, const data_part *part)
{
    for (size_t i = 0; i < part->count; i++) {
        if (part->labels[i] >= DATA_CLASSES)
            return tg_fail(TG_E_CORRUPT, "%s: label[%zu]=%u, expected 0 to %d", path, i,
                           part->labels[i], DATA_CLASSES - 1);
    }
    return TG_OK;
}

tg_status idx_read(const char *dir, const char *stem, data_part *part_p)
{
    data_part part = {NULL, NULL, NULL, 0};
    char path[PACKED_PATH];
    tg_status status = read_kind(dir, stem, false, 0, path, &part.count, &part.labels);
    if (status == TG_OK)
        status = check_labels(path, &part);
    if (status == TG_OK)
        status = read_kind(dir, stem, true, part.count, path, &part.count, &part.images);
    if (status != TG_OK) {
        data_part_free(&part);
        return status;
    }
    *part_p = part;
    return TG_OK;
}

/* ---- the sets -------------------------------------------------------------------------------- */

static tg_status load(train_data *d, const tg_spec *spec, const char *path)
{
    (void)spec;
    TG_TRY(idx_read(path, "train", &d->part[DATA_TRAIN]));
    return idx_read(path, "t10k", &d->part[DATA_TEST]);
}

static const tg_key keys[] = {DATA_AUGMENT_KEY("none"), {.name = NULL}};

static const tg_entry mnist = {
    .name = "mnist",
    .summary = "handwritten digits, 28 x 28 grey, 10 classes",
    .source = "LeCun et al. 1998, Proc. IEEE 86(11)",
    .keys = keys,
};

static const tg_entry fashion_mnist = {
    .name = "fashion-mnist",
    .summary = "clothing, 28 x 28 grey, 10 classes",
    .source = "Xiao et al. 2017, arXiv:1708.07747",
    .keys = keys,
};

/* A set in files as MNIST has them, in this folder; the mean and the deviation of its pixels. */
#define IDX_SET(of, folder, m, d)                                                                  \
    {                                                                                              \
        .entry = &(of), .path_key = "dir", .place = (folder),                                      \
        .wants = "folder with {train,t10k}-{images-idx3,labels-idx1}-ubyte or the same with "      \
                 ".gz or .xz",                                                                     \
        .unit = TRAIN_IMAGES, .samples = 60000, .height = DATA_SIDE, .width = DATA_SIDE,           \
        .channels = 1, .classes = DATA_CLASSES, .mean = {m}, .deviation = {d}, .present = present, \
        .load = load,                                                                              \
    }

const data_set data_mnist = IDX_SET(mnist, "mnist", 0.1307f, 0.3081f);
const data_set data_fashion_mnist = IDX_SET(fashion_mnist, "fashion-mnist", 0.2860f, 0.3530f);

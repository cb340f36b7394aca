/* IDX: big-endian 32-bit magic (0x00000803: bytes in 3 dimensions, 0x00000801: in 1), the
 * dimensions, then the bytes. zlib's gz functions read plain files as they are. */
#include "train/data/data.h"
#include "train/train_util.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define PATH_BYTES 4096
#define COUNT_MAX 1000000u

static const char *const kinds[] = {"images-idx3-ubyte", "labels-idx1-ubyte"};

/* DIR/STEM-KIND or DIR/STEM-KIND.gz, whichever can be read. */
static bool find(const char *dir, const char *stem, const char *kind, char path[PATH_BYTES])
{
    for (int gz = 0; gz < 2; gz++) {
        const int len = snprintf(path, PATH_BYTES, "%s/%s-%s%s", dir, stem, kind, gz ? ".gz" : "");
        if (len > 0 && len < PATH_BYTES && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

bool idx_present(const char *dir)
{
    char path[PATH_BYTES];
    for (size_t i = 0; i < TRAIN_COUNT(kinds); i++) {
        if (!find(dir, "train", kinds[i], path) || !find(dir, "t10k", kinds[i], path))
            return false;
    }
    return true;
}

typedef struct reader {
    gzFile file;
    char path[PATH_BYTES];
} reader;

/* Up to len bytes; *got_p less than that only at the end of the file. */
static tg_status read_some(reader *r, void *dst, size_t len, size_t *got_p)
{
    const int got = gzread(r->file, dst, (unsigned)len);
    int code = Z_OK;
    const char *text = gzerror(r->file, &code);
    if (code == Z_ERRNO)
        return tg_fail(TG_E_IO, "%s: cannot read: %s", r->path, strerror(errno));
    if (got < 0 || code == Z_BUF_ERROR || code == Z_DATA_ERROR)
        return tg_fail(TG_E_CORRUPT, "%s: damaged or truncated gzip data (%s)", r->path, text);
    *got_p = (size_t)got;
    return TG_OK;
}

/* Exactly `len` bytes. The memory grows as bytes really come, so a header that promises too much
 * does not make us allocate it. */
static tg_status read_body(reader *r, size_t len, uint8_t **body_p)
{
    const size_t chunk = (size_t)1 << 24;
    uint8_t *body = NULL;
    size_t have = 0, got = 1;
    tg_status status = TG_OK;
    while (status == TG_OK && have < len && got > 0) {
        const size_t want = len - have < chunk ? len - have : chunk;
        uint8_t *grown = realloc(body, have + want);
        if (!grown) {
            status = tg_fail(TG_E_NOMEM, "%s: out of memory for %zu bytes", r->path, have + want);
            break;
        }
        body = grown;
        status = read_some(r, body + have, want, &got);
        have += status == TG_OK ? got : 0;
    }
    if (status == TG_OK && have < len)
        status = tg_fail(TG_E_CORRUPT, "%s: %zu bytes of data, expected %zu", r->path, have, len);
    uint8_t extra;
    if (status == TG_OK) /* also makes zlib check the trailer */
        status = read_some(r, &extra, 1, &got);
    if (status == TG_OK && got > 0)
        status = tg_fail(TG_E_CORRUPT, "%s: trailing bytes after %zu bytes of data", r->path, len);
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

/* expected: how many there must be; 0: any number. Checked before the body is read, so that a small
 * file cannot ask for much memory. */
static tg_status read_file(reader *r, bool images, size_t expected, size_t *count_p,
                           uint8_t **body_p)
{
    uint8_t header[16];
    const size_t len = images ? 16 : 8;
    const uint32_t magic = images ? 0x803 : 0x801;
    size_t got;
    TG_TRY(read_some(r, header, len, &got));
    if (got < len)
        return tg_fail(TG_E_CORRUPT, "%s: header of %zu bytes, expected %zu", r->path, got, len);
    if (big32(header) != magic)
        return tg_fail(TG_E_CORRUPT, "%s: magic=0x%08x, expected 0x%08x (%s)", r->path,
                       big32(header), magic, images ? "images" : "labels");
    const uint32_t count = big32(header + 4);
    if (count == 0 || count > COUNT_MAX)
        return tg_fail(TG_E_CORRUPT, "%s: count=%u, expected 1 to %u", r->path, count, COUNT_MAX);
    if (expected != 0 && count != expected)
        return tg_fail(TG_E_CORRUPT, "%s: count=%u, expected %zu as there are labels", r->path,
                       count, expected);
    if (images) {
        const uint32_t rows = big32(header + 8), columns = big32(header + 12);
        if (rows != DATA_SIDE || columns != DATA_SIDE)
            return tg_fail(TG_E_CORRUPT, "%s: images of %u x %u, expected %d x %d", r->path, rows,
                           columns, DATA_SIDE, DATA_SIDE);
    }
    TG_TRY(read_body(r, (size_t)count * (images ? DATA_PIXELS : 1), body_p));
    *count_p = count;
    return TG_OK;
}

static tg_status read_kind(const char *dir, const char *stem, bool images, size_t expected,
                           reader *r, size_t *count_p, uint8_t **body_p)
{
    const char *kind = kinds[images ? 0 : 1];
    if (!find(dir, stem, kind, r->path))
        return tg_fail(TG_E_IO, "%s: neither %s-%s nor %s-%s.gz can be read", dir, stem, kind, stem,
                       kind);
    r->file = gzopen(r->path, "rb");
    if (!r->file)
        return tg_fail(TG_E_IO, "%s: cannot open: %s", r->path, strerror(errno));
    const tg_status status = read_file(r, images, expected, count_p, body_p);
    gzclose_r(r->file);
    return status;
}

static tg_status check_labels(const reader *labels, const data_part *part)
{
    for (size_t i = 0; i < part->count; i++) {
        if (part->labels[i] >= DATA_CLASSES)
            return tg_fail(TG_E_CORRUPT, "%s: label[%zu]=%u, expected 0 to %d", labels->path, i,
                           part->labels[i], DATA_CLASSES - 1);
    }
    return TG_OK;
}

tg_status idx_read(const char *dir, const char *stem, data_part *part_p)
{
    data_part part = {NULL, NULL, 0};
    reader r;
    tg_status status = read_kind(dir, stem, false, 0, &r, &part.count, &part.labels);
    if (status == TG_OK)
        status = check_labels(&r, &part);
    if (status == TG_OK)
        status = read_kind(dir, stem, true, part.count, &r, &part.count, &part.images);
    if (status != TG_OK) {
        data_part_free(&part);
        return status;
    }
    *part_p = part;
    return TG_OK;
}

#include "bench/rows/npy.h"
#include "base/mem.h"
#include "telegrad/tools.h"
#include "codec/codec_impl.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PREFIX = 10, ALIGN = 64, HEAD_MAX = 65536, BLOCK = 16384 }; /* bytes */
static const char magic[] = "\x93NUMPY";

static bool write_head(FILE *file, const char *shape)
{
    char head[3 * ALIGN + 1] = "";
    uint8_t prefix[PREFIX];
    int len = snprintf(head, sizeof head,
                       "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }", shape);
    while ((PREFIX + len + 1) % ALIGN != 0)
        head[len++] = ' ';
    head[len++] = '\n';
    memcpy(prefix, magic, 6);
    prefix[6] = 1;
    prefix[7] = 0;
    tg__put16(prefix + 8, (uint16_t)len);
    return fwrite(prefix, 1, PREFIX, file) == PREFIX &&
           fwrite(head, 1, (size_t)len, file) == (size_t)len;
}

bool bench_npy_head(FILE *file, size_t n)
{
    char shape[32];
    snprintf(shape, sizeof shape, "%zu,", n);
    return write_head(file, shape);
}

bool bench_npy_head_matrix(FILE *file, size_t rows, size_t cols)
{
    char shape[64];
    snprintf(shape, sizeof shape, "%zu, %zu", rows, cols);
    return write_head(file, shape);
}

bool bench_npy_values(FILE *file, const float *x, size_t n)
{
    uint8_t block[BLOCK];
    for (size_t done = 0; done < n;) {
        size_t m = TG__MIN(n - done, sizeof block / sizeof *x);
        tg__floats_put(block, x + done, m);
        if (fwrite(block, sizeof *x, m, file) != m)
            return false;
        done += m;
    }
    return true;
}

/* ---- reading --------------------------------------------------------------------------------- */

static tg_status unreadable(const char *path)
{
    return tg_fail(TG_E_IO, "cannot read %s: %s", path, errno ? strerror(errno) : "it ends early");
}

/* Read the text of the header, a Python dictionary. */
static tg_status read_head(FILE *file, const char *path, char *head)
{
    uint8_t prefix[PREFIX + 2];
    errno = 0;
    if (fread(prefix, 1, PREFIX, file) != PREFIX || memcmp(prefix, magic, 6) != 0)
        return tg_fail(TG_E_CORRUPT, "%s is no .npy file: it does not begin with \\x93NUMPY", path);
    size_t len = tg__get16(prefix + 8);
    if (prefix[6] < 1 || prefix[6] > 3)
        return tg_fail(TG_E_CORRUPT, "%s: .npy version %u: allowed: 1, 2, 3", path, prefix[6]);
    if (prefix[6] > 1) {
        if (fread(prefix + PREFIX, 1, 2, file) != 2)
            return unreadable(path);
        len = tg__get32(prefix + 8);
    }
    if (len >= HEAD_MAX)
        return tg_fail(TG_E_CORRUPT, "%s: a head of %zu bytes: allowed: less than %d", path, len,
                       HEAD_MAX);
    if (fread(head, 1, len, file) != len)
        return unreadable(path);
    head[len] = '\0';
    return TG_OK;
}

/* What follows `'key':` in the header; NULL if the key is missing. */
static const char *value_of(const char *head, const char *key)
{
    const char *at = strstr(head, key);
    if (!at)
        return NULL;
    at += strlen(key);
    at += strspn(at, " ");
    if (*at++ != ':')
        return NULL;
    return at + strspn(at, " ");
}

static tg_status parse_head(const char *head, const char *path, size_t *n_p)
{
    const char *type = value_of(head, "'descr'"), *shape = value_of(head, "'shape'");
    char *end = NULL;
    if (!type || !shape)
        return tg_fail(TG_E_CORRUPT, "%s: its head has no descr or no shape", path);
    if (strncmp(type, "'<f4'", 5) != 0)
        return tg_fail(TG_E_CORRUPT, "%s: values of type %.*s: allowed: '<f4' (numpy.float32)",
                       path, (int)TG__MIN(strcspn(type, ","), (size_t)32), type);
    uint64_t n = 0;
    if (shape[0] == '(' && shape[1] >= '0' && shape[1] <= '9')
        n = strtoull(shape + 1, &end, 10);
    if (!end || strncmp(end, ",)", 2) != 0)
        return tg_fail(TG_E_CORRUPT, "%s: shape %.*s: allowed: one dimension, (n,)", path,
                       (int)TG__MIN(strcspn(shape, ")") + 1, (size_t)64), shape);
    if (n < 1 || n > TG_MAX_ELEMENTS)
        return tg_fail(TG_E_CORRUPT, "%s: %" PRIu64 " values: allowed: 1 to %zu", path, n,
                       TG_MAX_ELEMENTS);
    *n_p = (size_t)n;
    return TG_OK;
}

static tg_status read_values(FILE *file, const char *path, float *x, size_t n)
{
    uint8_t block[BLOCK];
    for (size_t done = 0; done < n;) {
        size_t m = TG__MIN(n - done, sizeof block / sizeof *x);
        errno = 0;
        if (fread(block, sizeof *x, m, file) != m)
            return ferror(file)
                       ? unreadable(path)
                       : tg_fail(TG_E_CORRUPT, "%s: it ends before the %zu values of its shape",
                                 path, n);
        tg__floats_get(x + done, block, m);
        done += m;
    }
    if (fgetc(file) != EOF)
        return tg_fail(TG_E_CORRUPT, "%s: it is longer than the %zu values of its shape", path, n);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return tg_fail(TG_E_CORRUPT, "%s: value %zu is %g: allowed: finite ones", path, i,
                           (double)x[i]);
    return TG_OK;
}

static tg_status read_file(FILE *file, const char *path, char *head, float **x_p, size_t *n_p)
{
    size_t n = 0;
    float *x;
    TG_TRY(read_head(file, path, head));
    TG_TRY(parse_head(head, path, &n));
    TG_TRY(tg_alloc(n, sizeof *x, &x));
    tg_status status = read_values(file, path, x, n);
    if (status != TG_OK) {
        free(x);
        return status;
    }
    *x_p = x;
    *n_p = n;
    return TG_OK;
}

tg_status bench_npy_read(const char *path, float **x_p, size_t *n_p)
{
    char *head;
    const char *why;
    const int fd = tg_readfile_open(path, TG_READ_REGULAR, NULL, &why);
    if (fd < 0)
        return tg_fail(TG_E_IO, "cannot open %s: %s", path, why);
    FILE *file = fdopen(fd, "rb");
    if (!file) {
        close(fd);
        return tg_fail(TG_E_NOMEM, "out of memory: %s", path);
    }
    tg_status status = tg_alloc(HEAD_MAX, 1, &head);
    if (status == TG_OK) {
        status = read_file(file, path, head, x_p, n_p);
        free(head);
    }
    fclose(file);
    return status;
}

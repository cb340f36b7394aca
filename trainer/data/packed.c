/* zlib's gz functions read plain files unchanged; liblzma, if the build has it, reads xz. */
#include "trainer/data/packed.h"
#include "telegrad/tools.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#ifdef TG_HAVE_LZMA
#include <lzma.h>
#endif

struct packed {
    char path[PACKED_PATH];
    gzFile gz; /* NULL: xz */
#ifdef TG_HAVE_LZMA
    FILE *file;
    lzma_stream xz;
    bool ended; /* no more bytes to decode */
    uint8_t in[1 << 16];
#endif
};

tg_status packed_check_folder(const char *dir)
{
    struct stat info;
    if (stat(dir, &info) != 0)
        return tg_fail(TG_E_IO, "folder %s: %s", dir, strerror(errno));
    return S_ISDIR(info.st_mode) ? TG_OK : tg_fail(TG_E_IO, "%s: this is not a folder", dir);
}

bool packed_find(const char *dir, const char *name, char path[PACKED_PATH])
{
    static const char *const ends[] = {"", ".gz", ".xz"};
    for (size_t i = 0; i < TG_COUNT(ends); i++) {
        const int len = snprintf(path, PACKED_PATH, "%s/%s%s", dir, name, ends[i]);
        if (len > 0 && len < PACKED_PATH && access(path, R_OK) == 0)
            return true;
    }
    return false;
}

const char *packed_path(const packed *p)
{
    return p->path;
}

/* ---- xz -------------------------------------------------------------------------------------- */

#ifdef TG_HAVE_LZMA
#define XZ_MEMORY (UINT64_C(256) << 20) /* limit for the dictionary; `xz -9` needs less */

static tg_status open_xz(packed *p)
{
    const lzma_stream start = LZMA_STREAM_INIT;
    p->xz = start;
    p->file = fopen(p->path, "rb");
    if (!p->file)
        return tg_fail(TG_E_IO, "%s: cannot open: %s", p->path, strerror(errno));
    if (lzma_stream_decoder(&p->xz, XZ_MEMORY, LZMA_CONCATENATED) != LZMA_OK)
        return tg_fail(TG_E_NOMEM, "%s: out of memory for the xz decoder", p->path);
    return TG_OK;
}

static const char *xz_word(lzma_ret code)
{
    switch (code) {
    case LZMA_FORMAT_ERROR:
        return "not an xz file";
    case LZMA_BUF_ERROR:
        return "truncated";
    case LZMA_MEMLIMIT_ERROR:
        return "its dictionary is larger than 256 MiB";
    default:
        return "damaged";
    }
}

static tg_status read_xz(packed *p, void *dst, size_t len, size_t *got_p)
{
    p->xz.next_out = dst;
    p->xz.avail_out = len;
    while (p->xz.avail_out > 0 && !p->ended) {
        if (p->xz.avail_in == 0) {
            p->xz.next_in = p->in;
            p->xz.avail_in = fread(p->in, 1, sizeof p->in, p->file);
            if (ferror(p->file))
                return tg_fail(TG_E_IO, "%s: cannot read: %s", p->path, strerror(errno));
        }
        const lzma_ret code = lzma_code(&p->xz, feof(p->file) ? LZMA_FINISH : LZMA_RUN);
        p->ended = code == LZMA_STREAM_END;
        if (code == LZMA_MEM_ERROR)
            return tg_fail(TG_E_NOMEM, "%s: out of memory for the xz decoder", p->path);
        if (code != LZMA_OK && code != LZMA_STREAM_END)
            return tg_fail(TG_E_CORRUPT, "%s: damaged or truncated xz data (%s)", p->path,
                           xz_word(code));
    }
    *got_p = len - p->xz.avail_out;
    return TG_OK;
}

static void close_xz(packed *p)
{
    if (p->file)
        fclose(p->file);
    lzma_end(&p->xz);
}
#else
static tg_status open_xz(const packed *p)
{
    return tg_fail(
        TG_E_UNSUPPORTED,
        "%s: this build has no liblzma (Debian: liblzma-dev): unpack the file with xz -d", p->path);
}

static tg_status read_xz(packed *p, void *dst, size_t len, size_t *got_p)
{
    (void)dst;
    (void)len;
    (void)got_p;
    return open_xz(p);
}

static void close_xz(packed *p)
{
    (void)p;
}
#endif

/* ---- plain and gzip -------------------------------------------------------------------------- */

static tg_status open_gz(packed *p)
{
    errno = 0;
    p->gz = gzopen(p->path, "rb");
    if (!p->gz)
        return tg_fail(errno ? TG_E_IO : TG_E_NOMEM, "%s: cannot open: %s", p->path,
                       errno ? strerror(errno) : "out of memory");
    return TG_OK;
}

static tg_status read_gz(packed *p, void *dst, size_t len, size_t *got_p)
{
    const int got = gzread(p->gz, dst, (unsigned)len);
    int code = Z_OK;
    const char *text = gzerror(p->gz, &code);
    if (code == Z_ERRNO)
        return tg_fail(TG_E_IO, "%s: cannot read: %s", p->path, strerror(errno));
    if (got < 0 || code == Z_BUF_ERROR || code == Z_DATA_ERROR)
        return gzdirect(p->gz) ? tg_fail(TG_E_CORRUPT, "%s: truncated", p->path)
                               : tg_fail(TG_E_CORRUPT, "%s: damaged or truncated gzip data (%s)",
                                         p->path, text);
    *got_p = (size_t)got;
    return TG_OK;
}

/* ---- any ------------------------------------------------------------------------------------- */

tg_status packed_open(const char *path, packed **p_p)
{
    const size_t len = strlen(path);
    if (len >= PACKED_PATH)
        return tg_fail(TG_E_IO, "%.64s...: a path of %zu bytes: allowed: %d", path, len,
                       PACKED_PATH - 1);
    struct stat about;
    if (stat(path, &about) != 0)
        return tg_fail(TG_E_IO, "%s: cannot open: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode)) /* a device may never end, and a pipe cannot be read twice */
        return tg_fail(TG_E_IO, "%s is %s: allowed: regular files", path,
                       S_ISDIR(about.st_mode)    ? "a folder"
                       : S_ISFIFO(about.st_mode) ? "a pipe"
                                                 : "a device or socket");
    packed *p = NULL;
    TG_TRY(tg_alloc(1, sizeof *p, &p));
    memcpy(p->path, path, len + 1);
    const bool xz = len > 3 && strcmp(path + len - 3, ".xz") == 0;
    const tg_status status = xz ? open_xz(p) : open_gz(p);
    if (status != TG_OK) {
        packed_close(p);
        return status;
    }
    *p_p = p;
    return TG_OK;
}

void packed_close(packed *p)
{
    if (!p)
        return;
    if (p->gz)
        gzclose_r(p->gz);
    else
        close_xz(p);
    free(p);
}

#define CHUNK ((size_t)1 << 24) /* gzread takes an unsigned */

tg_status packed_read(packed *p, void *dst, size_t len, size_t *got_p)
{
    size_t have = 0, got = 1;
    while (have < len && got > 0) {
        const size_t want = len - have < CHUNK ? len - have : CHUNK;
        uint8_t *at = (uint8_t *)dst + have;
        TG_TRY(p->gz ? read_gz(p, at, want, &got) : read_xz(p, at, want, &got));
        have += got;
    }
    *got_p = have;
    return TG_OK;
}

tg_status packed_rest(packed *p, size_t most, uint8_t **body_p, size_t *len_p)
{
    uint8_t *body = NULL;
    size_t have = 0, room = 0;
    tg_status status = TG_OK;
    while (status == TG_OK && have == room && (room < most || !body)) {
        size_t got = 0;
        room = room ? 2 * room : (size_t)1 << 16;
        room = room < most ? room : most;
        uint8_t *grown = realloc(body, room + 1);
        if (!grown) {
            status = tg_fail(TG_E_NOMEM, "%s: out of memory for %zu bytes", p->path, room);
            break;
        }
        body = grown;
        status = packed_read(p, body + have, room - have, &got);
        have += got;
    }
    if (status != TG_OK) {
        free(body);
        return status;
    }
    body[have] = 0;
    *body_p = body;
    *len_p = have;
    return TG_OK;
}

tg_status packed_load(const char *path, size_t most, uint8_t **body_p, size_t *len_p)
{
    packed *p = NULL;
    uint8_t *body = NULL, more;
    size_t len, extra = 0;
    TG_TRY(packed_open(path, &p));
    tg_status status = packed_rest(p, most, &body, &len);
    if (status == TG_OK) /* also makes the decoder check the trailer */
        status = packed_read(p, &more, 1, &extra);
    if (status == TG_OK && extra > 0)
        status = tg_fail(TG_E_CORRUPT, "%s: more than %zu bytes", path, most);
    packed_close(p);
    if (status != TG_OK) {
        free(body);
        return status;
    }
    *body_p = body;
    *len_p = len;
    return TG_OK;
}

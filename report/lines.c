#include "report/lines.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define LINE_MAX_BYTES ((size_t)64 << 20)

struct lines {
    const char *path;
    gzFile file;
    char *text; /* (room) */
    size_t room, number;
};

static tg_status open_file(const char *path, gzFile *file_p)
{
    errno = 0;
    const bool standard = strcmp(path, "-") == 0;
    const int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1) : -1;
    gzFile file = standard ? fd < 0 ? NULL : gzdopen(fd, "rb") : gzopen(path, "rbe");
    if (!file && fd >= 0)
        close(fd);
    if (!file)
        return tg_fail(TG_E_IO, "%s: cannot be opened: %s", path, strerror(errno ? errno : ENOMEM));
    gzbuffer(file, 1 << 16);
    *file_p = file;
    return TG_OK;
}

/* Report what went wrong in the last read, if anything did. */
static tg_status check(const char *path, gzFile file)
{
    int error = Z_OK;
    const char *why = gzerror(file, &error);
    if (error == Z_ERRNO)
        return tg_fail(TG_E_IO, "%s: cannot be read: %s", path, strerror(errno ? errno : EIO));
    if (error == Z_BUF_ERROR)
        return tg_fail(TG_E_CORRUPT, "%s: the compressed file is cut off", path);
    if (error != Z_OK && error != Z_STREAM_END)
        return tg_fail(TG_E_CORRUPT, "%s: cannot be unpacked: %s", path, why);
    return TG_OK;
}

tg_status lines_open(const char *path, lines **l_p)
{
    lines *l = calloc(1, sizeof *l);
    if (!l)
        return tg_fail(TG_E_NOMEM, "out of memory: %s", path);
    l->path = path;
    tg_status status = open_file(path, &l->file);
    if (status != TG_OK) {
        free(l);
        return status;
    }
    *l_p = l;
    return TG_OK;
}

void lines_close(lines *l)
{
    if (!l)
        return;
    gzclose(l->file);
    free(l->text);
    free(l);
}

static tg_status grow(lines *l)
{
    const size_t room = l->room ? 2 * l->room : 4096;
    if (room > LINE_MAX_BYTES)
        return tg_fail(TG_E_CORRUPT, "%s:%zu: a line of more than %zu bytes", l->path,
                       l->number + 1, LINE_MAX_BYTES / 2);
    char *text = realloc(l->text, room);
    if (!text)
        return tg_fail(TG_E_NOMEM, "out of memory: a line of %s", l->path);
    l->text = text;
    l->room = room;
    return TG_OK;
}

tg_status lines_next(lines *l, const char **line_p, size_t *len_p, bool *whole_p)
{
    size_t len = 0;
    for (;;) {
        if (l->room - len < 2)
            TG_TRY(grow(l));
        const int c = gzgetc(l->file);
        if (c < 0) {
            TG_TRY(check(l->path, l->file));
            break;
        }
        l->text[len++] = (char)c;
        if (c == '\n')
            break;
    }
    const bool whole = len > 0 && l->text[len - 1] == '\n';
    l->number += len > 0;
    *line_p = len > 0 ? l->text : NULL;
    *whole_p = whole;
    *len_p = len - whole;
    l->text[len - whole] = '\0';
    return TG_OK;
}

size_t lines_number(const lines *l)
{
    return l->number;
}

char *lines_name(const char *path)
{
    static const char *const endings[] = {".gz", ".jsonl"};
    const char *slash = strrchr(path, '/');
    char *name = strdup(slash && slash[1] ? slash + 1 : path);
    for (size_t i = 0; name && i < sizeof endings / sizeof *endings; i++) {
        const size_t len = strlen(name), end = strlen(endings[i]);
        if (len > end && strcmp(name + len - end, endings[i]) == 0)
            name[len - end] = '\0';
    }
    return name;
}

static size_t read_some(void *buffer, size_t len, void *file)
{
    const int n = gzread(file, buffer, (unsigned)len);
    return n < 0 ? (size_t)-1 : (size_t)n;
}

tg_status lines_read_json(const char *path, json_t **value_p)
{
    gzFile file;
    json_error_t error;
    TG_TRY(open_file(path, &file));
    json_t *value = json_load_callback(read_some, file, 0, &error);
    tg_status status = check(path, file);
    gzclose(file);
    if (status == TG_OK && !value)
        status = tg_fail(TG_E_CORRUPT, "%s:%d: not JSON: %s", path, error.line, error.text);
    if (status != TG_OK) {
        json_decref(value);
        return status;
    }
    *value_p = value;
    return TG_OK;
}

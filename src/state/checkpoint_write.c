/* Writing a checkpoint file: see checkpoint.h for its layout. */
#include "state/checkpoint.h"
#include "base/memstream.h"
#include "state/slots.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct tg__ckpt_writer {
    tg_newfile *file; /* NULL: in memory */
    FILE *memory;     /* ... a stream to `bytes` (len) */
    char *bytes;
    size_t len;
    char **name; /* (count) sections so far */
    size_t count, cap;
    tg_status failed; /* of the put that failed */
    tg__owned owned;  /* the names */
};

static void release(tg__ckpt_writer *w)
{
    tg__owned_free(&w->owned);
    free(w->name);
    free(w);
}

static const char *path_of(const tg__ckpt_writer *w)
{
    return w->file != NULL ? tg_newfile_path(w->file) : "in memory";
}

static tg_status write_bytes(tg__ckpt_writer *w, const void *bytes, size_t len)
{
    FILE *stream = w->file != NULL ? tg_newfile_stream(w->file) : w->memory;
    if (len == 0 || fwrite(bytes, 1, len, stream) == len)
        return TG_OK;
    return w->file != NULL
               ? tg_fail(TG_E_IO, "cannot write %s: %s", tg_newfile_aside(w->file), strerror(errno))
               : tg_fail(TG_E_NOMEM, "out of memory for a checkpoint in memory");
}

static const uint8_t zeros[8];

static tg_status write_section(tg__ckpt_writer *w, const char *name, const void *bytes, size_t len)
{
    const tg__kernels *k = tg__kernel();
    size_t name_len = strlen(name);
    uint8_t head[TG__CKPT_HEAD];
    tg__put64(head, len);
    tg__put32(head + 8, (uint32_t)name_len);
    uint32_t crc = k->crc32c(0, head, 12);
    crc = k->crc32c(crc, name, name_len);
    crc = k->crc32c(crc, zeros, tg__ckpt_pad(name_len));
    crc = k->crc32c(crc, bytes, len);
    crc = k->crc32c(crc, zeros, tg__ckpt_pad(len));
    tg__put32(head + 12, crc);
    TG_TRY(write_bytes(w, head, sizeof head));
    TG_TRY(write_bytes(w, name, name_len));
    TG_TRY(write_bytes(w, zeros, tg__ckpt_pad(name_len)));
    TG_TRY(write_bytes(w, bytes, len));
    return write_bytes(w, zeros, tg__ckpt_pad(len));
}

static tg_status keep_name(tg__ckpt_writer *w, const char *name)
{
    if (!*name || strlen(name) > TG__CKPT_NAME_MAX)
        return tg_fail(TG_E_ARG, "checkpoint section: a name of %zu bytes: allowed: 1 to %u",
                       strlen(name), TG__CKPT_NAME_MAX);
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->name[i], name) == 0)
            return tg_fail(TG_E_ARG, "checkpoint section \"%.64s\" is written already", name);
    TG_TRY(tg__grow(&w->name, &w->cap, w->count + 1, sizeof *w->name, "sections of a checkpoint"));
    TG_TRY(tg__owned_text(&w->owned, name, &w->name[w->count]));
    w->count++;
    return TG_OK;
}

/* Write any section. Once it has failed, it keeps failing. */
static tg_status put(tg__ckpt_writer *w, const char *name, const void *bytes, size_t len)
{
    tg_status status = w->failed;
    if (status != TG_OK)
        return tg_fail(status, "checkpoint %s: an earlier section failed", path_of(w));
    status = keep_name(w, name);
    if (status == TG_OK)
        status = write_section(w, name, bytes, len);
    w->failed = status;
    return status;
}

static tg_status write_head(tg__ckpt_writer *w)
{
    uint8_t head[TG__CKPT_HEAD];
    memcpy(head, TG__CKPT_MAGIC, 8);
    tg__put32(head + 8, TG__CKPT_VERSION);
    tg__put32(head + 12, tg__kernel()->crc32c(0, head, 12));
    return write_bytes(w, head, sizeof head);
}

static tg_status open_memory(tg__ckpt_writer *w)
{
    w->memory = tg__memstream_open(&w->bytes, &w->len);
    return w->memory != NULL ? TG_OK
                             : tg_fail(TG_E_NOMEM, "out of memory for a checkpoint in memory");
}

tg_status tg__ckpt_create(const char *path, const char *identity, tg__ckpt_writer **w_p)
{
    tg__ckpt_writer *w;
    TG_TRY(tg_alloc(1, sizeof *w, &w));
    tg_status status = path != NULL ? tg_newfile_open(path, &w->file) : open_memory(w);
    if (status != TG_OK) {
        release(w);
        return status;
    }
    status = write_head(w);
    if (status == TG_OK)
        status = put(w, TG__CKPT_IDENTITY, identity, strlen(identity));
    if (status != TG_OK)
        tg__ckpt_abandon(w);
    else
        *w_p = w;
    return status;
}

tg_status tg__ckpt_put(tg__ckpt_writer *w, const char *section, const void *bytes, size_t len)
{
    if (strncmp(section, TG__SLOT_PREFIX, strlen(TG__SLOT_PREFIX)) == 0)
        return tg_fail(TG_E_ARG, "checkpoint section \"%.64s\": names of slots are taken", section);
    return put(w, section, bytes, len);
}

tg_status tg__ckpt_put_state(tg__ckpt_writer *w, const tg__state *s)
{
    for (size_t i = 0; i < s->count; i++)
        TG_TRY(put(w, s->slot[i].key, s->slot[i].data, s->slot[i].len));
    return TG_OK;
}

static tg_status write_end(tg__ckpt_writer *w)
{
    uint8_t end[TG__CKPT_HEAD];
    tg__put64(end, w->count);
    tg__put32(end + 8, 0);
    tg__put32(end + 12, tg__kernel()->crc32c(0, end, 12));
    return w->failed != TG_OK ? tg_fail(w->failed, "checkpoint %s: a section failed", path_of(w))
                              : write_bytes(w, end, sizeof end);
}

tg_status tg__ckpt_commit(tg__ckpt_writer *w)
{
    tg_status status = write_end(w);
    if (status == TG_OK)
        status = tg_newfile_commit(w->file);
    else
        tg_newfile_abandon(w->file);
    release(w);
    return status;
}

tg_status tg__ckpt_commit_memory(tg__ckpt_writer *w, void **bytes_p, size_t *len_p)
{
    tg_status status = write_end(w);
    if (status != TG_OK) {
        tg__ckpt_abandon(w);
        return status;
    }
    if (tg__memstream_close(w->memory, &w->bytes) == TG_OK) {
        *bytes_p = w->bytes;
        *len_p = w->len;
    } else {
        status = tg_fail(TG_E_NOMEM, "out of memory for a checkpoint in memory");
    }
    release(w);
    return status;
}

void tg__ckpt_abandon(tg__ckpt_writer *w)
{
    if (!w)
        return;
    if (w->file != NULL)
        tg_newfile_abandon(w->file);
    if (w->memory != NULL) {
        fclose(w->memory); /* keeps the message */
        free(w->bytes);
    }
    release(w);
}

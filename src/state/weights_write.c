/* Writing weights files: see weights_impl.h for the layout. */
#include "base/memstream.h"
#include "kernel/kernel.h"
#include "state/weights_impl.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static size_t elements(const tg_weights_tensor *t)
{
    size_t n = 1;
    for (size_t d = 0; d < t->ndim; d++)
        n *= t->shape[d];
    return n;
}

static void put_header(FILE *f, const tg_weights_tensor *tensors, size_t count,
                       const tg__weights_pair *metadata, size_t npairs)
{
    uint64_t at = 0;
    fputs("{\"" TG__WEIGHTS_METADATA "\":{", f);
    for (size_t i = 0; i < npairs; i++) {
        if (i > 0)
            fputc(',', f);
        tg__print_json(f, metadata[i].name);
        fputc(':', f);
        tg__print_json(f, metadata[i].text);
    }
    fputc('}', f);
    for (size_t i = 0; i < count; i++) {
        const uint64_t end = at + elements(&tensors[i]) * sizeof(float);
        fputc(',', f);
        tg__print_json(f, tensors[i].name);
        fputs(":{\"dtype\":\"F32\",\"shape\":[", f);
        for (size_t d = 0; d < tensors[i].ndim; d++)
            fprintf(f, "%s%zu", d ? "," : "", tensors[i].shape[d]);
        fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, end);
        at = end;
    }
    fputc('}', f);
}

static tg_status check_names(const tg_weights_tensor *tensors, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = tensors[i].name, *end = name + strlen(name);
        size_t len = 1;
        for (const char *p = name; p < end && len > 0; p += len)
            len = tg_utf8_decode(p, (size_t)(end - p), NULL);
        if (len == 0 || strcmp(name, TG__WEIGHTS_METADATA) == 0)
            return tg_fail(TG_E_ARG,
                           "a tensor of the name \"%s\" cannot be saved: allowed: UTF-8, "
                           "not " TG__WEIGHTS_METADATA,
                           tg__show(name).text);
    }
    return TG_OK;
}

static tg_status write_bytes(const tg_newfile *f, const void *bytes, size_t len,
                             tg__weights_mark *mark)
{
    mark->crc = tg__kernel()->crc32c(mark->crc, bytes, len);
    mark->bytes += len;
    if (len && fwrite(bytes, 1, len, tg_newfile_stream(f)) != len)
        return tg_fail(TG_E_IO, "cannot write %s: %s", tg_newfile_aside(f), strerror(errno));
    return TG_OK;
}

static tg_status write_all(const tg_newfile *f, const char *header, size_t len,
                           const tg_weights_tensor *tensors, size_t count, tg__weights_mark *mark)
{
    static const char blanks[8] = "        ";
    const size_t pad = -len & 7;
    uint8_t head[TG__WEIGHTS_HEAD];
    tg__put64(head, len + pad);
    TG_TRY(write_bytes(f, head, sizeof head, mark));
    TG_TRY(write_bytes(f, header, len, mark));
    TG_TRY(write_bytes(f, blanks, pad, mark));
    for (size_t i = 0; i < count; i++)
        TG_TRY(write_bytes(f, tensors[i].data, elements(&tensors[i]) * sizeof(float), mark));
    return TG_OK;
}

static tg_status make_header(const tg_weights_tensor *tensors, size_t count,
                             const tg__weights_pair *metadata, size_t npairs, char **text_p,
                             size_t *len_p)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = tg__memstream_open(&text, &len);
    if (f)
        put_header(f, tensors, count, metadata, npairs);
    if (tg__memstream_close(f, &text) != TG_OK)
        return tg_fail(TG_E_NOMEM, "out of memory: header of %zu tensors", count);
    *text_p = text;
    *len_p = len;
    return TG_OK;
}

tg_status tg__weights_write(const char *path, const tg_weights_tensor *tensors, size_t count,
                            const tg__weights_pair *metadata, size_t npairs,
                            tg__weights_mark *mark_p)
{
    TG__FREED char *header = NULL;
    size_t len = 0;
    tg_newfile *f;
    tg__weights_mark mark = {0};
    TG_TRY(check_names(tensors, count));
    TG_TRY(make_header(tensors, count, metadata, npairs, &header, &len));
    TG_TRY(tg_newfile_open(path, &f));
    const tg_status status = write_all(f, header, len, tensors, count, &mark);
    if (status != TG_OK) {
        tg_newfile_abandon(f);
        return status;
    }
    TG_TRY(tg_newfile_commit(f));
    *mark_p = mark;
    return TG_OK;
}

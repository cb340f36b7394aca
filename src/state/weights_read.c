/* Reading weights files. */
#include "kernel/kernel.h"
#include "base/arg.h"
#include "base/floats.h"
#include "state/checkpoint_dir.h"
#include "state/file.h"
#include "state/state.h"
#include "state/weights_impl.h"
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A header begins with a brace. Anything else is no such file, and its length means nothing. */
static tg_status check_kind(const char *path, const uint8_t head[TG__WEIGHTS_HEAD + 1])
{
    if (head[TG__WEIGHTS_HEAD] == '{')
        return TG_OK;
    return tg_fail(TG_E_CORRUPT,
                   "%s is not a safetensors file: its header, at byte %u, does not begin with {",
                   path, TG__WEIGHTS_HEAD);
}

/* Allocate memory for the header of a file of len bytes that begins with `head`. */
static tg_status make_room(tg_weights *w, const uint8_t *head, size_t len, size_t *header_p)
{
    const uint64_t header = tg__get64(head), most = len - TG__WEIGHTS_HEAD;
    if (header > TG__MIN(most, (uint64_t)TG__WEIGHTS_HEADER_MAX))
        return tg_fail(TG_E_CORRUPT,
                       "weights %s: header of %" PRIu64 " bytes: allowed: at most %u, and %" PRIu64
                       " in this file",
                       w->path, header, TG__WEIGHTS_HEADER_MAX, most);
    TG_TRY(tg_alloc((size_t)header + 1, 1, &w->text));
    w->data_bytes = most - header;
    *header_p = (size_t)header;
    return TG_OK;
}

static tg_status check_length(const char *path, size_t len)
{
    return len >= TG__WEIGHTS_HEAD + 2
               ? TG_OK
               : tg_fail(TG_E_CORRUPT,
                         "%s is not a safetensors file: it has %zu bytes: allowed: %u and more",
                         path, len, TG__WEIGHTS_HEAD + 2);
}

static tg_status parse(tg_weights *w, const uint8_t *bytes, size_t len)
{
    size_t header;
    TG_TRY(check_length(w->path, len));
    TG_TRY(check_kind(w->path, bytes));
    TG_TRY(make_room(w, bytes, len, &header));
    memcpy(w->text, bytes + TG__WEIGHTS_HEAD, header);
    w->data = bytes + TG__WEIGHTS_HEAD + header;
    return tg__weights_parse_header(w, header);
}

static tg_status parse_header(tg_weights *w, const tg__file *f)
{
    uint8_t head[TG__WEIGHTS_HEAD + 1];
    size_t header;
    TG_TRY(check_length(f->path, f->len));
    TG_TRY(tg__file_get(f, 0, head, sizeof head));
    TG_TRY(check_kind(f->path, head));
    TG_TRY(make_room(w, head, f->len, &header));
    TG_TRY(tg__file_get(f, TG__WEIGHTS_HEAD, w->text, header));
    return tg__weights_parse_header(w, header);
}

/* Before reading the tensors, check that the file is as long as its header says. */
static tg_status check_header(const tg__file *f)
{
    tg_weights *w;
    TG_TRY(tg_alloc(1, sizeof *w, &w));
    w->path = strdup(f->path);
    const tg_status status =
        w->path ? parse_header(w, f) : tg_fail(TG_E_NOMEM, "out of memory: weights %s", f->path);
    tg_weights_close(w);
    return status;
}

tg_status tg__weights_parse(const void *bytes, size_t len, const char *path, tg_weights **w_p)
{
    tg_weights *w;
    TG_TRY(tg_alloc(1, sizeof *w, &w));
    w->path = strdup(path);
    tg_status status =
        w->path ? parse(w, bytes, len) : tg_fail(TG_E_NOMEM, "out of memory: weights %s", path);
    if (status != TG_OK) {
        tg_weights_close(w);
        return status;
    }
    *w_p = w;
    return TG_OK;
}

/* mark NULL: there is nothing to compare the file with. */
static tg_status check_mark(const tg__file *f, const uint8_t *bytes, const tg__weights_mark *mark)
{
    const uint32_t crc = mark ? tg__kernel()->crc32c(0, bytes, f->len) : 0;
    if (mark && crc != mark->crc)
        return tg_fail(TG_E_CORRUPT,
                       "weights %s: CRC-32C %08" PRIx32 ", but %s beside it says %08" PRIx32,
                       f->path, crc, mark->in, mark->crc);
    return TG_OK;
}

static tg_status read_file(const tg__file *f, const tg__weights_mark *mark, tg_weights **w_p)
{
    TG__FREED uint8_t *bytes = NULL;
    if (mark && mark->bytes != f->len)
        return tg_fail(TG_E_CORRUPT, "weights %s: %zu bytes, but %s beside it says %" PRIu64,
                       f->path, f->len, mark->in, mark->bytes);
    if (!mark)
        TG_TRY(check_header(f));
    TG_TRY(tg__file_read(f, &bytes));
    TG_TRY(check_mark(f, bytes, mark));
    TG_TRY(tg__weights_parse(bytes, f->len, f->path, w_p));
    (*w_p)->owned = bytes;
    bytes = NULL; /* it is the weights' */
    return TG_OK;
}

static tg_status open_file(const char *path, const tg__weights_mark *mark, tg_weights **w_p)
{
    tg__file f;
    TG_TRY(tg__file_open(path, "weights", &f));
    const tg_status status = read_file(&f, mark, w_p);
    tg__file_close(&f);
    return status;
}

tg_status tg_weights_open(const char *path, tg_weights **w_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(path, w_p);
    tg__weights_mark mark;
    bool marked;
    TG_TRY(tg__ckpt_mark_beside(path, &mark, &marked));
    return open_file(path, marked ? &mark : NULL, w_p);
}

static tg_status open_which(const char *dir, uint64_t step, tg__weights_which which,
                            tg_weights **w_p)
{
    char path[PATH_MAX];
    tg__weights_mark mark;
    TG_TRY(tg__ckpt_dir_mark(dir, step, which, &mark));
    TG_TRY(tg__ckpt_dir_weights(dir, step, which, path, sizeof path));
    return open_file(path, &mark, w_p);
}

tg_status tg__weights_open_step(const char *dir, uint64_t step, tg_weights **w_p)
{
    return open_which(dir, step, TG__WEIGHTS_SAVED, w_p);
}

tg_status tg_weights_open_saved(const char *dir, tg_weights **w_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(dir, w_p);
    uint64_t step;
    TG_TRY(tg__ckpt_dir_latest(dir, true, &step));
    return tg__ckpt_dir_advise(dir, step, tg__weights_open_step(dir, step, w_p));
}

tg_status tg_weights_open_newest(const char *dir, tg_weights **w_p)
{
    TG__OWN_FLOATS;
    TG__ARGS(dir, w_p);
    uint64_t step;
    TG_TRY(tg__ckpt_dir_latest(dir, true, &step));
    const tg__weights_which which =
        tg__ckpt_dir_has_final(dir, step) ? TG__WEIGHTS_FINAL : TG__WEIGHTS_SAVED;
    return tg__ckpt_dir_advise(dir, step, open_which(dir, step, which, w_p));
}

void tg_weights_close(tg_weights *w)
{
    if (!w)
        return;
    free(w->path);
    free(w->owned);
    free(w->text);
    free(w->entry);
    free(w->pair);
    free(w);
}

const char *tg_weights_path(const tg_weights *w)
{
    return w ? w->path : NULL;
}

const char *tg_weights_metadata(const tg_weights *w, const char *name)
{
    if (!w || !name)
        return NULL;
    const tg__weights_pair *p =
        w->npairs ? bsearch(&name, w->pair, w->npairs, sizeof *p, tg__weights_by_name) : NULL;
    return p ? p->text : NULL;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const tg__weights_entry *find(const tg_weights *w, const char *name)
{
    return w->count ? bsearch(&name, w->entry, w->count, sizeof *w->entry, tg__weights_by_name)
                    : NULL;
}

/* "(5, 5)", in Python's notation. */
static const char *show_shape(const size_t *shape, size_t ndim, char text[256])
{
    size_t at = 0;
    text[at++] = '(';
    for (size_t d = 0; d < ndim; d++)
        at += (size_t)snprintf(text + at, 256 - at, "%s%zu", d ? ", " : "", shape[d]);
    snprintf(text + at, 256 - at, "%s)", ndim == 1 ? "," : "");
    return text;
}

static bool is(const tg__weights_entry *e, const char *type)
{
    return strcmp(e->type->name, type) == 0;
}

static tg_status check(const tg_weights *w, const tg_weights_tensor *t)
{
    if (!t->name || (!t->shape && t->ndim > 0) || t->ndim > 8)
        return tg_fail(TG_E_ARG,
                       "tg_weights_read: tensor \"%s\": ndim=%zu%s: allowed: 0 to 8 dimensions; "
                       "name and shape must be set",
                       t->name ? tg__show(t->name).text : "", t->ndim,
                       !t->name                   ? ", name is NULL"
                       : !t->shape && t->ndim > 0 ? ", shape is NULL"
                                                  : "");
    const tg__weights_entry *e = find(w, t->name);
    if (!e)
        return tg_fail(TG_E_MISMATCH, "weights %s: no tensor \"%s\": it has %zu others%s%s%s",
                       w->path, tg__show(t->name).text, w->count, w->count ? ", such as \"" : "",
                       w->count ? tg__show(w->entry[0].name).text : "", w->count ? "\"" : "");
    char has[256], wants[256];
    if (e->ndim != t->ndim ||
        (t->ndim && memcmp(e->shape, t->shape, t->ndim * sizeof *t->shape) != 0))
        return tg_fail(TG_E_MISMATCH,
                       "weights %s: tensor \"%s\" has shape %s, and %s in this model", w->path,
                       tg__show(t->name).text, show_shape(e->shape, e->ndim, has),
                       show_shape(t->shape, t->ndim, wants));
    if (!t->data && e->n > 0)
        return tg_fail(TG_E_ARG, "tg_weights_read: tensor \"%s\": data is NULL",
                       tg__show(t->name).text);
    if (!is(e, "F32") && !is(e, "F16") && !is(e, "BF16"))
        return tg_fail(TG_E_MISMATCH,
                       "weights %s: tensor \"%s\" has dtype %s: allowed: F32, F16, BF16 (others "
                       "would lose digits)",
                       w->path, tg__show(t->name).text, e->type->name);
    return TG_OK;
}

/* Check that the file has no floating-point tensor that was not requested. */
static tg_status check_others(const tg_weights *w, const tg_weights_tensor *tensors, size_t count)
{
    TG__FREED bool *wanted = NULL;
    TG_TRY(tg_alloc(w->count, sizeof *wanted, &wanted));
    for (size_t i = 0; i < count; i++)
        wanted[find(w, tensors[i].name) - w->entry] = true;
    for (size_t i = 0; i < w->count; i++)
        if (!wanted[i] && w->entry[i].type->fractions)
            return tg_fail(
                TG_E_MISMATCH,
                "weights %s: unexpected tensor \"%s\": this model has no tensor of that name",
                w->path, tg__show(w->entry[i].name).text);
    return TG_OK;
}

tg_status tg_weights_read(const tg_weights *w, const tg_weights_tensor *tensors, size_t count,
                          bool exact)
{
    TG__OWN_FLOATS;
    TG__ARG(w);
    if (count > 0)
        TG__ARG(tensors);
    for (size_t i = 0; i < count; i++)
        TG_TRY(check(w, &tensors[i]));
    if (exact)
        TG_TRY(check_others(w, tensors, count));
    const tg__kernels *k = tg__kernel();
    for (size_t i = 0; i < count; i++) {
        const tg__weights_entry *e = find(w, tensors[i].name);
        if (e->n > 0 && is(e, "F32"))
            memcpy(tensors[i].data, w->data + e->begin, e->n * sizeof(float));
        else if (e->n > 0)
            (is(e, "BF16") ? k->bf16_decode : k->f16_decode)(tensors[i].data, w->data + e->begin,
                                                             e->n);
    }
    return TG_OK;
}

/* The header of a weights file. It is parsed strictly: anything that the format does not define is
 * refused, and every offset is checked against the file's size. */
#include "state/json.h"
#include "state/weights_impl.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const tg__weights_type types[] = {
    {"F32", 4, true},     {"F16", 2, true},     {"BF16", 2, true}, {"F64", 8, true},
    {"F8_E4M3", 1, true}, {"F8_E5M2", 1, true}, {"I64", 8, false}, {"I32", 4, false},
    {"I16", 2, false},    {"I8", 1, false},     {"U64", 8, false}, {"U32", 4, false},
    {"U16", 2, false},    {"U8", 1, false},     {"BOOL", 1, false}};

tg__shown tg__show(const char *name)
{
    tg__shown s;
    size_t len = strnlen(name, 64);
    memcpy(s.text, name, len);
    memcpy(s.text + len, name[len] ? "..." : "", name[len] ? 4 : 1);
    for (size_t i = 0; i < len; i++)
        if ((uint8_t)s.text[i] < ' ' || s.text[i] == 0x7f)
            s.text[i] = '?';
    return s;
}

/* The header is invalid where parsing stopped. */
static tg_status wrong(const tg_weights *w, const tg__json *j)
{
    return tg_fail(TG_E_CORRUPT, "weights %s: byte %zu of the header: %s", w->path,
                   (size_t)(j->p - j->start), j->wrong);
}

/* ---- one tensor ------------------------------------------------------------------------------ */

static tg_status parse_type(const tg_weights *w, tg__json *j, tg__weights_entry *e)
{
    char *name;
    if (!tg__json_string(j, &name))
        return wrong(w, j);
    for (size_t i = 0; i < TG_COUNT(types); i++)
        if (strcmp(types[i].name, name) == 0)
            e->type = &types[i];
    if (e->type)
        return TG_OK;
    return tg_fail(
        TG_E_CORRUPT,
        "weights %s: tensor \"%s\": dtype \"%s\": allowed: F32, F16, BF16, F64, F8_E4M3, "
        "F8_E5M2, I64 to I8, U64 to U8, BOOL",
        w->path, tg__show(e->name).text, tg__show(name).text);
}

static tg_status parse_shape(const tg_weights *w, tg__json *j, tg__weights_entry *e)
{
    uint64_t dim;
    bool zero = false;
    e->n = 1;
    if (!tg__json_take(j, '['))
        return wrong(w, j);
    while (tg__json_peek(j) != ']') {
        if ((e->ndim > 0 && !tg__json_take(j, ',')) || !tg__json_uint(j, &dim))
            return wrong(w, j);
        if (e->ndim == TG__WEIGHTS_DIMS)
            return tg_fail(TG_E_CORRUPT,
                           "weights %s: tensor \"%s\": shape has more than %u "
                           "dimensions: allowed: 0 to %u",
                           w->path, tg__show(e->name).text, TG__WEIGHTS_DIMS, TG__WEIGHTS_DIMS);
        /* With a zero dimension the tensor is empty, but the product before it could still
         * overflow. */
        if (dim > SIZE_MAX / 8 || (dim > 0 && e->n > SIZE_MAX / 8 / dim))
            return tg_fail(TG_E_CORRUPT,
                           "weights %s: tensor \"%s\": shape of more elements than can be counted",
                           w->path, tg__show(e->name).text);
        zero = zero || dim == 0;
        e->n *= dim > 0 ? (size_t)dim : 1;
        e->shape[e->ndim++] = (size_t)dim;
    }
    e->n = zero ? 0 : e->n;
    return tg__json_take(j, ']') ? TG_OK : wrong(w, j);
}

static tg_status parse_offsets(const tg_weights *w, tg__json *j, tg__weights_entry *e)
{
    bool good = tg__json_take(j, '[') && tg__json_uint(j, &e->begin) && tg__json_take(j, ',') &&
                tg__json_uint(j, &e->end) && tg__json_take(j, ']');
    return good ? TG_OK : wrong(w, j);
}

/* Check that the three fields are consistent. */
static tg_status check_extent(const tg_weights *w, const tg__weights_entry *e)
{
    const uint64_t wants = (uint64_t)e->n * e->type->bytes;
    if (e->begin > e->end || e->end > w->data_bytes)
        return tg_fail(TG_E_CORRUPT,
                       "weights %s: tensor \"%s\": data_offsets %" PRIu64 " to %" PRIu64
                       ": allowed: in order, 0 to %" PRIu64,
                       w->path, tg__show(e->name).text, e->begin, e->end, w->data_bytes);
    if (e->end - e->begin != wants)
        return tg_fail(TG_E_CORRUPT,
                       "weights %s: tensor \"%s\": data_offsets %" PRIu64 " to %" PRIu64
                       ": its shape in %s has %" PRIu64 " bytes",
                       w->path, tg__show(e->name).text, e->begin, e->end, e->type->name, wants);
    return TG_OK;
}

typedef tg_status (*parse_field)(const tg_weights *w, tg__json *j, tg__weights_entry *e);

static tg_status parse_tensor(tg_weights *w, tg__json *j, const char *name)
{
    static const char *const fields[] = {"dtype", "shape", "data_offsets"};
    static const parse_field parse[] = {parse_type, parse_shape, parse_offsets};
    tg__weights_entry e = {.name = name};
    unsigned seen = 0;
    if (!tg__json_take(j, '{'))
        return wrong(w, j);
    for (bool first = true; first || tg__json_peek(j) == ','; first = false) {
        char *field;
        size_t f = 0;
        if ((!first && !tg__json_take(j, ',')) || !tg__json_string(j, &field) ||
            !tg__json_take(j, ':'))
            return wrong(w, j);
        while (f < TG_COUNT(fields) && strcmp(fields[f], field) != 0)
            f++;
        if (f == TG_COUNT(fields) || seen >> f & 1)
            return tg_fail(TG_E_CORRUPT,
                           "weights %s: tensor \"%s\": field \"%s\": allowed: dtype, shape, "
                           "data_offsets, once each",
                           w->path, tg__show(name).text, tg__show(field).text);
        seen |= 1u << f;
        TG_TRY(parse[f](w, j, &e));
    }
    if (!tg__json_take(j, '}'))
        return wrong(w, j);
    for (size_t f = 0; f < TG_COUNT(fields); f++)
        if (!(seen >> f & 1))
            return tg_fail(TG_E_CORRUPT, "weights %s: tensor \"%s\" has no %s", w->path,
                           tg__show(name).text, fields[f]);
    TG_TRY(check_extent(w, &e));
    TG_TRY(tg__grow(&w->entry, &w->cap, w->count + 1, sizeof *w->entry, "tensors"));
    w->entry[w->count++] = e;
    return TG_OK;
}

/* ---- the whole header ------------------------------------------------------------------------ */

static tg_status parse_metadata(tg_weights *w, tg__json *j)
{
    if (!tg__json_take(j, '{'))
        return wrong(w, j);
    for (bool first = true; tg__json_peek(j) != '}'; first = false) {
        char *name, *text;
        if ((!first && !tg__json_take(j, ',')) || !tg__json_string(j, &name) ||
            !tg__json_take(j, ':') || !tg__json_string(j, &text))
            return wrong(w, j);
        TG_TRY(tg__grow(&w->pair, &w->pair_cap, w->npairs + 1, sizeof *w->pair, "metadata"));
        w->pair[w->npairs++] = (tg__weights_pair){name, text};
    }
    return tg__json_take(j, '}') ? TG_OK : wrong(w, j);
}

static tg_status parse_members(tg_weights *w, tg__json *j)
{
    bool described = false;
    if (j->p == j->end || *j->p != '{')
        return tg_fail(TG_E_CORRUPT, "weights %s: the header does not begin with {", w->path);
    j->p++;
    for (bool first = true; tg__json_peek(j) != '}'; first = false) {
        char *name;
        if ((!first && !tg__json_take(j, ',')) || !tg__json_string(j, &name) ||
            !tg__json_take(j, ':'))
            return wrong(w, j);
        if (strcmp(name, TG__WEIGHTS_METADATA) != 0) {
            TG_TRY(parse_tensor(w, j, name));
            continue;
        }
        if (described)
            return tg_fail(TG_E_CORRUPT, "weights %s: more than one %s", w->path, name);
        described = true;
        TG_TRY(parse_metadata(w, j));
    }
    if (!tg__json_take(j, '}'))
        return wrong(w, j);
    (void)tg__json_peek(j);
    j->wrong = "something follows the closing bracket";
    return j->p == j->end ? TG_OK : wrong(w, j);
}

int tg__weights_by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_place(const void *a, const void *b)
{
    const tg__weights_entry *x = a, *y = b;
    const int begins = (x->begin > y->begin) - (x->begin < y->begin);
    return begins ? begins : (x->end > y->end) - (x->end < y->end);
}

/* Every byte must belong to exactly one tensor: no holes, no overlaps, nothing after the last. */
static tg_status check_places(tg_weights *w)
{
    uint64_t at = 0;
    if (w->count > 0) /* otherwise there is no array */
        qsort(w->entry, w->count, sizeof *w->entry, by_place);
    for (size_t i = 0; i < w->count; i++) {
        const tg__weights_entry *e = &w->entry[i];
        if (e->begin != at)
            return tg_fail(TG_E_CORRUPT,
                           "weights %s: tensor \"%s\" begins at %" PRIu64
                           ", but what is before it ends at %" PRIu64 ": allowed: no %s",
                           w->path, tg__show(e->name).text, e->begin, at,
                           e->begin > at ? "holes" : "overlaps");
        at = e->end;
    }
    if (at != w->data_bytes)
        return tg_fail(TG_E_CORRUPT,
                       "weights %s: %" PRIu64 " bytes of tensors, but the header ends at %" PRIu64,
                       w->path, w->data_bytes, at);
    return TG_OK;
}

/* array (count): entries or pairs of `size` bytes */
static tg_status sort_names(const tg_weights *w, void *array, size_t count, size_t size)
{
    if (count > 0)
        qsort(array, count, size, tg__weights_by_name);
    for (size_t i = 1; i < count; i++) {
        const void *one = (char *)array + (i - 1) * size, *next = (char *)array + i * size;
        if (tg__weights_by_name(one, next) == 0)
            return tg_fail(TG_E_CORRUPT, "weights %s: the name \"%s\" occurs twice", w->path,
                           tg__show(*(const char *const *)next).text);
    }
    return TG_OK;
}

tg_status tg__weights_parse_header(tg_weights *w, size_t len)
{
    tg__json j = {w->text, w->text, w->text + len, NULL};
    TG_TRY(parse_members(w, &j));
    TG_TRY(check_places(w));
    TG_TRY(sort_names(w, w->entry, w->count, sizeof *w->entry));
    return sort_names(w, w->pair, w->npairs, sizeof *w->pair);
}

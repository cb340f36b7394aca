/* Reading a checkpoint file. Nothing in it is trusted before its CRC agrees, and lengths are
 * compared with the rest of the file before they are used. */
#include "state/checkpoint.h"
#include "base/settings.h"
#include "state/file.h"
#include "state/slots.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct section {
    const char *name; /* (name_len) not zero-terminated */
    size_t name_len;
    const uint8_t *data; /* (len) */
    size_t len;
} section;

struct tg__ckpt_reader {
    char *path;
    uint8_t *owned;   /* the file, unless parsed from the caller's memory */
    section *section; /* (count) sorted by name */
    size_t count, cap;
};

static int compare_names(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, TG__MIN(a_len, b_len));
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int by_name(const void *a, const void *b)
{
    const section *x = a, *y = b;
    return compare_names(x->name, x->name_len, y->name, y->name_len);
}

static const section *find(const tg__ckpt_reader *r, const char *name)
{
    section key = {.name = name, .name_len = strlen(name)};
    return bsearch(&key, r->section, r->count, sizeof key, by_name);
}

/* ---- parsing --------------------------------------------------------------------------------- */

typedef struct cursor {
    const uint8_t *start, *p;
    size_t left;
} cursor;

static tg_status damaged(const tg__ckpt_reader *r, const cursor *c, const char *what)
{
    return tg_fail(TG_E_CORRUPT, "checkpoint %s: section %zu at byte %zu: %s", r->path, r->count,
                   (size_t)(c->p - c->start), what);
}

/* The checksum is wrong. The bytes in the name's place may help the reader of the message, but are
 * not to be trusted. */
static tg_status damaged_section(const tg__ckpt_reader *r, const cursor *c, size_t name_len)
{
    char what[96], name[65] = "";
    for (size_t i = 0; i < TG__MIN(name_len, sizeof name - 1); i++) {
        char letter = (char)c->p[TG__CKPT_HEAD + i];
        name[i] = letter >= ' ' && letter <= '~' ? letter : '?';
    }
    snprintf(what, sizeof what, "checksum of \"%s\" is wrong", name);
    return damaged(r, c, what);
}

static tg_status parse_head(const tg__ckpt_reader *r, cursor *c)
{
    if (c->left < TG__CKPT_HEAD || memcmp(c->p, TG__CKPT_MAGIC, 8) != 0)
        return tg_fail(TG_E_CORRUPT, "%s is not a checkpoint", r->path);
    if (tg__get32(c->p + 12) != tg__kernel()->crc32c(0, c->p, 12))
        return tg_fail(TG_E_CORRUPT, "checkpoint %s: its head is damaged", r->path);
    uint32_t version = tg__get32(c->p + 8);
    if (version != TG__CKPT_VERSION)
        return tg_fail(TG_E_VERSION, "checkpoint %s has version %u: allowed: %u", r->path,
                       (unsigned)version, TG__CKPT_VERSION);
    c->p += TG__CKPT_HEAD;
    c->left -= TG__CKPT_HEAD;
    return TG_OK;
}

static tg_status parse_end(const tg__ckpt_reader *r, const cursor *c)
{
    if (tg__get32(c->p + 12) != tg__kernel()->crc32c(0, c->p, 12) || tg__get64(c->p) != r->count)
        return damaged(r, c, "the end is damaged");
    if (c->left != TG__CKPT_HEAD)
        return damaged(r, c, "bytes follow the end");
    return TG_OK;
}

static tg_status keep(tg__ckpt_reader *r, const section *s)
{
    TG_TRY(tg__grow(&r->section, &r->cap, r->count + 1, sizeof *s, "sections of a checkpoint"));
    r->section[r->count++] = *s;
    return TG_OK;
}

/* Parse one section, or the end. */
static tg_status parse_section(tg__ckpt_reader *r, cursor *c, bool *ended_p)
{
    if (c->left < TG__CKPT_HEAD)
        return damaged(r, c, "the file ends too early");
    uint64_t len = tg__get64(c->p);
    uint32_t name_len = tg__get32(c->p + 8), want = tg__get32(c->p + 12);
    *ended_p = name_len == 0;
    if (name_len == 0)
        return parse_end(r, c);
    size_t left = c->left - TG__CKPT_HEAD;
    size_t name_bytes = name_len + tg__ckpt_pad(name_len);
    if (name_len > TG__CKPT_NAME_MAX || name_bytes > left || len > left - name_bytes ||
        tg__ckpt_pad(len) > left - name_bytes - len)
        return damaged(r, c, "it is longer than the file");
    size_t body = name_bytes + (size_t)len + tg__ckpt_pad(len);
    uint32_t crc = tg__kernel()->crc32c(0, c->p, 12);
    if (tg__kernel()->crc32c(crc, c->p + TG__CKPT_HEAD, body) != want)
        return damaged_section(r, c, name_len);
    const uint8_t *name = c->p + TG__CKPT_HEAD;
    section s = {(const char *)name, name_len, name + name_bytes, (size_t)len};
    bool identity = s.name_len == strlen(TG__CKPT_IDENTITY) &&
                    memcmp(s.name, TG__CKPT_IDENTITY, s.name_len) == 0;
    if (identity != (r->count == 0))
        return damaged(r, c, "the identity comes first, once");
    TG_TRY(keep(r, &s));
    c->p += TG__CKPT_HEAD + body;
    c->left -= TG__CKPT_HEAD + body;
    return TG_OK;
}

static tg_status parse_all(tg__ckpt_reader *r, const void *bytes, size_t len)
{
    cursor c = {bytes, bytes, len};
    TG_TRY(parse_head(r, &c));
    for (bool ended = false; !ended;)
        TG_TRY(parse_section(r, &c, &ended));
    if (r->count == 0)
        return damaged(r, &c, "there is no identity");
    return TG_OK;
}

static tg_status sort_sections(tg__ckpt_reader *r)
{
    qsort(r->section, r->count, sizeof *r->section, by_name);
    for (size_t i = 1; i < r->count; i++)
        if (by_name(&r->section[i - 1], &r->section[i]) == 0)
            return tg_fail(TG_E_CORRUPT, "checkpoint %s: section \"%.*s\" occurs twice", r->path,
                           (int)TG__MIN(r->section[i].name_len, (size_t)64), r->section[i].name);
    return TG_OK;
}

/* Before reading more than the sections' heads, check that their lengths lead to the end of the
 * file. */
static tg_status check_lengths(tg__ckpt_reader *r, const tg__file *f)
{
    uint8_t head[TG__CKPT_HEAD];
    size_t at = TG__CKPT_HEAD;
    for (; f->len >= at && f->len - at >= sizeof head; r->count++) {
        TG_TRY(tg__file_get(f, at, head, sizeof head));
        const uint64_t len = tg__get64(head), name_len = tg__get32(head + 8);
        const uint64_t left = f->len - at - sizeof head;
        const uint64_t body = name_len + tg__ckpt_pad(name_len) + tg__ckpt_pad(len);
        if (name_len == 0)
            return left == 0
                       ? TG_OK
                       : tg_fail(TG_E_CORRUPT, "checkpoint %s: %" PRIu64 " bytes follow its end",
                                 r->path, left);
        if (name_len > TG__CKPT_NAME_MAX || body > left || len > left - body)
            break;
        at += sizeof head + (size_t)(body + len);
    }
    return tg_fail(TG_E_CORRUPT,
                   "checkpoint %s: section %zu at byte %zu: it is longer than the file", r->path,
                   r->count, at);
}

/* ---- identity -------------------------------------------------------------------------------- */

static tg__settings identity_of(const tg__ckpt_reader *r)
{
    const section *s = find(r, TG__CKPT_IDENTITY);
    return (tg__settings){(const char *)s->data, s->len};
}

const char *tg__ckpt_identity_line(const tg__ckpt_reader *r, const char *start, size_t *len_p)
{
    const tg__settings line = tg__settings_find(identity_of(r), start);
    *len_p = line.len;
    return line.text;
}

/* If what differs is only the name of a spec, "key=name", its whole line: with that, the job can be
 * resumed. */
static tg__settings whole_spec(tg__settings identity, const char *differs)
{
    enum { MOST = 400 };
    const size_t len = strlen(differs);
    const tg__settings line = tg__settings_find(identity, differs);
    if (line.len > len && line.len <= MOST && line.text[len] == ':')
        return line;
    return (tg__settings){differs, len};
}

tg_status tg__ckpt_check(const tg__ckpt_reader *r, const char *identity, const char *except)
{
    tg__unlike u;
    const tg__settings job = {identity, strlen(identity)};
    if (!tg__settings_differ(identity_of(r), job, except, &u))
        return TG_OK;
    if (!u.has[0])
        return tg_fail(TG_E_MISMATCH,
                       "checkpoint %s is of another job: this job has \"%s\", which it was not "
                       "saved with",
                       r->path, u.text[1]);
    const tg__settings saved = whole_spec(identity_of(r), u.text[0]);
    return tg_fail(TG_E_MISMATCH,
                   "checkpoint %s is of another job: it was saved with \"%.*s\", %s%s%s", r->path,
                   (int)saved.len, saved.text,
                   u.has[1] ? "this job has \"" : "which this job does not have",
                   u.has[1] ? u.text[1] : "", u.has[1] ? "\"" : "");
}

/* ---- public functions ------------------------------------------------------------------------ */

tg_status tg__ckpt_parse(const void *bytes, size_t len, const char *path, const char *identity,
                         tg__ckpt_reader **r_p)
{
    tg__ckpt_reader *r;
    TG_TRY(tg_alloc(1, sizeof *r, &r));
    r->path = strdup(path);
    tg_status status = r->path ? parse_all(r, bytes, len)
                               : tg_fail(TG_E_NOMEM, "out of memory: checkpoint %s", path);
    if (status == TG_OK)
        status = sort_sections(r);
    if (status == TG_OK && identity)
        status = tg__ckpt_check(r, identity, NULL);
    if (status == TG_OK)
        *r_p = r;
    else
        tg__ckpt_close(r);
    return status;
}

static tg_status read_file(const tg__file *f, const char *identity, tg__ckpt_reader **r_p)
{
    TG__FREED uint8_t *bytes = NULL;
    uint8_t magic[TG__CKPT_HEAD] = {0};
    tg__ckpt_reader lengths = {.path = (char *)(uintptr_t)f->path};
    cursor head = {magic, magic, TG__MIN(f->len, sizeof magic)};
    TG_TRY(tg__file_get(f, 0, magic, head.left));
    TG_TRY(parse_head(&lengths, &head));
    TG_TRY(check_lengths(&lengths, f));
    TG_TRY(tg__file_read(f, &bytes));
    TG_TRY(tg__ckpt_parse(bytes, f->len, f->path, identity, r_p));
    (*r_p)->owned = bytes;
    bytes = NULL; /* it is the reader's */
    return TG_OK;
}

tg_status tg__ckpt_open(const char *path, const char *identity, tg__ckpt_reader **r_p)
{
    tg__file f;
    TG_TRY(tg__file_open(path, "checkpoint", &f));
    const tg_status status = read_file(&f, identity, r_p);
    tg__file_close(&f);
    return status;
}

bool tg__ckpt_has(const tg__ckpt_reader *r, const char *name)
{
    return find(r, name) != NULL;
}

tg_status tg__ckpt_get(tg__ckpt_reader *r, const char *name, size_t len, const void **bytes_p,
                       size_t *len_p)
{
    const section *s = find(r, name);
    if (!s)
        return tg_fail(TG_E_CORRUPT, "checkpoint %s has no section \"%.64s\"", r->path, name);
    if (len != SIZE_MAX && s->len != len)
        return tg_fail(TG_E_CORRUPT, "checkpoint %s: section \"%.64s\" has %zu bytes: allowed: %zu",
                       r->path, name, s->len, len);
    *bytes_p = s->data;
    if (len_p)
        *len_p = s->len;
    return TG_OK;
}

tg_status tg__ckpt_read(tg__ckpt_reader *r, const char *name, void *dst, size_t len)
{
    const void *bytes = NULL;
    TG_TRY(tg__ckpt_get(r, name, len, &bytes, NULL));
    memcpy(dst, bytes, len);
    return TG_OK;
}

static size_t count_slots(const tg__ckpt_reader *r)
{
    const size_t prefix = strlen(TG__SLOT_PREFIX);
    size_t count = 0;
    for (size_t i = 0; i < r->count; i++)
        if (r->section[i].name_len >= prefix &&
            memcmp(r->section[i].name, TG__SLOT_PREFIX, prefix) == 0)
            count++;
    return count;
}

tg_status tg__ckpt_get_state(tg__ckpt_reader *r, tg__state *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const section *from = find(r, s->slot[i].key);
        if (!from || from->len != s->slot[i].len)
            return tg_fail(TG_E_MISMATCH,
                           "checkpoint %s: %.200s has %zu bytes, and %zu in this job", r->path,
                           s->slot[i].key, from ? from->len : 0, s->slot[i].len);
    }
    if (count_slots(r) != s->count)
        return tg_fail(TG_E_MISMATCH, "checkpoint %s has %zu slots, this job has %zu", r->path,
                       count_slots(r), s->count);
    for (size_t i = 0; i < s->count; i++)
        memcpy(s->slot[i].data, find(r, s->slot[i].key)->data, s->slot[i].len);
    return TG_OK;
}

void tg__ckpt_close(tg__ckpt_reader *r)
{
    if (!r)
        return;
    free(r->path);
    free(r->owned);
    free(r->section);
    free(r);
}

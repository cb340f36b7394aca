#include "server/tensors.h"
#include "base/mem.h"
#include "base/printable.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- comparing ------------------------------------------------------------------------------- */

/* The first line, without its newline. */
static tg__settings line(tg__settings s)
{
    const char *end = s.len > 0 ? memchr(s.text, '\n', s.len) : NULL;
    return (tg__settings){s.text, end == NULL ? s.len : (size_t)(end - s.text)};
}

static tg__settings after(tg__settings s)
{
    const size_t len = TG__MIN(line(s).len + 1, s.len);
    return (tg__settings){s.text + len, s.len - len};
}

static bool equal(tg__settings a, tg__settings b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.text, b.text, a.len) == 0);
}

/* The name and shape in the line "bucket name shape". */
static tg__settings name_and_shape(tg__settings s)
{
    const char *space = s.len > 0 ? memchr(s.text, ' ', s.len) : NULL;
    const size_t skip = space == NULL ? 0 : (size_t)(space + 1 - s.text);
    return (tg__settings){s.text + skip, s.len - skip};
}

#define BUCKET " in bucket "

/* Of a long one, the beginning and the end. */
static void show(tg__settings s, bool bucket, char *text, size_t room)
{
    enum { HEAD = 100, DOTS = 3, REST = 32 };
    const tg__settings what = name_and_shape(s);
    const size_t most = room - REST, tail = what.len <= most ? 0 : most - HEAD - DOTS;
    const int head = (int)(tail == 0 ? what.len : (size_t)HEAD);
    const int digits = (int)TG__MIN(s.len - what.len, (size_t)8);
    if (s.len == 0)
        snprintf(text, room, "none");
    else
        snprintf(text, room, "%.*s%s%.*s%s%.*s", head, what.text, tail > 0 ? "..." : "", (int)tail,
                 what.text + what.len - tail, bucket ? BUCKET : "", bucket ? digits : 0, s.text);
    while (*text != '\0' && text[strlen(text) - 1] == ' ')
        text[strlen(text) - 1] = '\0';
    tg__make_printable(text);
}

static bool is_rest(tg__settings s)
{
    const size_t len = sizeof TG__STAR_TENSORS_REST - 1;
    return s.len > len && memcmp(s.text, TG__STAR_TENSORS_REST, len) == 0;
}

bool tg__tensors_differ(tg__settings a, tg__settings b, tg__tensors_unlike *u)
{
    size_t number = 1;
    for (; a.len > 0 && b.len > 0 && equal(line(a), line(b)); number++) {
        a = after(a);
        b = after(b);
    }
    if (a.len == 0 && b.len == 0)
        return false;
    const tg__settings one = line(a), two = line(b);
    const bool same = equal(name_and_shape(one), name_and_shape(two)); /* but not the bucket */
    u->number = is_rest(one) && is_rest(two) ? 0 : number;
    show(one, same, u->text[0], sizeof u->text[0]);
    show(two, same, u->text[1], sizeof u->text[1]);
    return true;
}

enum { MODELS_MOST = 64 }; /* each worker's session has one */

/* ---- keeping --------------------------------------------------------------------------------- */

tg__settings tg__tensors_of(const tg_server *s, uint16_t channel)
{
    const tg__tensors *t = s->tensors;
    while (t != NULL && t->channel != channel)
        t = t->next;
    return t == NULL ? (tg__settings){NULL, 0} : (tg__settings){t->text, t->len};
}

static tg_status add(tg_server *s, uint16_t channel, const char *text, size_t len)
{
    tg__tensors *t;
    if (tg__tensors_of(s, channel).len > 0)
        return TG_OK;
    TG_TRY(tg_alloc(1, sizeof *t + len, &t));
    t->next = s->tensors;
    t->channel = channel;
    t->len = len;
    memcpy(t->text, text, len);
    s->tensors = t;
    return TG_OK;
}

void tg__tensors_forget(tg_server *s)
{
    while (s->tensors != NULL) {
        tg__tensors *t = s->tensors;
        s->tensors = t->next;
        free(t);
    }
}

static tg_status compare(tg__settings known, tg__settings told)
{
    tg__tensors_unlike u;
    if (!tg__tensors_differ(known, told, &u))
        return TG_OK;
    if (u.number == 0)
        return tg_fail(TG_E_MISMATCH,
                       "it trains another model: names or shapes of its tensors differ from those "
                       "that the server has, beyond the first %u bytes of the list: a server keeps "
                       "the parameters of one model (the first worker's, or its journal's)",
                       TG__STAR_TENSORS_MOST);
    if (strstr(u.text[1], BUCKET) != NULL)
        return tg_fail(TG_E_MISMATCH,
                       "its tensors are in other buckets: its tensor %zu is %s, the server has %s: "
                       "a server keeps the parameters in buckets by the --fusion and --rule "
                       "(bucket_bytes and rules) of the first worker",
                       u.number, u.text[1], u.text[0]);
    return tg_fail(TG_E_MISMATCH,
                   "it trains another model: its tensor %zu is %s, the server has %s: a server "
                   "keeps the parameters of one model (the first worker's, or its journal's)",
                   u.number, u.text[1], u.text[0]);
}

tg_status tg__tensors_check(const tg_server *s, tg__gathering *g, const uint8_t *payload,
                            size_t len)
{
    tg__star_texts told;
    size_t frame_len, count = 0;
    if (g->star.combine != &tg__combine_parameters)
        return TG_OK;
    TG_TRY(tg__star_frame(payload, len, &g->star, &frame_len, &told));
    if (told.tensors.len == 0)
        return tg_fail(TG_E_CORRUPT, "parameters came without what their tensors are");
    const tg__settings known = tg__tensors_of(s, g->id.channel);
    if (known.len > 0)
        return compare(known, told.tensors);
    for (const tg__tensors *t = s->tensors; t != NULL; t = t->next)
        count++;
    if (count >= MODELS_MOST)
        return tg_fail(TG_E_CORRUPT, "it has more than %d models", MODELS_MOST);
    TG_TRY(tg_alloc(told.tensors.len, 1, &g->tensors));
    memcpy(g->tensors, told.tensors.text, told.tensors.len);
    return TG_OK;
}

tg_status tg__tensors_keep(tg_server *s, const tg__gathering *g)
{
    return g->tensors == NULL ? TG_OK : add(s, g->id.channel, g->tensors, g->star.tensors);
}

/* ---- snapshots ------------------------------------------------------------------------------- */

static const char *section(char text[64], uint16_t channel)
{
    snprintf(text, 64, "tensors %u", channel);
    return text;
}

tg_status tg__tensors_put(const tg_server *s, tg__ckpt_writer *w)
{
    char name[64];
    for (const tg__tensors *t = s->tensors; t != NULL; t = t->next)
        TG_TRY(tg__ckpt_put(w, section(name, t->channel), t->text, t->len));
    return TG_OK;
}

tg_status tg__tensors_get(tg_server *s, tg__ckpt_reader *c, uint16_t channel)
{
    const void *text;
    char name[64];
    size_t len;
    TG_TRY(tg__ckpt_get(c, section(name, channel), SIZE_MAX, &text, &len));
    if (len == 0 || len > TG__STAR_TENSORS_MOST)
        return tg_fail(TG_E_CORRUPT, "snapshot: %s takes %zu bytes", name, len);
    return add(s, channel, text, len);
}

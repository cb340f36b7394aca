#include "server/kept.h"
#include "base/mem.h"
#include "exchange/message.h"
#include "state/checkpoint.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The section "pieces": of each, what is named here. Section "piece 3" has the lengths of the runs
 * of piece 3 (4 each), then its words. */
enum { BUCKET, KIND, NUMBER, BEGIN, ELEMENTS, WIDTH, RUNS, ENTRY };

enum { WIDTH_MOST = 16 };

static const char *section(char text[64], size_t i)
{
    snprintf(text, 64, "piece %zu", i);
    return text;
}

/* ---- writing --------------------------------------------------------------------------------- */

tg_status tg__kept_begin(tg__kept_writer *w, uint16_t channel, const char *identity)
{
    *w = (tg__kept_writer){.channel = channel};
    return tg__ckpt_create(NULL, identity, &w->file);
}

static tg_status put_words(tg__kept_writer *w, const tg__piece *p)
{
    const size_t runs = p->runs * sizeof *p->run,
                 words = (p->runs == 0 ? p->n : p->runs) * p->width * sizeof(uint32_t);
    TG__FREED uint8_t *both = NULL;
    char name[64];
    section(name, w->count);
    if (runs == 0)
        return tg__ckpt_put(w->file, name, p->words, words);
    TG_TRY(tg_alloc(runs + words, 1, &both));
    memcpy(both, p->run, runs);
    memcpy(both + runs, p->words, words);
    return tg__ckpt_put(w->file, name, both, runs + words);
}

tg_status tg__kept_put(tg__kept_writer *w, const tg__piece *p)
{
    if (p->n == 0 || p->key.channel != w->channel)
        return TG_OK;
    TG_TRY(tg__grow(&w->table, &w->table_cap, (w->count + 1) * ENTRY, sizeof *w->table,
                    "the state of a server"));
    const uint64_t entry[ENTRY] = {p->key.bucket, p->key.kind, p->key.number, p->begin,
                                   p->n,          p->width,    p->runs};
    memcpy(w->table + w->count * ENTRY, entry, sizeof entry);
    TG_TRY(put_words(w, p));
    w->count++;
    return TG_OK;
}

tg_status tg__kept_end(tg__kept_writer *w, void **bytes_p, size_t *len_p)
{
    const tg_status status =
        tg__ckpt_put(w->file, "pieces", w->table, w->count * ENTRY * sizeof *w->table);
    if (status != TG_OK) {
        tg__kept_abandon(w);
        return status;
    }
    free(w->table);
    w->table = NULL;
    return tg__ckpt_commit_memory(w->file, bytes_p, len_p);
}

void tg__kept_abandon(tg__kept_writer *w)
{
    tg__ckpt_abandon(w->file);
    free(w->table);
    *w = (tg__kept_writer){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct tg__kept_piece {
    struct tg__kept_piece *next;
    tg__piece p;
    size_t left; /* elements that are not taken yet */
    uint32_t memory[];
} tg__kept_piece;

static bool is_of(const tg__piece *p, tg__kept_key key)
{
    return p->key.channel == key.channel && p->key.bucket == key.bucket &&
           p->key.kind == key.kind && p->key.number == key.number;
}

/* The runs make up the elements. */
static bool covers(const uint32_t *run, size_t runs, uint64_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < runs; i++)
        sum += run[i];
    return sum == n;
}

static tg_status add_piece(tg__kept *k, tg__ckpt_reader *r, size_t i, const uint64_t entry[ENTRY],
                           uint16_t channel)
{
    const bool alone = entry[RUNS] == 0;
    tg__kept_piece *piece;
    const void *bytes;
    char name[64];
    if (entry[BUCKET] > UINT16_MAX || entry[KIND] >= TG__KEPT_KINDS || entry[NUMBER] > UINT16_MAX ||
        entry[BEGIN] > TG_MAX_ELEMENTS || entry[ELEMENTS] > TG_MAX_ELEMENTS - entry[BEGIN] ||
        entry[WIDTH] < 1 || entry[WIDTH] > (alone ? 1 : WIDTH_MOST) || entry[RUNS] > UINT32_MAX)
        return tg_fail(TG_E_CORRUPT, "the state of a server: piece %zu is malformed", i);
    const size_t runs = (size_t)entry[RUNS], width = (size_t)entry[WIDTH],
                 words = runs + (alone ? (size_t)entry[ELEMENTS] : runs) * width;
    TG_TRY(tg__ckpt_get(r, section(name, i), words * sizeof(uint32_t), &bytes, NULL));
    if (!alone && !covers(bytes, runs, entry[ELEMENTS]))
        return tg_fail(TG_E_CORRUPT,
                       "the state of a server: piece %zu has other runs than "
                       "elements",
                       i);
    TG_TRY(tg_alloc(sizeof *piece + words * sizeof(uint32_t), 1, &piece));
    memcpy(piece->memory, bytes, words * sizeof(uint32_t));
    piece->left = (size_t)entry[ELEMENTS];
    piece->p = (tg__piece){.key = {.channel = channel,
                                   .bucket = (uint16_t)entry[BUCKET],
                                   .kind = (uint16_t)entry[KIND],
                                   .number = (uint16_t)entry[NUMBER]},
                           .begin = entry[BEGIN],
                           .n = (size_t)entry[ELEMENTS],
                           .width = width,
                           .runs = runs,
                           .run = piece->memory,
                           .words = piece->memory + runs};
    piece->next = k->first;
    k->first = piece;
    return TG_OK;
}

static tg_status add_all(tg__kept *k, tg__ckpt_reader *r, uint16_t channel)
{
    const void *table;
    size_t len;
    TG_TRY(tg__ckpt_get(r, "pieces", SIZE_MAX, &table, &len));
    const size_t each = ENTRY * sizeof(uint64_t);
    if (len % each != 0)
        return tg_fail(TG_E_CORRUPT, "the state of a server: its pieces take %zu bytes", len);
    for (size_t i = 0; i < len / each; i++) {
        uint64_t entry[ENTRY];
        memcpy(entry, (const uint8_t *)table + i * each, each);
        TG_TRY(add_piece(k, r, i, entry, channel));
    }
    return TG_OK;
}

tg_status tg__kept_add(tg__kept *k, const void *bytes, size_t len, uint16_t channel,
                       const char *identity)
{
    tg__ckpt_reader *r;
    TG_TRY(tg__ckpt_parse(bytes, len, "of a server", identity, &r));
    const tg_status status = add_all(k, r, channel);
    tg__ckpt_close(r);
    return status;
}

/* Elements that [begin, begin + n) has in common with [lo, hi). */
static size_t common(const tg__piece *p, uint64_t lo, uint64_t hi)
{
    const uint64_t from = TG__MAX(p->begin, lo), to = TG__MIN(p->begin + p->n, hi);
    return to > from ? (size_t)(to - from) : 0;
}

/* Elements of the whole vector: all servers' pieces of it are here. */
static size_t whole(const tg__kept *k, tg__kept_key key)
{
    uint64_t end = 0;
    for (const tg__kept_piece *p = k->first; p != NULL; p = p->next)
        if (is_of(&p->p, key))
            end = TG__MAX(end, p->p.begin + p->p.n);
    return (size_t)end;
}

void tg__kept_cut(tg__kept *k, uint16_t channel, int index, int servers)
{
    for (tg__kept_piece *p = k->first; p != NULL; p = p->next) {
        if (p->p.key.channel != channel)
            continue;
        const size_t n = whole(k, p->p.key), lo = tg__block_begin(n, servers, index);
        p->left = common(&p->p, lo, lo + tg__block_len(n, servers, index));
    }
    for (tg__kept_piece **link = &k->first; *link != NULL;) {
        tg__kept_piece *p = *link;
        if (p->left > 0) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        free(p);
    }
}

bool tg__kept_any(const tg__kept *k, uint16_t channel)
{
    const tg__kept_piece *p = k->first;
    while (p != NULL && p->p.key.channel != channel)
        p = p->next;
    return p != NULL;
}

bool tg__kept_waits(const tg__kept *k, tg__kept_key key, enum tg__kept_kind kind)
{
    const tg__kept_piece *p = k->first;
    key.kind = (uint16_t)kind;
    while (p != NULL && !(is_of(&p->p, key) && p->p.runs == 0))
        p = p->next;
    return p != NULL;
}

const tg__piece *tg__kept_next(const tg__kept *k, const tg__piece *before)
{
    const tg__kept_piece *p = k->first;
    while (before != NULL && p != NULL && &p->p != before)
        p = p->next;
    if (before != NULL && p != NULL)
        p = p->next;
    return p != NULL ? &p->p : NULL;
}

static bool is_just(const tg__piece *p, tg__kept_key key, uint64_t begin, size_t n)
{
    return is_of(p, key) && p->runs == 0 && p->begin == begin && p->n == n;
}

bool tg__kept_take(tg__kept *k, tg__kept_key key, uint64_t begin, size_t n, float *dst)
{
    bool any = false, just = false;
    for (const tg__kept_piece *p = k->first; p != NULL && !just; p = p->next)
        just = is_just(&p->p, key, begin, n);
    for (tg__kept_piece **link = &k->first; *link != NULL;) {
        tg__kept_piece *p = *link;
        const bool takes =
            just ? is_just(&p->p, key, begin, n) : is_of(&p->p, key) && p->p.runs == 0;
        const size_t count = takes ? common(&p->p, begin, begin + n) : 0;
        if (count > 0) {
            const uint64_t from = TG__MAX(p->p.begin, begin);
            memcpy(dst + (from - begin), p->memory + (from - p->p.begin), count * sizeof *dst);
            p->left -= TG__MIN(p->left, count);
            any = true;
        }
        if (count == 0 || p->left > 0) {
            link = &p->next;
            continue;
        }
        *link = p->next;
        free(p);
    }
    return any;
}

const uint32_t *tg__kept_at(const tg__kept *k, tg__kept_key key, uint64_t at, size_t width)
{
    const tg__kept_piece *p = k->first;
    while (p != NULL && !(is_of(&p->p, key) && p->p.runs > 0 && p->p.width == width &&
                          common(&p->p, at, at + 1) > 0))
        p = p->next;
    if (p == NULL)
        return NULL;
    uint64_t end = p->p.begin;
    for (size_t i = 0; i < p->p.runs; i++) {
        end += p->p.run[i];
        if (at < end)
            return p->memory + p->p.runs + i * width;
    }
    return NULL;
}

void tg__kept_free(tg__kept *k)
{
    while (k->first != NULL) {
        tg__kept_piece *p = k->first;
        k->first = p->next;
        free(p);
    }
}

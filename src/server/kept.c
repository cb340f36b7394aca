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
    tg__piece p;      /* first, so that its address is this one's */
    size_t left;      /* elements that are not taken yet */
    size_t number;    /* counts what has been added */
    uint32_t *memory; /* NULL: all are taken */
} tg__kept_piece;

/* Keys in their order. */
static uint64_t order(tg__kept_key key)
{
    return (uint64_t)key.channel << 48 | (uint64_t)key.bucket << 32 | (uint64_t)key.kind << 16 |
           key.number;
}

static int by_key(const void *a, const void *b)
{
    const tg__kept_piece *x = a, *y = b;
    const uint64_t one = order(x->p.key), other = order(y->p.key);
    return one != other ? (one > other) - (one < other)
                        : (x->number < y->number) - (x->number > y->number);
}

/* The first piece whose key is this one, or a later one. */
static size_t first_of(const tg__kept *k, tg__kept_key key)
{
    size_t lo = 0, hi = k->count;
    while (lo < hi) {
        const size_t at = lo + (hi - lo) / 2;
        if (order(k->piece[at].p.key) < order(key))
            lo = at + 1;
        else
            hi = at;
    }
    return lo;
}

/* From the i-th on, the next piece that is there; `count`: none. */
static size_t next_there(const tg__kept *k, size_t i)
{
    while (i < k->count && k->piece[i].memory == NULL)
        i++;
    return i;
}

/* The i-th piece; NULL: the pieces of this key have ended. */
static tg__kept_piece *piece_of(const tg__kept *k, tg__kept_key key, size_t i)
{
    return i < k->count && order(k->piece[i].p.key) == order(key) ? &k->piece[i] : NULL;
}

static void drop(tg__kept_piece *p)
{
    free(p->memory);
    p->memory = NULL;
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
    uint32_t *memory;
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
    TG_TRY(tg__grow(&k->piece, &k->cap, k->count + 1, sizeof *k->piece, "the state of a server"));
    TG_TRY(tg_alloc(words, sizeof *memory, &memory));
    memcpy(memory, bytes, words * sizeof *memory);
    k->piece[k->count] = (tg__kept_piece){.p = {.key = {.channel = channel,
                                                        .bucket = (uint16_t)entry[BUCKET],
                                                        .kind = (uint16_t)entry[KIND],
                                                        .number = (uint16_t)entry[NUMBER]},
                                                .begin = entry[BEGIN],
                                                .n = (size_t)entry[ELEMENTS],
                                                .width = width,
                                                .runs = runs,
                                                .run = memory,
                                                .words = memory + runs},
                                          .left = (size_t)entry[ELEMENTS],
                                          .number = k->count,
                                          .memory = memory};
    k->count++;
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

static void forget_taken(tg__kept *k)
{
    size_t left = 0;
    for (size_t i = 0; i < k->count; i++)
        if (k->piece[i].memory != NULL)
            k->piece[left++] = k->piece[i];
    k->count = left;
}

tg_status tg__kept_add(tg__kept *k, const void *bytes, size_t len, uint16_t channel,
                       const char *identity)
{
    tg__ckpt_reader *r;
    forget_taken(k);
    TG_TRY(tg__ckpt_parse(bytes, len, "of a server", identity, &r));
    const tg_status status = add_all(k, r, channel);
    if (k->count > 0)
        qsort(k->piece, k->count, sizeof *k->piece, by_key);
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
static size_t whole(const tg__kept *k, size_t i)
{
    uint64_t end = 0;
    const tg__kept_key key = k->piece[i].p.key;
    for (const tg__kept_piece *p; (p = piece_of(k, key, i)) != NULL; i++)
        if (p->memory != NULL)
            end = TG__MAX(end, p->p.begin + p->p.n);
    return (size_t)end;
}

void tg__kept_cut(tg__kept *k, uint16_t channel, int index, int servers)
{
    const tg__kept_key first = {.channel = channel};
    size_t n = 0, begin = first_of(k, first);
    for (size_t i = begin; i < k->count && k->piece[i].p.key.channel == channel; i++) {
        tg__kept_piece *p = &k->piece[i];
        if (i == begin || order(p->p.key) != order(p[-1].p.key))
            n = whole(k, i);
        const size_t lo = tg__block_begin(n, servers, index);
        p->left = common(&p->p, lo, lo + tg__block_len(n, servers, index));
        if (p->left == 0)
            drop(p);
    }
}

bool tg__kept_any(const tg__kept *k, uint16_t channel)
{
    const size_t i = next_there(k, first_of(k, (tg__kept_key){.channel = channel}));
    return i < k->count && k->piece[i].p.key.channel == channel;
}

bool tg__kept_waits(const tg__kept *k, tg__kept_key key, enum tg__kept_kind kind)
{
    const tg__kept_piece *p;
    key.kind = (uint16_t)kind;
    size_t i = first_of(k, key);
    while ((p = piece_of(k, key, i)) != NULL && (p->memory == NULL || p->p.runs > 0))
        i++;
    return p != NULL;
}

const tg__piece *tg__kept_next(const tg__kept *k, const tg__piece *before)
{
    const size_t i = before == NULL ? 0 : (size_t)((const tg__kept_piece *)before - k->piece) + 1;
    const size_t next = next_there(k, i);
    return next < k->count ? &k->piece[next].p : NULL;
}

bool tg__kept_take(tg__kept *k, tg__kept_key key, uint64_t begin, size_t n, float *dst)
{
    const size_t first = first_of(k, key);
    bool any = false, just = false;
    tg__kept_piece *p;
    for (size_t i = first; !just && (p = piece_of(k, key, i)) != NULL; i++)
        just = p->memory != NULL && p->p.runs == 0 && p->p.begin == begin && p->p.n == n;
    for (size_t i = first; (p = piece_of(k, key, i)) != NULL; i++) {
        const bool takes =
            p->memory != NULL && p->p.runs == 0 && (!just || (p->p.begin == begin && p->p.n == n));
        const size_t count = takes ? common(&p->p, begin, begin + n) : 0;
        if (count == 0)
            continue;
        const uint64_t from = TG__MAX(p->p.begin, begin);
        memcpy(dst + (from - begin), p->memory + (from - p->p.begin), count * sizeof *dst);
        p->left -= TG__MIN(p->left, count);
        if (p->left == 0)
            drop(p);
        any = true;
    }
    return any;
}

const uint32_t *tg__kept_at(const tg__kept *k, tg__kept_key key, uint64_t at, size_t width)
{
    const tg__kept_piece *p;
    size_t i = first_of(k, key);
    while ((p = piece_of(k, key, i)) != NULL &&
           !(p->memory != NULL && p->p.runs > 0 && p->p.width == width &&
             common(&p->p, at, at + 1) > 0))
        i++;
    if (p == NULL)
        return NULL;
    uint64_t end = p->p.begin;
    for (size_t run = 0; run < p->p.runs; run++) {
        end += p->p.run[run];
        if (at < end)
            return p->memory + p->p.runs + run * width;
    }
    return NULL;
}

void tg__kept_free(tg__kept *k)
{
    for (size_t i = 0; i < k->count; i++)
        drop(&k->piece[i]);
    free(k->piece);
    *k = (tg__kept){0};
}

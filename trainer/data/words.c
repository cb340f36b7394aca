/* WikiText's layout: a text each for training, validation and testing; words are separated by
 * blanks, and every end of line is a word <eos>. */
#include "trainer/data/data.h"
#include "trainer/data/packed.h"
#include "telegrad/tools.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define WORDS_MAX ((size_t)1 << 30) /* bytes in a file */

/* ---- vocabulary ------------------------------------------------------------------------------ */

typedef struct word {
    const char *at; /* points into the text, which lives as long */
    size_t len;
} word;

/* A hash table with open addressing: slot[i] is the number of a word + 1, or 0. */
typedef struct vocabulary {
    word *words;
    size_t count, room; /* numbers of words; there are twice as many slots */
    int32_t *slot;
} vocabulary;

static size_t find_slot(const vocabulary *v, const char *at, size_t len)
{
    size_t i = (size_t)tg_hash(TG_HASH_START, at, len) & (2 * v->room - 1);
    while (v->slot[i]) {
        const word *w = &v->words[v->slot[i] - 1];
        if (w->len == len && memcmp(w->at, at, len) == 0)
            break;
        i = (i + 1) & (2 * v->room - 1);
    }
    return i;
}

static tg_status double_room(vocabulary *v)
{
    vocabulary wide = {.count = v->count, .room = v->room ? 2 * v->room : 1024};
    tg_status status = tg_alloc(wide.room, sizeof *wide.words, &wide.words);
    if (status == TG_OK)
        status = tg_alloc(2 * wide.room, sizeof *wide.slot, &wide.slot);
    if (status != TG_OK) {
        free(wide.words);
        return status;
    }
    for (size_t i = 0; i < v->count; i++) {
        wide.words[i] = v->words[i];
        wide.slot[find_slot(&wide, v->words[i].at, v->words[i].len)] = (int32_t)i + 1;
    }
    free(v->words);
    free(v->slot);
    *v = wide;
    return TG_OK;
}

/* The word's number, or -1. */
static int32_t look_up(const vocabulary *v, const char *at, size_t len)
{
    return v->slot[find_slot(v, at, len)] - 1;
}

static tg_status look_up_or_add(vocabulary *v, const char *at, size_t len, int32_t *number_p)
{
    if (v->count == v->room)
        TG_TRY(double_room(v));
    const size_t slot = find_slot(v, at, len);
    if (!v->slot[slot]) {
        v->words[v->count++] = (word){at, len};
        v->slot[slot] = (int32_t)v->count;
    }
    *number_p = v->slot[slot] - 1;
    return TG_OK;
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char eos[] = "<eos>", unk[] = "<unk>";

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

/* Find the next word at or after *p: a run of non-blanks, or <eos> for an end of line. Returns
 * false if none is left before `end`. */
static bool next_word(const char **p, const char *end, word *w)
{
    const char *at = *p;
    while (at < end && is_blank(*at))
        at++;
    *p = at;
    if (at == end)
        return false;
    if (*at == '\n') {
        *p = at + 1;
        *w = (word){eos, sizeof eos - 1};
        return true;
    }
    while (at < end && !is_blank(*at) && *at != '\n')
        at++;
    *w = (word){*p, (size_t)(at - *p)};
    *p = at;
    return true;
}

/* Count the words. If the text ends without a newline, its last line still has an <eos>. */
static size_t count_words(const char *text, size_t len)
{
    const char *p = text;
    word w;
    size_t count = 0;
    while (next_word(&p, text + len, &w))
        count++;
    return count + (len > 0 && text[len - 1] != '\n');
}

static tg_status number_of(vocabulary *v, bool grows, const char *path, size_t line, const word *w,
                           int32_t *number_p)
{
    if (grows)
        return look_up_or_add(v, w->at, w->len, number_p);
    *number_p = look_up(v, w->at, w->len);
    if (*number_p < 0)
        *number_p = look_up(v, unk, sizeof unk - 1);
    if (*number_p < 0)
        return tg_fail(TG_E_CORRUPT,
                       "%s: line %zu: \"%.*s\" is not in the training text: allowed: its words, or "
                       "any if <unk> is one of them",
                       path, line, (int)(w->len < 64 ? w->len : 64), w->at);
    return TG_OK;
}

/* Replace the words of a text by numbers in part. grows: new words are added to v. */
static tg_status tokenize(const char *path, const char *text, size_t len, bool grows, vocabulary *v,
                          data_part *part)
{
    const size_t count = count_words(text, len);
    if (count < 2 || count > INT32_MAX - 1)
        return tg_fail(TG_E_CORRUPT, "%s: %zu words and line ends: allowed: 2 to %d", path, count,
                       INT32_MAX - 1);
    TG_TRY(tg_alloc(count, sizeof *part->tokens, &part->tokens));
    const char *p = text;
    size_t line = 1;
    word w;
    while (next_word(&p, text + len, &w)) {
        TG_TRY(number_of(v, grows, path, line, &w, &part->tokens[part->count++]));
        line += w.at == eos;
    }
    const word last = {eos, sizeof eos - 1};
    if (part->count < count)
        TG_TRY(number_of(v, grows, path, line, &last, &part->tokens[part->count++]));
    return TG_OK;
}

tg_status words_read(const char *train, const char *test, data_part parts[2], size_t *vocabulary_p)
{
    const char *const path[2] = {train, test};
    uint8_t *text[2] = {NULL, NULL};
    size_t len[2] = {0, 0};
    data_part made[2] = {{.count = 0}, {.count = 0}};
    vocabulary v = {.count = 0};
    tg_status status = TG_OK;
    for (int i = 0; i < 2 && status == TG_OK; i++)
        status = packed_load(path[i], WORDS_MAX, &text[i], &len[i]);
    for (int i = 0; i < 2 && status == TG_OK; i++)
        status = tokenize(path[i], (const char *)text[i], len[i], i == 0, &v, &made[i]);
    for (int i = 0; i < 2; i++) {
        free(text[i]);
        if (status != TG_OK)
            data_part_free(&made[i]);
        else
            parts[i] = made[i];
    }
    if (status == TG_OK)
        *vocabulary_p = v.count;
    free(v.words);
    free(v.slot);
    return status;
}

/* ---- the sets -------------------------------------------------------------------------------- */

/* Find NAME.txt, or wiki.NAME.tokens, the name in WikiText's archives. */
static bool find(const char *dir, const char *name, char path[PACKED_PATH])
{
    char file[64];
    snprintf(file, sizeof file, "%s.txt", name);
    if (packed_find(dir, file, path))
        return true;
    snprintf(file, sizeof file, "wiki.%s.tokens", name);
    return packed_find(dir, file, path);
}

static bool present(const char *dir, const tg_spec *spec)
{
    char path[PACKED_PATH];
    return find(dir, "train", path) && find(dir, tg_spec_word(spec, "eval"), path);
}

static tg_status load(train_data *d, const tg_spec *spec, const char *dir)
{
    const char *const names[2] = {"train", tg_spec_word(spec, "eval")};
    char path[2][PACKED_PATH];
    for (int i = 0; i < 2; i++) {
        if (!find(dir, names[i], path[i]))
            return tg_fail(TG_E_IO,
                           "%s: neither %s.txt nor wiki.%s.tokens nor the same with .gz or .xz can "
                           "be read",
                           dir, names[i], names[i]);
    }
    return words_read(path[0], path[1], d->part, &d->vocabulary);
}

static const tg_key keys[] = {
    {.name = "eval",
     .type = TG_KEY_CHOICE,
     .def = "test",
     .choices = "test|valid",
     .help = "the text that is tested on"},
    {.name = NULL},
};

static const tg_entry words_entry = {
    .name = "words",
    .summary = "texts of words in WikiText's layout: train.txt, valid.txt, test.txt",
    .source = "",
    .keys = keys,
};

static const tg_entry wikitext_2 = {
    .name = "wikitext-2",
    .summary = "two million words of Wikipedia",
    .source = "Merity et al. 2017, arXiv:1609.07843",
    .keys = keys,
};

const data_set data_words = {
    .entry = &words_entry,
    .path_key = "dir",
    .wants = "no folder named",
    .unit = TRAIN_WORDS,
    .present = present,
    .load = load,
};

const data_set data_wikitext_2 = {
    .entry = &wikitext_2,
    .path_key = "dir",
    .place = "wikitext-2",
    .wants = "folder with {train,test}.txt or wiki.{train,test}.tokens (of eval=valid: valid)",
    .unit = TRAIN_WORDS,
    .present = present,
    .load = load,
};

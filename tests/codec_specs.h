/* For tests: the settings of every codec of the registry, derived from its keys. They are the
 * defaults, each word of each key alone, and the bounds of each whole number. Also tensors that
 * codecs treat differently. */
#ifndef TESTS_CODEC_SPECS_H
#define TESTS_CODEC_SPECS_H

#include "codec/codec_impl.h"
#include "telegrad/spec.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CODEC_SPEC_MAX = 200 };

/* Word number i of a key: its choices, or the bounds of a whole number. False: there are no
 * more. */
static inline bool codec_spec_word(const tg_key *key, size_t i, char word[32])
{
    const char *p = key->type == TG_KEY_FLAG ? "yes|no" : key->choices ? key->choices : "";
    if (key->type == TG_KEY_INT) {
        snprintf(word, 32, "%" PRId64, (int64_t)(i == 0 ? key->min : key->max));
        return i < 2;
    }
    for (; *p; i--) {
        size_t len = strcspn(p, "|");
        snprintf(word, 32, "%.*s", (int)len, p);
        if (i == 0)
            return true;
        p += len + (p[len] == '|');
    }
    return false;
}

/* Whether the spec is valid: a bound may contradict the defaults of other keys
 * (qsgd:levels=127). */
static inline bool codec_spec_taken(const char *spec)
{
    tg_codec *c;
    if (tg_codec_create(spec, &c) != TG_OK)
        return false;
    tg_codec_destroy(c);
    return true;
}

/* Spec number 0, 1, ... of an entry. Returns false after the last one. */
static inline bool codec_spec(const tg_entry *entry, size_t number, char spec[CODEC_SPEC_MAX])
{
    char word[32];
    size_t at = 0;
    snprintf(spec, CODEC_SPEC_MAX, "%s", entry->name);
    if (number == at++)
        return true;
    for (const tg_key *key = entry->keys; key && key->name; key++)
        for (size_t i = 0; codec_spec_word(key, i, word); i++) {
            snprintf(spec, CODEC_SPEC_MAX, "%s:%s=%s", entry->name, key->name, word);
            if (key->type == TG_KEY_INT && !codec_spec_taken(spec))
                continue;
            if (number == at++)
                return true;
        }
    return false;
}

/* Spec number 0, 1, ... of those that a codec's own file names: its defaults, then its settings.
 * Returns false after the last one. */
static inline bool codec_own_spec(const tg__codec_ops *ops, size_t number,
                                  char spec[CODEC_SPEC_MAX])
{
    const char *const *own = ops->promise.settings;
    snprintf(spec, CODEC_SPEC_MAX, "%s", ops->entry.name);
    if (number == 0)
        return true;
    for (size_t i = 1; own != NULL && *own != NULL && i < number; i++)
        own++;
    if (own == NULL || *own == NULL)
        return false;
    snprintf(spec, CODEC_SPEC_MAX, "%s:%s", ops->entry.name, *own);
    return true;
}

/* Split n elements into tensors: a matrix of 7 rows, a vector, a single element. Returns how
 * many. */
enum { CODEC_SEGMENTS = 3 };
static inline size_t codec_segments(size_t n, tg_segment s[CODEC_SEGMENTS])
{
    size_t rows = 7, cols = n / 2 / rows, middle = rows * cols;
    if (middle == 0 || n - middle < 2) {
        s[0] = (tg_segment){.n = n, .rows = n, .cols = 1};
        return 1;
    }
    s[0] = (tg_segment){.n = middle, .rows = rows, .cols = cols};
    s[1] = (tg_segment){.begin = middle, .n = n - middle - 1, .rows = n - middle - 1, .cols = 1};
    s[2] = (tg_segment){.begin = n - 1, .n = 1, .rows = 1, .cols = 1};
    return 3;
}

#endif

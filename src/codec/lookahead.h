/* The key `lookahead` of topk, dgc, cltk, 2bit and strom: elements are judged by x + lookahead * g,
 * where g is the gradient that was added last. Defaults: docs/decisions/0008-lookahead.md */
#ifndef TG_CODEC_LOOKAHEAD_H
#define TG_CODEC_LOOKAHEAD_H

#include "base/keys.h"
#include "telegrad/spec.h"
#include <string.h>

#define TG__LOOKAHEAD_MEANING                                                           \
    " as if the last gradient came this many times more, so that what moves on is sent" \
    " before what has only wandered far; 0: without"

/* Of top-k, whose key `select` is "exact" or "trimmed". What `auto` means cannot change: the specs
 * of checkpoints have the word. */
#define TG__KEY_LOOKAHEAD                                                         \
    TG__KEY(REAL, "lookahead", "auto", 0, 1000,                                   \
            "rank elements" TG__LOOKAHEAD_MEANING "; auto: 2 with select=exact, " \
            "0 with select=trimmed",                                              \
            .choices = "auto")

static inline float tg__lookahead(const tg_spec *spec)
{
    if (strcmp(tg_spec_word(spec, "lookahead"), "auto") != 0)
        return (float)tg_spec_real(spec, "lookahead");
    return strcmp(tg_spec_word(spec, "select"), "trimmed") == 0 ? 0 : 2;
}

#define TG__KEY_LOOKAHEAD_DGC \
    TG__KEY(REAL, "lookahead", "2", 0, 1000, "rank elements" TG__LOOKAHEAD_MEANING)

/* Of CLT-k. */
#define TG__KEY_LOOKAHEAD_LEADER \
    TG__KEY(REAL, "lookahead", "2", 0, 1000, "the leader ranks its elements" TG__LOOKAHEAD_MEANING)

/* Of the ternary codecs. */
#define TG__KEY_LOOKAHEAD_THRESHOLD          \
    TG__KEY(REAL, "lookahead", "1", 0, 1000, \
            "compare elements with the threshold" TG__LOOKAHEAD_MEANING)
#endif

/* For tests of codecs: makes one from a spec string, compares arrays; the longest vector and its
 * longest frame. */
#ifndef TG_CODEC_CODEC_MADE_H
#define TG_CODEC_CODEC_MADE_H

#include "codec/codec_impl.h"
#include <string.h>

enum { MAX_N = 4097, FRAME_MAX = 12 + 4 * MAX_N };

static inline tg_codec *create(const char *spec)
{
    tg_codec *c = NULL;
    assert_int_equal(tg_codec_create(spec, &c), TG_OK);
    return c;
}

static inline void assert_floats(const float *a, const float *b, size_t n)
{
    if (n > 0)
        assert_memory_equal(a, b, n * sizeof(*a));
}

#endif

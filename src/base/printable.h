/* Texts of other ranks are shown to people, and terminals obey some characters. All is here,
 * because libtelegrad-net, a library of its own, uses it, too. */
#ifndef TG_PRINTABLE_H
#define TG_PRINTABLE_H

#include "telegrad/tools.h"
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Bytes of the printable character that the text begins with; 0: there is none. */
static inline size_t tg__printable_bytes(const char *text, size_t left)
{
    uint32_t c = 0;
    const size_t len = tg_utf8_decode(text, left, &c);
    const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
    const bool layout =
        c == 0x200e || c == 0x200f || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
    return control || layout ? 0 : len;
}

/* Whether the text is UTF-8 without control characters, and without characters that break lines or
 * change the direction of writing. */
static inline bool tg__is_printable(const char *text, size_t len)
{
    while (len > 0) {
        const size_t step = tg__printable_bytes(text, len);
        if (step == 0)
            return false;
        text += step;
        len -= step;
    }
    return true;
}

/* Replace what makes a text not printable by question marks, in place. */
static inline void tg__make_printable(char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        size_t step = tg__printable_bytes(text, left);
        if (step == 0) {
            *text = '?';
            step = 1;
        }
        text += step;
        left -= step;
    }
}

#endif

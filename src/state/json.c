#include "state/json.h"
#include "telegrad/tools.h"
#include <string.h>

static bool refuse(tg__json *j, const char *wrong)
{
    j->wrong = wrong;
    return false;
}

char tg__json_peek(tg__json *j)
{
    while (j->p < j->end && memchr(" \t\n\r", *j->p, 4))
        j->p++;
    return j->p < j->end ? *j->p : '\0';
}

bool tg__json_take(tg__json *j, char c)
{
    if (tg__json_peek(j) != c || j->p == j->end)
        return refuse(j, c == '{'   ? "expected an object"
                         : c == '[' ? "expected a list"
                         : c == ':' ? "expected a colon"
                                    : "expected a comma or the closing bracket");
    j->p++;
    return true;
}

/* Four hexadecimal digits after \u. */
static bool hex4(tg__json *j, uint32_t *code_p)
{
    uint32_t code = 0;
    if (j->end - j->p < 4)
        return refuse(j, "the header ends within a string");
    for (int i = 0; i < 4; i++, j->p++) {
        const char c = *j->p;
        const char *digits = "0123456789abcdef", *at = memchr(digits, c | 0x20, 16);
        if (!at || (c < '0') || (c > '9' && (c | 0x20) < 'a'))
            return refuse(j, "\\u without four hexadecimal digits");
        code = code << 4 | (uint32_t)(at - digits);
    }
    *code_p = code;
    return true;
}

static char *put_utf8(char *dst, uint32_t code)
{
    if (code < 0x80) {
        *dst++ = (char)code;
        return dst;
    }
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static const uint8_t heads[] = {0, 0xc0, 0xe0, 0xf0};
    *dst++ = (char)(heads[more] | code >> (6 * more));
    for (int i = more - 1; i >= 0; i--)
        *dst++ = (char)(0x80 | (code >> (6 * i) & 0x3f));
    return dst;
}

/* \uXXXX, or two of them for characters beyond 16 bits; p is after the first \u. */
static bool unicode(tg__json *j, char **dst_p)
{
    uint32_t code, low;
    if (!hex4(j, &code))
        return false;
    if (code >= 0xd800 && code < 0xdc00) {
        if (j->end - j->p < 2 || j->p[0] != '\\' || j->p[1] != 'u')
            return refuse(j, "an incomplete pair of \\u escapes");
        j->p += 2;
        if (!hex4(j, &low))
            return false;
        if (low < 0xdc00 || low > 0xdfff)
            return refuse(j, "an incomplete pair of \\u escapes");
        code = 0x10000 + ((code - 0xd800) << 10 | (low - 0xdc00));
    } else if (code >= 0xdc00 && code < 0xe000) {
        return refuse(j, "an incomplete pair of \\u escapes");
    }
    if (code == 0)
        return refuse(j, "\\u0000 in a string");
    *dst_p = put_utf8(*dst_p, code);
    return true;
}

static bool escape(tg__json *j, char **dst_p)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (j->p == j->end)
        return refuse(j, "the header ends within a string");
    const char c = *j->p++;
    if (c == 'u')
        return unicode(j, dst_p);
    const char *at = memchr(from, c, sizeof from - 1);
    if (!at)
        return refuse(j, "an unknown escape in a string");
    *(*dst_p)++ = to[at - from];
    return true;
}

/* Decoded text is never longer than its source. */
bool tg__json_string(tg__json *j, char **text_p)
{
    if (tg__json_peek(j) != '"')
        return refuse(j, "expected a string");
    char *text = ++j->p, *dst = text;
    while (j->p < j->end && *j->p != '"') {
        if (*j->p == '\\') {
            j->p++;
            if (!escape(j, &dst))
                return false;
            continue;
        }
        const size_t len = tg_utf8_decode(j->p, (size_t)(j->end - j->p), NULL);
        if (len == 0)
            return refuse(j, "a string that is not UTF-8");
        if ((uint8_t)*j->p < 0x20)
            return refuse(j, "a control character in a string");
        memmove(dst, j->p, len);
        dst += len;
        j->p += len;
    }
    if (j->p == j->end)
        return refuse(j, "the header ends within a string");
    j->p++; /* the place of the closing quote takes the zero */
    *dst = '\0';
    *text_p = text;
    return true;
}

bool tg__json_uint(tg__json *j, uint64_t *value_p)
{
    uint64_t value = 0;
    const char first = tg__json_peek(j);
    if (first < '0' || first > '9')
        return refuse(j, "expected a whole number, not negative");
    const char *start = j->p;
    for (; j->p < j->end && *j->p >= '0' && *j->p <= '9'; j->p++) {
        const uint64_t digit = (uint64_t)(*j->p - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return refuse(j, "a number that does not fit in 64 bits");
        value = value * 10 + digit;
    }
    if ((first == '0' && j->p - start > 1) || (j->p < j->end && memchr(".eE", *j->p, 3)))
        return refuse(j, "not a whole number in its plain form");
    *value_p = value;
    return true;
}

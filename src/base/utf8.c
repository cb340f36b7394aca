#include "base/mem.h"
#include <string.h>

size_t tg_utf8_decode(const char *text, size_t len, uint32_t *code_p)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* smaller values are overlong */
    if (!text || len == 0)
        return 0;
    const uint8_t *p = (const uint8_t *)text;
    const size_t size = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if ((p[0] >= 0x80 && p[0] < 0xc2) || p[0] > 0xf4 || size > len)
        return 0;
    uint32_t code = size == 1 ? p[0] : p[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (p[i] & 0x3f);
    }
    if (code < least[size] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    if (code_p)
        *code_p = code;
    return size;
}

void tg__print_json(FILE *file, const char *text)
{
    fputc('"', file);
    for (size_t left = strlen(text), len; left > 0; text += len, left -= len) {
        const unsigned char c = (unsigned char)*text;
        len = tg_utf8_decode(text, left, NULL);
        if (len == 0) {
            fputs("\\ufffd", file);
            len = 1;
        } else if (c == '"' || c == '\\') {
            fprintf(file, "\\%c", c);
        } else if (c < 0x20) {
            fprintf(file, "\\u%04x", c);
        } else {
            fwrite(text, 1, len, file);
        }
    }
    fputc('"', file);
}

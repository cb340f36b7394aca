#include "report/escape.h"

void escape_xml(FILE *out, const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '&')
            fputs("&amp;", out);
        else if (c == '<')
            fputs("&lt;", out);
        else if (c == '>')
            fputs("&gt;", out);
        else if (c == '"')
            fputs("&quot;", out);
        else if (c == '\'')
            fputs("&#39;", out);
        else if (c < 0x20 && c != '\t' && c != '\n')
            fputs("\xef\xbf\xbd", out);
        else
            fputc(c, out);
    }
}

/* In JSON these three characters occur only inside strings. */
static int write_safe(const char *text, size_t len, void *out)
{
    for (size_t i = 0; i < len; i++) {
        const char c = text[i];
        if (c == '<' || c == '>' || c == '&')
            fprintf(out, "\\u%04x", (unsigned)c);
        else
            fputc(c, out);
    }
    return ferror(out) ? -1 : 0;
}

int escape_json(FILE *out, const json_t *value)
{
    return json_dump_callback(value, write_safe, out,
                              JSON_COMPACT | JSON_ENSURE_ASCII | JSON_ENCODE_ANY |
                                  JSON_REAL_PRECISION(7));
}

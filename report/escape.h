/* Escape text from files and arguments for HTML, for SVG, and for JSON embedded in HTML. */
#ifndef TG_REPORT_ESCAPE_H
#define TG_REPORT_ESCAPE_H

#include <jansson.h>
#include <stdio.h>

/* Print text (UTF-8) as character data or a quoted attribute. Characters that XML cannot hold
 * become U+FFFD. */
void escape_xml(FILE *out, const char *text);

/* Print JSON on one line that can contain no end tag and no comment: `<`, `>`, `&` and everything
 * outside ASCII become \uXXXX. Numbers have 7 digits. Returns non-zero when out of memory or when
 * `out` failed. */
int escape_json(FILE *out, const json_t *value);

#endif

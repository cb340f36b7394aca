/* Text of files and arguments in HTML, SVG and JSON that stands inside of HTML. */
#ifndef TG_REPORT_ESCAPE_H
#define TG_REPORT_ESCAPE_H

#include <jansson.h>
#include <stdio.h>

/* As character data or a quoted attribute; what XML has no place for becomes U+FFFD. text: UTF-8 */
void escape_xml(FILE *out, const char *text);

/* In one line, such that no end tag or comment can be in it: `<`, `>`, `&` and all that is not
 * ASCII as \uXXXX. Numbers with 7 digits. Non-zero: out of memory, or out failed. */
int escape_json(FILE *out, const json_t *value);

#endif

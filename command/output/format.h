/* Numbers for people, and text that is safe to print and to store. */
#ifndef TG_CLI_FORMAT_H
#define TG_CLI_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct format_text {
    char text[48];
} format_text;

/* 1724320 -> "1.72 MB" (powers of 1000); "-" if not finite. */
format_text format_bytes(double bytes);

/* Whole bytes with separators: 1724320 -> "1,724,320". */
format_text format_count(uint64_t n);

/* 0.0123 -> "12 ms", 12.34 -> "12.3 s", 754 -> "12:34", 7540 -> "2:05:40"; from 100 hours on
 * "4.17 d" and "12.3 y"; "-" if not finite. */
format_text format_seconds(double seconds);

/* Three significant digits and a suffix; from 100 to a million all digits before the point: 812.4,
 * "x" -> "812x", 3.14159 -> "3.14x"; "-" if not finite. */
format_text format_ratio(double ratio, const char *suffix);

/* A loss with four digits after the point; "not finite". */
format_text format_loss(double loss);

/* Whether text is valid UTF-8 (RFC 3629: no overlong forms, no surrogates). */
bool format_is_utf8(const char *text);

/* Convert text to UTF-8: each byte that is not part of it becomes \xNN. Release with free(). NULL:
 * out of memory. */
char *format_utf8(const char *text);

/* Convert text to a word for a shell, quoted where needed. Release with free(). NULL: out of
 * memory. */
char *format_shell(const char *text);

/* Columns that UTF-8 text takes on a terminal: East Asian characters and emoji take two. */
size_t format_width(const char *text);

/* Shorten UTF-8 text in place to at most `most` (>= 4) columns. If any were cut, the last three are
 * "...". */
void format_shorten(char *text, size_t most);

#endif

/* The little of JSON (RFC 8259) that a safetensors header is made of: strings and whole numbers,
 * read in place. The caller's grammar says what must come next, so nothing is nested deeper than
 * the caller goes. */
#ifndef TG_STATE_JSON_H
#define TG_STATE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tg__json {
    char *start, *p, *end;
    const char *wrong; /* what is wrong at p, after a function returned false */
} tg__json;

/* The next character that is no blank; '\0' at the end. */
char tg__json_peek(tg__json *j);
/* It must be `c`, and is passed over. */
bool tg__json_take(tg__json *j, char c);
/* A string: its escapes are decoded where it stands, and a zero ends it. It must be UTF-8 and hold
 * no zero. */
bool tg__json_string(tg__json *j, char **text_p);
/* A whole number of 64 bits: no sign, no fraction, no leading zeros. */
bool tg__json_uint(tg__json *j, uint64_t *value_p);

#endif

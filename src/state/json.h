/* The part of JSON (RFC 8259) that a safetensors header needs: strings and integers, parsed in
 * place. The caller's grammar determines what must come next, so nesting is never deeper than the
 * caller's. */
#ifndef TG_STATE_JSON_H
#define TG_STATE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tg__json {
    char *start, *p, *end;
    const char *wrong; /* the error at p, after a function returned false */
} tg__json;

/* The next non-blank character; '\0' at the end. */
char tg__json_peek(tg__json *j);
/* Require the character `c` and skip it. */
bool tg__json_take(tg__json *j, char c);
/* Parse a string. Escapes are decoded in place, and a zero terminates it. It must be UTF-8 and
 * contain no zero. */
bool tg__json_string(tg__json *j, char **text_p);
/* Parse an unsigned 64-bit integer: no sign, no fraction, no leading zeros. */
bool tg__json_uint(tg__json *j, uint64_t *value_p);

#endif

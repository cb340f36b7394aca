/* Names in spec strings, and the words that papers and other programs have for names and keys. */
#ifndef TG_CLI_SPEC_WORDS_H
#define TG_CLI_SPEC_WORDS_H

#include "telegrad/spec.h"
#include <stdbool.h>

/* Whether two specs have the same name; the name of "cd:k=5" is "cd". */
bool spec_same_name(const char *spec, const char *other);

/* If the spec has such a word in the place of a name or key that is there, say which is meant.
 * option   "method", for the message
 * entries  (count) what the spec may name
 * Errors   TG_E_SPEC */
TG_NODISCARD tg_status spec_words_check(const char *option, const tg_entry *const *entries,
                                        size_t count, const char *spec);

#endif

/* The parts of a spec string; first of all a value: conversion between text and a number, word or
 * duration, checked against its key. */
#ifndef TG_BASE_SPEC_VALUE_H
#define TG_BASE_SPEC_VALUE_H

#include "telegrad/base.h"
#include "telegrad/spec.h"
#include <stdio.h>

typedef struct tg__spec_value {
    bool has, given;      /* it has a value; the value was given in the string */
    int64_t integer;      /* INT; FLAG: 0 or 1 */
    double real;          /* REAL; 0 if it is a word */
    tg_duration duration; /* DURATION; zero is always in steps */
    char *word;           /* CHOICE; SPEC without brackets; REAL given as a word. Owned: free() */
} tg__spec_value;

/* Parse text as a value of key. Sets the fields of the key's type, but not has and given.
 * Errors  TG_E_SPEC ("key=text: ... allowed: ..."), TG_E_NOMEM */
TG_NODISCARD tg_status tg__spec_value_parse(const tg_key *key, const char *text,
                                            tg__spec_value *value);

/* Copy a value of another spec's key of the same type and name.
 * Errors  TG_E_SPEC (the key does not allow it), TG_E_NOMEM */
TG_NODISCARD tg_status tg__spec_value_copy(const tg_key *key, const tg__spec_value *from,
                                           tg__spec_value *value);

/* Write the value in its normal form, which parses to the same value. */
void tg__spec_value_print(const tg_key *key, const tg__spec_value *value, FILE *file);

/* Make a spec of an entry whose keys take their values from those of the same name and type in
 * another spec; the others have their defaults.
 * kind    for messages
 * Errors  TG_E_SPEC (a key does not allow the value), TG_E_NOMEM */
TG_NODISCARD tg_status tg__spec_derive(const char *kind, const tg_entry *entry, const tg_spec *from,
                                       tg_spec **spec_p);

/* Set a key of spec to another value. Everything read from the spec before, its text included,
 * becomes invalid.
 * text    a value that the entry allows
 * Errors  TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status tg__spec_set(tg_spec *spec, const char *key, const char *text);

/* Add to a spec's text the durations that it does not give and whose default depends on the run
 * (tg_key.share, TG_DEFAULT_EPOCH_STEPS). Other defaults are not added.
 * text                          what spec was parsed from
 * total_steps, steps_per_epoch  0: unknown
 * text_p                        [out] release it with free()
 * Errors                        TG_E_NOMEM */
TG_NODISCARD tg_status tg__spec_settle(const tg_spec *spec, const char *text, uint64_t total_steps,
                                       uint64_t steps_per_epoch, char **text_p);
/* True if some duration with a share (tg_key.share) is not given. */
bool tg__spec_is_open(const tg_spec *spec);

/* Add a word to a list for a message: "a, b, c". When full it ends with ", ...". Start with list[0]
 * = 0. */
#define TG__WORD_LIST 640
void tg__word_list_add(char list[TG__WORD_LIST], const char *word, size_t len);

/* ---- text, name and keys: what is refused, and what was meant (spec_find.c) ------------------ */

/* In these functions, kind is for messages; each fails with TG_E_SPEC. */

/* Check the whole string: no blanks, matching brackets. */
TG_NODISCARD tg_status tg__spec_check_text(const char *kind, const char *text);
/* Find the entry with this name. */
TG_NODISCARD tg_status tg__spec_find_entry(const char *kind, const tg_entry *const *entries,
                                           size_t count, const char *name,
                                           const tg_entry **entry_p);
/* Find the key with this name. */
TG_NODISCARD tg_status tg__spec_find_key(const char *kind, const tg_entry *entry, const char *name,
                                         size_t *index_p);

#endif

/* One value of a spec string: text <-> number, word or duration, checked against its key. */
#ifndef TG_BASE_SPEC_VALUE_H
#define TG_BASE_SPEC_VALUE_H

#include "telegrad/base.h"
#include "telegrad/spec.h"
#include <stdio.h>

typedef struct tg__spec_value {
    bool has, given;      /* has a value; it was written in the string */
    int64_t integer;      /* INT; FLAG: 0 or 1 */
    double real;          /* REAL; 0 if it is a word */
    tg_duration duration; /* DURATION; zero is always in steps */
    char *word;           /* CHOICE; SPEC without brackets; REAL given as a word. Owned: free() */
} tg__spec_value;

/* Parse text as a value of key. On success the fields of key's type are set, has and given are not.
 * Errors  TG_E_SPEC: the message is "key=text: ... allowed: ..."; TG_E_NOMEM */
TG_NODISCARD tg_status tg__spec_value_parse(const tg_key *key, const char *text,
                                            tg__spec_value *value);

/* Write the value in its normal form, which parses to the same value. */
void tg__spec_value_print(const tg_key *key, const tg__spec_value *value, FILE *file);

/* Give a key of spec another value: one that the entry allows, as text. Anything read from the spec
 * before, its text included, is no longer valid. Errors TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status tg__spec_set(tg_spec *spec, const char *key, const char *text);

/* `text`, which spec was parsed from, with the durations that it leaves open and whose default
 * depends on the run added: tg_key.share, TG_DEFAULT_EPOCH_STEPS. Either number 0: not known. What
 * was not given otherwise stays so. Caller frees. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__spec_settle(const tg_spec *spec, const char *text, uint64_t total_steps,
                                       uint64_t steps_per_epoch, char **text_p);
/* Whether any of its durations is left open and has a share. */
bool tg__spec_is_open(const tg_spec *spec);

/* A list of words for a message: "a, b, c", cut with ", ..." when full. Start with list[0] = 0. */
#define TG__WORD_LIST 640
void tg__word_list_add(char list[TG__WORD_LIST], const char *word, size_t len);

#endif

/* telegrad/spec.h - spec strings, which name things with their settings. */
#ifndef TELEGRAD_SPEC_H
#define TELEGRAD_SPEC_H

#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One string names a thing everywhere: `name:key=value,key=value`; a nested one stands in brackets:
 * `cd:k=5,local=[sgd:lr=0.1]`. Durations are steps (`200`) or epochs (`4ep`). */

typedef enum tg_key_type {
    TG_KEY_INT,      /* 64-bit integer; or one word of `choices`, if it has any */
    TG_KEY_REAL,     /* finite double, 1% for 0.01; or such a word */
    TG_KEY_FLAG,     /* yes | no */
    TG_KEY_CHOICE,   /* one word of `choices` */
    TG_KEY_DURATION, /* N steps, or Nep epochs (N may be a fraction with ep) */
    TG_KEY_SPEC      /* a nested spec string, checked by whoever uses it */
} tg_key_type;

typedef struct tg_key {
    const char *name;
    tg_key_type type;
    const char *def;     /* default as text; NULL: none, tg_spec_given() tells */
    double min, max;     /* INT, REAL, DURATION (its number): allowed range, inclusive ... */
    bool min_open;       /* ... but min itself is excluded */
    const char *choices; /* CHOICE: "auto|rice|raw"; INT, REAL: words beside numbers, or NULL */
    const char *help;    /* one line, with the unit */
    /* DURATION, of warm-ups: the default is no more than this share of the run, where its length is
     * known (tg_session_config.total_steps), rounded down to steps. 0: the default, whatever the
     * run's length is */
    double share;
} tg_key;

/* What a default in epochs (not a value that was given) takes for an epoch where the steps in one
 * are not known: 4ep is 1,000 steps. */
#define TG_DEFAULT_EPOCH_STEPS 250

/* What can be named by a spec string: one entry per method, codec, strategy, ... */
typedef struct tg_entry {
    const char *name;
    const char *summary; /* one line */
    const char *source;  /* paper: author, year, arXiv number, section; "" if none */
    const tg_key *keys;  /* ends with a key whose name is NULL; may be NULL */
} tg_entry;

typedef struct tg_duration {
    double count;
    bool epochs; /* false: steps */
} tg_duration;

/* d in steps, rounded to the nearest; steps_per_epoch may be 0 if d is in steps.
 * Errors  TG_E_SPEC if d is in epochs and steps_per_epoch is 0 (the message names `what`) */
TG_API TG_NODISCARD tg_status tg_duration_steps(tg_duration d, uint64_t steps_per_epoch,
                                                const char *what, uint64_t *steps_p);

typedef struct tg_spec tg_spec;

/* Parse `text` against `entries` (count). `kind` ("method", "strategy", ...) is for messages.
 * Every key is checked: type, range, choices, given once. Case matters; blanks are not allowed.
 * Errors  TG_E_SPEC: the message names what is allowed
 * Threads any; the result is immutable and may be shared */
TG_API TG_NODISCARD tg_status tg_spec_parse(const char *kind, const tg_entry *const *entries,
                                            size_t count, const char *text, tg_spec **spec_p);
TG_API void tg_spec_free(tg_spec *spec); /* NULL is fine */

TG_API const tg_entry *tg_spec_entry(const tg_spec *spec);
TG_API const char *tg_spec_name(const tg_spec *spec);
/* The normal form: name, then ALL keys that have a value, in the entry's order, so that two specs
 * mean the same if and only if their texts are equal. Lives as long as the spec. */
TG_API const char *tg_spec_text(const tg_spec *spec);
/* Whether the key was written in the string (not only defaulted). */
TG_API bool tg_spec_given(const tg_spec *spec, const char *key);
/* Whether the key has a value (given or default). */
TG_API bool tg_spec_has(const tg_spec *spec, const char *key);

/* Values. The key must exist in the entry with that type and have a value (else: assertion).
 * spec or key NULL: 0, false, or "". */
TG_API int64_t tg_spec_int(const tg_spec *spec, const char *key); /* 0 if it is a word */
TG_API double tg_spec_real(const tg_spec *spec, const char *key); /* 0 if it is a word */
TG_API bool tg_spec_flag(const tg_spec *spec, const char *key);
TG_API tg_duration tg_spec_duration(const tg_spec *spec, const char *key);
/* CHOICE: the word. INT, REAL: the word that stands in place of a number, "" if it is one. SPEC:
 * the nested text without brackets. Lives as long as the spec. */
TG_API const char *tg_spec_word(const tg_spec *spec, const char *key);

#ifdef __cplusplus
}
#endif
#endif

/* telegrad/spec.h - spec strings: a name with its settings.
 *
 *     topk:density=0.01             name:key=value,key=value
 *     cd:k=5,local=[sgd:lr=0.1]     a nested spec stands in brackets
 *     dgc:warmup=4ep                durations are steps (200) or epochs (4ep) */
#ifndef TELEGRAD_SPEC_H
#define TELEGRAD_SPEC_H

#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tg_key_type {
    TG_KEY_INT,      /* 64-bit integer, or a word of `choices` */
    TG_KEY_REAL,     /* finite double (1% is 0.01), or a word of `choices` */
    TG_KEY_FLAG,     /* yes | no */
    TG_KEY_CHOICE,   /* a word of `choices` */
    TG_KEY_DURATION, /* N: steps; Nep: epochs, where N may be a fraction */
    TG_KEY_SPEC      /* a nested spec string; the code that uses it checks it */
} tg_key_type;

/* A key that a spec may set. Never grows, because keys stand in arrays. */
typedef struct tg_key {
    const char *name;
    tg_key_type type;
    const char *def;     /* default as text; NULL: none (see tg_spec_has) */
    double min, max;     /* INT, REAL, DURATION (its number): allowed range, inclusive ... */
    bool min_open;       /* ... except min itself */
    const char *choices; /* CHOICE: "auto|rice|raw"; INT, REAL: words beside numbers, or NULL */
    const char *help;    /* one line, with the unit */
    /* DURATION of a warm-up: if the length of the run is known (tg_session_config.total_steps), the
     * default is limited to this share of it, rounded down to steps. 0: no limit */
    double share;
} tg_key;

/* Steps per epoch that defaults in epochs assume if the true number is unknown: 4ep is 1,000 steps.
 * A value in epochs that the caller gives is an error then. */
#define TG_DEFAULT_EPOCH_STEPS 250

/* What a spec string can name: a method, a codec, a strategy, ... Never grows. */
typedef struct tg_entry {
    const char *name;
    const char *summary; /* one line */
    const char *source;  /* paper: author, year, arXiv number, section; "" if none */
    const tg_key *keys;  /* the last one has the name NULL; may be NULL */
} tg_entry;

/* Never grows. */
typedef struct tg_duration {
    double count;
    bool epochs; /* false: steps */
} tg_duration;

/* Convert a duration to steps, rounded to the nearest.
 * steps_per_epoch  0: unknown
 * what             names the duration in error messages
 * Errors           TG_E_SPEC (d is in epochs and steps_per_epoch is 0) */
TG_API TG_NODISCARD tg_status tg_duration_steps(tg_duration d, uint64_t steps_per_epoch,
                                                const char *what, uint64_t *steps_p);

typedef struct tg_spec tg_spec;

/* Parse a spec string. Every key is checked: type, range, choices, and that it is given once. Case
 * matters; blanks are not allowed.
 * kind     "method", "strategy", ...: for error messages
 * entries  (count) what the string may name
 * Errors   TG_E_SPEC: the message names what is allowed
 * Threads  any; the result is immutable and may be shared */
TG_API TG_NODISCARD tg_status tg_spec_parse(const char *kind, const tg_entry *const *entries,
                                            size_t count, const char *text, tg_spec **spec_p);
TG_API void tg_spec_free(tg_spec *spec); /* NULL is fine */

TG_API const tg_entry *tg_spec_entry(const tg_spec *spec);
TG_API const char *tg_spec_name(const tg_spec *spec);
/* The normal form: the name, then all keys that have a value, defaults included, in the entry's
 * order. Two specs mean the same if and only if their normal forms are equal. Lives as long as the
 * spec. */
TG_API const char *tg_spec_text(const tg_spec *spec);
/* True if the string sets the key (a default does not count). */
TG_API bool tg_spec_given(const tg_spec *spec, const char *key);
/* True if the key has a value, given or default. */
TG_API bool tg_spec_has(const tg_spec *spec, const char *key);

/* The value of a key. The entry must have the key with this type, and it must have a value;
 * otherwise an assertion fails. If spec or key is NULL: 0, false or "". */
TG_API int64_t tg_spec_int(const tg_spec *spec, const char *key); /* 0 if it is a word */
TG_API double tg_spec_real(const tg_spec *spec, const char *key); /* 0 if it is a word */
TG_API bool tg_spec_flag(const tg_spec *spec, const char *key);
TG_API tg_duration tg_spec_duration(const tg_spec *spec, const char *key);
/* CHOICE: the word. INT, REAL: the word given in place of a number, "" if it is a number. SPEC: the
 * nested spec string without brackets. Lives as long as the spec. */
TG_API const char *tg_spec_word(const tg_spec *spec, const char *key);

#ifdef __cplusplus
}
#endif
#endif

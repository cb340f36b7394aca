/* telegrad/base.h - status, error text, log, clock, counter random numbers, spec strings, trace.
 *
 * Everything here is usable without a network. Unless a comment says otherwise, a function may be
 * called from any thread, and one object must not be used by two threads at the same time.
 *
 * Of every function in these headers: a pointer argument may be NULL only where its comment says
 * so. Otherwise a function that returns a tg_status returns TG_E_ARG, and tg_error names the
 * function and the argument; one that returns a value returns NULL, 0 or false; one that returns
 * nothing does nothing. */
#ifndef TELEGRAD_BASE_H
#define TELEGRAD_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TG_VERSION_MAJOR 0
#define TG_VERSION_MINOR 1
#define TG_VERSION_PATCH 0

#if defined(__GNUC__)
#define TG_API __attribute__((visibility("default")))
#define TG_NODISCARD __attribute__((warn_unused_result))
#define TG_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define TG_API
#define TG_NODISCARD
#define TG_PRINTF(f, a)
#endif

/* ---- status ---------------------------------------------------------------------------------- */

/* Every fallible function returns one of these. Output arguments come last and are written only
 * when TG_OK is returned. The values are part of the ABI and are never reused. */
typedef enum tg_status {
    TG_OK = 0,
    TG_E_ARG = 1,         /* an argument is outside what the function allows */
    TG_E_SPEC = 2,        /* a spec string: unknown name or key, value out of range, syntax */
    TG_E_NOMEM = 3,       /* out of memory */
    TG_E_SPACE = 4,       /* the caller's output buffer is too small */
    TG_E_CORRUPT = 5,     /* bytes from a network or a file are damaged or not ours */
    TG_E_VERSION = 6,     /* bytes of another format version */
    TG_E_MISMATCH = 7,    /* ranks (or a checkpoint and a job) were set up differently */
    TG_E_PEER = 8,        /* another rank is dead, stalled or misbehaves: the text names it */
    TG_E_NONFINITE = 9,   /* a gradient, or a sum of gradients, holds NaN or infinity */
    TG_E_STATE = 10,      /* called in the wrong order, or on an object that failed before */
    TG_E_IO = 11,         /* a file could not be opened, read, written or renamed */
    TG_E_UNSUPPORTED = 12 /* this build, machine or combination cannot do it: the text says why */
} tg_status;

/* "TG_E_PEER" for TG_E_PEER; "TG_E_?" for a number that is none. Never NULL. */
TG_API const char *tg_status_name(tg_status status);

/* What went wrong in the last call on this thread that failed: what was wrong, with which value,
 * and what is allowed. "" if nothing failed yet. Valid until the next failing call on this thread;
 * never NULL. */
TG_API const char *tg_error(void);

/* Set this thread's error text and return status: for callbacks (a caller's transport). format
 * NULL: the text is the status' name. */
TG_API tg_status tg_fail(tg_status status, const char *format, ...) TG_PRINTF(2, 3);

/* Forward a failure to the caller. */
#define TG_TRY(expr)                       \
    do {                                   \
        tg_status tg_try_status_ = (expr); \
        if (tg_try_status_ != TG_OK)       \
            return tg_try_status_;         \
    } while (0)

/* "0.1.0", the version of the library that is running (compare with TG_VERSION_*). */
TG_API const char *tg_version(void);

/* The instruction set level that the kernels run at: "ref", "avx2" or "avx512". Chosen once, at the
 * first use: the best that the CPU has, or what the environment variable TG_CPU asks for. */
TG_API const char *tg_cpu_level(void);

/* ---- log ------------------------------------------------------------------------------------- */

typedef enum tg_log_level { TG_LOG_ERROR = 0, TG_LOG_WARN = 1, TG_LOG_INFO = 2 } tg_log_level;

/* The library prints nothing. It hands its messages to fn (NULL: drops them, the default).
 * fn may be called from any thread, one call at a time, and must not call tg_log_set. */
TG_API void tg_log_set(void (*fn)(void *arg, tg_log_level level, const char *message), void *arg);

/* Send a message to the function set by tg_log_set. */
TG_API void tg_log(tg_log_level level, const char *format, ...) TG_PRINTF(2, 3);

/* ---- clock ----------------------------------------------------------------------------------- */

/* Time as an object, so that a simulation can supply its own. Nanoseconds from an arbitrary start;
 * never goes back. Both functions may be called from any thread. */
typedef struct tg_clock tg_clock;
struct tg_clock {
    size_t struct_size; /* sizeof(tg_clock) */
    void *arg;
    int64_t (*now_ns)(void *arg);
    void (*sleep_until_ns)(void *arg, int64_t when_ns); /* returns at once if when_ns is past */
    /* NULL where time is measured. Simulated time: what the calling thread does from here to its
     * next call of any of these functions takes ns, however long it takes in fact; until then it
     * must not touch what another thread of the simulation may change. */
    void (*work)(void *arg, int64_t ns);
};

/* CLOCK_MONOTONIC. */
TG_API const tg_clock *tg_clock_monotonic(void);

static inline int64_t tg_now_ns(const tg_clock *clock)
{
    return clock ? clock->now_ns(clock->arg) : 0;
}

/* On a clock of simulated time: see tg_clock.work. Otherwise nothing: it will be measured. */
static inline void tg_clock_work(const tg_clock *clock, int64_t ns)
{
    if (clock && clock->struct_size >= sizeof *clock && clock->work)
        clock->work(clock->arg, ns);
}

/* ---- counter random numbers ------------------------------------------------------------------ */

/* What a stream of random numbers is for. Numbers are never reused: they are part of what makes a
 * run reproducible. */
typedef enum tg_purpose {
    TG_PURPOSE_INIT = 1,    /* initial parameters */
    TG_PURPOSE_SHUFFLE = 2, /* order of samples */
    TG_PURPOSE_DATA = 3,    /* generated data, augmentation */
    TG_PURPOSE_CODEC = 4,   /* stochastic rounding and sampling in codecs */
    TG_PURPOSE_DROPOUT = 5,
    TG_PURPOSE_TEST = 6,
    TG_PURPOSE_FAULT = 7,
    TG_PURPOSE_BASIS = 8,   /* first guesses of low-rank methods */
    TG_PURPOSE_OWNER = 9,   /* as CODEC, where sums are encoded again */
    TG_PURPOSE_CLIENTS = 10 /* which ranks take part in a round */
} tg_purpose;

/* A key names a stream. Streams with different keys are independent. rank is 0 where all ranks must
 * draw the same numbers. */
typedef struct tg_rng_key {
    uint64_t seed;
    uint32_t purpose; /* tg_purpose */
    uint32_t rank;
    uint64_t step;
    uint32_t tensor; /* or any other index of the caller's */
} tg_rng_key;

/* Four 32-bit random words number `counter` of the stream: Philox4x32-10 (Salmon et al., "Parallel
 * random numbers: as easy as 1, 2, 3", SC 2011). The block is a pure function of its arguments, so
 * any element of any tensor can be drawn by any thread in any order.
 * The 64-bit Philox key is derived from the five fields by two Philox blocks. key NULL: zeros. */
TG_API void tg_rng_block(const tg_rng_key *key, uint64_t counter, uint32_t out[4]);

/* One double, uniform in [0, 1) with 53 bits: word pair (counter, 0). */
TG_API double tg_rng_uniform(const tg_rng_key *key, uint64_t counter);

/* One standard normal double by Box-Muller from block `counter`. */
TG_API double tg_rng_normal(const tg_rng_key *key, uint64_t counter);

/* Fisher-Yates shuffle of the numbers 0..n-1 into order (n). key NULL: 0, 1, ..., n-1. */
TG_API void tg_rng_permutation(const tg_rng_key *key, uint32_t *order, size_t n);

/* ---- spec strings ---------------------------------------------------------------------------- */

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

/* ---- trace ----------------------------------------------------------------------------------- */

/* A ring of time spans, written as Chrome trace JSON (chrome://tracing, ui.perfetto.dev): one
 * process per rank, one row per kind of work. Exchanges may run side by side, and have as many rows
 * as that takes; spans of any other row nest, or follow each other. */
typedef enum tg_trace_row {
    TG_ROW_COMPUTE = 0,
    TG_ROW_ENCODE = 1,
    TG_ROW_EXCHANGE = 2,
    TG_ROW_APPLY = 3,
    TG_ROW_WAIT = 4,
    TG_ROW_LAYERS = 5 /* what TG_ROW_COMPUTE is made of */
} tg_trace_row;

typedef struct tg_trace tg_trace;

/* Room for `capacity` spans of layers and as many of all other rows; where one is full its oldest
 * are dropped (and the file says how many). */
TG_API TG_NODISCARD tg_status tg_trace_create(size_t capacity, tg_trace **trace_p);
TG_API void tg_trace_destroy(tg_trace *trace); /* NULL is fine */

/* A copy of text that lives as long as the trace: for names that are no literals. Never freed
 * before, so for set-up. Errors   TG_E_NOMEM Threads  any number at once */
TG_API TG_NODISCARD tg_status tg_trace_name(tg_trace *trace, const char *text, const char **name_p);

/* Record a span [begin_ns, end_ns). name must outlive the trace (a literal, or of tg_trace_name).
 * `step` and `bucket` go to the span's arguments. trace may be NULL (nothing happens). Threads  any
 * number at once, without locks */
TG_API void tg_trace_span(tg_trace *trace, int rank, tg_trace_row row, const char *name,
                          int64_t begin_ns, int64_t end_ns, uint64_t step, uint32_t bucket);

/* Write everything recorded so far to path (written aside, then renamed).
 * Errors   TG_E_IO
 * Threads  no other thread may record at the same time */
TG_API TG_NODISCARD tg_status tg_trace_write(const tg_trace *trace, const char *path);

#ifdef __cplusplus
}
#endif
#endif

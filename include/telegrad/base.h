/* telegrad/base.h - status, error text, version, log.
 *
 * Everything here is usable without a network. Unless a comment says otherwise, a function may be
 * called from any thread, and one object must not be used by two threads at the same time.
 *
 * Of every function in these headers: a pointer argument may be NULL only where its comment says
 * so. Otherwise a function that returns a tg_status returns TG_E_ARG, and tg_error names the
 * function and the argument; one that returns a value returns NULL, 0 or false (a descriptor: -1);
 * one that returns nothing does nothing. */
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

#ifdef __cplusplus
}
#endif
#endif

/* telegrad/base.h - status, error text, version, log. Nothing here needs a network.
 *
 * These rules hold for every function in telegrad's headers, unless its comment says otherwise:
 *
 * Threads   A function may be called from any thread. One object must not be used by two threads at
 *           the same time.
 * NULL      A pointer argument must not be NULL. If it is, a function that returns a tg_status
 *           returns TG_E_ARG, and tg_error names the function and the argument. A function that
 *           returns a value returns NULL, 0 or false (a file descriptor: -1). A function that
 *           returns nothing does nothing.
 * Outputs   Output arguments come last. They are written only if the function returns TG_OK. */
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

/* Every fallible function returns one of these. The values are part of the ABI and are never
 * reused. */
typedef enum tg_status {
    TG_OK = 0,
    TG_E_ARG = 1,         /* an argument is outside its allowed range */
    TG_E_SPEC = 2,        /* a spec string: syntax, unknown name or key, value out of range */
    TG_E_NOMEM = 3,       /* out of memory */
    TG_E_SPACE = 4,       /* the caller's output buffer is too small */
    TG_E_CORRUPT = 5,     /* bytes from a network or a file are damaged or foreign */
    TG_E_VERSION = 6,     /* bytes of another format version */
    TG_E_MISMATCH = 7,    /* ranks, or a checkpoint and a job, are set up differently */
    TG_E_PEER = 8,        /* a rank is dead, stalled or misbehaves; the text names it */
    TG_E_NONFINITE = 9,   /* a gradient, a sum of gradients or an initial parameter is not finite */
    TG_E_STATE = 10,      /* wrong order of calls, or the object failed before */
    TG_E_IO = 11,         /* a file could not be opened, read, written or renamed */
    TG_E_UNSUPPORTED = 12 /* this build, machine or combination cannot do it; the text says why */
} tg_status;

/* The name of a status: "TG_E_PEER" for TG_E_PEER, "TG_E_?" for an unknown number. Never NULL. */
TG_API const char *tg_status_name(tg_status status);

/* The error text of the last call that failed on this thread: what was wrong, with which value, and
 * what is allowed. "" if nothing has failed yet; never NULL. Valid until the next failing call on
 * this thread. */
TG_API const char *tg_error(void);

/* Set this thread's error text and return status. For callbacks, such as those of your own
 * transport.
 * format  as for printf; NULL: the text is the name of the status */
TG_API tg_status tg_fail(tg_status status, const char *format, ...) TG_PRINTF(2, 3);

/* Return from the calling function if expr fails. */
#define TG_TRY(expr)                       \
    do {                                   \
        tg_status tg_try_status_ = (expr); \
        if (tg_try_status_ != TG_OK)       \
            return tg_try_status_;         \
    } while (0)

/* The version of the library at run time, e.g. "0.1.0". TG_VERSION_* is that of the headers. */
TG_API const char *tg_version(void);

/* The instruction set that the kernels use: "ref", "avx2" or "avx512". It is chosen at the first
 * use and then fixed: the best one that the CPU has, or the one that the environment variable
 * TG_CPU names. */
TG_API const char *tg_cpu_level(void);

/* ---- log ------------------------------------------------------------------------------------- */

typedef enum tg_log_level { TG_LOG_ERROR = 0, TG_LOG_WARN = 1, TG_LOG_INFO = 2 } tg_log_level;

/* Set the function that receives the library's messages. The library prints nothing itself.
 * fn       NULL (the default): messages are dropped. It must not call tg_log_set
 * Threads  fn may be called from any thread, by one at a time */
TG_API void tg_log_set(void (*fn)(void *arg, tg_log_level level, const char *message), void *arg);

/* Send a message to the function set by tg_log_set. */
TG_API void tg_log(tg_log_level level, const char *format, ...) TG_PRINTF(2, 3);

#ifdef __cplusplus
}
#endif
#endif

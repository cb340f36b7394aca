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
 * Outputs   Output arguments come last. They are written only if the function returns TG_OK.
 * Floats    The library computes in the default floating-point environment, whatever the caller's
 *           is (denormals flushed to zero, another rounding mode, exceptions unmasked), and gives
 *           the caller's back. So ranks have the same bits even if their environments differ.
 * Callbacks A callback must return: it must not throw a C++ exception, call longjmp or end its
 *           thread. Nor may a thread be cancelled (pthread_cancel) while it is in a call.
 * fork()    A child process must not use or destroy objects of its parent, because their threads
 *           do not exist in it; it may end with _exit or start another program.
 * Stack     A call uses up to 120 KiB of the calling thread's stack.
 *
 * Structures that grow
 *
 * A structure that begins with struct_size may get members in later versions, always at its end. So
 * programs and shared libraries of different versions work together:
 *
 * - Set struct_size to sizeof of the structure, and leave members that you do not know at zero,
 *   which is their default. The library accepts every size from the first version's up to 4096.
 * - From an older program: members that its structure lacks count as zero.
 * - From a newer program: members that this library does not know must be zero. Otherwise the call
 *   fails with TG_E_ARG and names the byte; no setting is ignored silently.
 * - Where the library fills a structure of the caller's, struct_size stays as it is. Members that
 *   the caller's version lacks are not written; those that the library does not know become zero.
 *   Their earlier content is ignored, unless the structure also has members for the caller to set
 *   (tg_step_info).
 * - Where the library hands out a structure of its own, struct_size says how much of it there is.
 *   TG_HAS asks for a member that an older library may lack.
 * - In an array of such structures, the first entry's struct_size is the size of every entry.
 *
 * Other structures never grow. tg_array and tg_link have a struct_size and yet never grow, because
 * other structures contain them: their struct_size must be exactly sizeof. */
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
    TG_E_ARG = 1,       /* an argument is outside its allowed range */
    TG_E_SPEC = 2,      /* a spec string: syntax, unknown name or key, value out of range */
    TG_E_NOMEM = 3,     /* out of memory */
    TG_E_SPACE = 4,     /* the caller's output buffer is too small */
    TG_E_CORRUPT = 5,   /* bytes from a network or a file are damaged or foreign */
    TG_E_VERSION = 6,   /* bytes of another format version */
    TG_E_MISMATCH = 7,  /* ranks, or a checkpoint and a job, are set up differently */
    TG_E_PEER = 8,      /* a rank is dead, stalled or misbehaves; the text names it */
    TG_E_NONFINITE = 9, /* a gradient, a sum of gradients or an initial parameter is not finite */
    TG_E_STATE = 10,    /* wrong order of calls, or the object failed before */
    TG_E_IO = 11,       /* a file could not be opened, read, written or renamed */
    TG_E_UNSUPPORTED = 12, /* this build, machine or combination cannot do it; the text says why */
    TG_E_STOPPED = 13      /* the caller asked to stop (tg_session_request_stop) */
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

/* True if a structure has a member, by its struct_size ("Structures that grow" above).
 * type       of the structure
 * structure  pointer to it
 * member     name of the member: TG_HAS(tg_wait, wait, step) */
#define TG_HAS(type, structure, member) \
    ((structure)->struct_size >= offsetof(type, member) + sizeof((structure)->member))

/* Return from the calling function if expr fails. */
#define TG_TRY(expr)                       \
    do {                                   \
        tg_status tg_try_status_ = (expr); \
        if (tg_try_status_ != TG_OK)       \
            return tg_try_status_;         \
    } while (0)

/* The version of the library at run time, e.g. "0.1.0". TG_VERSION_* is that of the headers. */
TG_API const char *tg_version(void);

/* The instruction set that the kernels use: "ref", "avx2", "avx512" or "neon" (64-bit
 * Arm). It is chosen at the first use and then fixed: the best one that the CPU has, or the one
 * that the environment variable TG_CPU names. If TG_CPU names another one, codecs, reducers and
 * sessions fail with TG_E_UNSUPPORTED. */
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

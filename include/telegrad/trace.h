/* telegrad/trace.h - what ranks do when, as a file that trace viewers read. */
#ifndef TELEGRAD_TRACE_H
#define TELEGRAD_TRACE_H

#include "telegrad/base.h"

#ifdef __cplusplus
extern "C" {
#endif

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

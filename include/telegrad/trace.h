/* telegrad/trace.h - a timeline of what each rank does, as a file for trace viewers. */
#ifndef TELEGRAD_TRACE_H
#define TELEGRAD_TRACE_H

#include "telegrad/base.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The rows of a trace. A trace is a ring of time spans, written as Chrome trace JSON
 * (chrome://tracing, ui.perfetto.dev): one process per rank, one row per kind of work. Exchanges
 * may overlap, so they get as many rows as they need. Spans of the other rows must nest or follow
 * each other. */
typedef enum tg_trace_row {
    TG_ROW_COMPUTE = 0,
    TG_ROW_ENCODE = 1,
    TG_ROW_EXCHANGE = 2,
    TG_ROW_APPLY = 3,
    TG_ROW_WAIT = 4,
    TG_ROW_LAYERS = 5 /* the parts of TG_ROW_COMPUTE */
} tg_trace_row;

typedef struct tg_trace tg_trace;

/* Create a trace.
 * capacity  spans of layers that it holds, and as many of all other rows together; at least 1. When
 *           it is full, the oldest spans are dropped, and the file says how many
 * Errors    TG_E_ARG, TG_E_NOMEM */
TG_API TG_NODISCARD tg_status tg_trace_create(size_t capacity, tg_trace **trace_p);
TG_API void tg_trace_destroy(tg_trace *trace); /* NULL is fine */

/* Copy a name that is not a literal. The copy lives as long as the trace and is not freed earlier,
 * so make it during set-up.
 * Errors   TG_E_NOMEM
 * Threads  any number at once */
TG_API TG_NODISCARD tg_status tg_trace_name(tg_trace *trace, const char *text, const char **name_p);

/* Record a span [begin_ns, end_ns).
 * trace             may be NULL: nothing happens
 * name              must outlive the trace: a literal, or made by tg_trace_name. UTF-8
 * begin_ns, end_ns  nanoseconds of the transport's clock (tg_transport.clock), like the spans that
 *                   the library records itself
 * step, bucket      shown as the span's arguments
 * Threads           any number at once, without locks */
TG_API void tg_trace_span(tg_trace *trace, int rank, tg_trace_row row, const char *name,
                          int64_t begin_ns, int64_t end_ns, uint64_t step, uint32_t bucket);

/* Write everything recorded so far to path. The file is written under another name and then
 * renamed.
 * Errors   TG_E_IO
 * Threads  no other thread may record at the same time */
TG_API TG_NODISCARD tg_status tg_trace_write(const tg_trace *trace, const char *path);
/* The same to a stream, which is left open. A failed write sets its error indicator.
 * Errors   TG_E_NOMEM
 * Threads  as above */
TG_API TG_NODISCARD tg_status tg_trace_print(const tg_trace *trace, FILE *out);

#ifdef __cplusplus
}
#endif
#endif

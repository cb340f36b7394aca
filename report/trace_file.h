/* The spans of a trace written by telegrad train --trace. */
#ifndef TG_REPORT_TRACE_FILE_H
#define TG_REPORT_TRACE_FILE_H

#include <jansson.h>
#include "telegrad/base.h"

typedef enum span_row {
    SPAN_COMPUTE,
    SPAN_WAIT,
    SPAN_APPLY,
    SPAN_ENCODE,
    SPAN_EXCHANGE,
    SPAN_ROWS
} span_row;

extern const char *const span_row_names[SPAN_ROWS];

typedef struct trace_span {
    const char *name;  /* points into the file's JSON */
    double begin, end; /* microseconds */
    uint64_t step;
    int rank; /* counted from the file's first rank */
    int bucket;
    span_row row;
} trace_span;

typedef struct trace_file {
    json_t *json;
    trace_span *spans; /* (count), ordered by begin */
    size_t count;
    int first_rank; /* under mpirun each process writes its own file */
} trace_file;

/* Errors TG_E_IO, TG_E_NOMEM, TG_E_CORRUPT: not such a trace; the message names the file and the
 * event */
TG_NODISCARD tg_status trace_file_read(const char *path, trace_file *t_p);
void trace_file_free(trace_file *t); /* frees the contents; t may be all zero */

#endif

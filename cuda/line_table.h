/* Tables of lines in device memory. */
#ifndef TG_CUDA_LINE_TABLE_H
#define TG_CUDA_LINE_TABLE_H

#include "cuda_impl.h"
#include "lines.h"

/* Make the table of these lines, whose member `chunk` is set here. Waits. */
TG_NODISCARD tg_status tg__lines_make(tg_queue *q, tg__line *line, size_t count, tg__lines *lines);
void tg__lines_free(tg__lines *lines);

#endif

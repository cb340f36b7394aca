/* Checks of the caller's segments: the tensors in a vector. */
#ifndef TG_CODEC_SEGMENTS_H
#define TG_CODEC_SEGMENTS_H

#include "telegrad/codec.h"

/* Check that the segments follow each other without gaps and cover n elements.
 * what      names them in messages: "tg_reducer_create: config->"
 * least     elements of the smallest segment allowed
 * Errors    TG_E_ARG */
TG_NODISCARD tg_status tg__segments_check(const char *what, const tg_segment *segments,
                                          size_t count, size_t n, size_t least);

#endif

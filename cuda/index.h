/* The index codes of sparse frames, and the way of a frame to the host. */
#ifndef TG_CUDA_INDEX_H
#define TG_CUDA_INDEX_H

#include "sparse_values.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the host must know. Pinned memory. */
typedef struct tg__topk_report {
    uint64_t len;                                 /* of the coded frame; 0: there is none */
    uint32_t bad;                                 /* g is not finite: nothing has been done */
    uint32_t go, low, total, keep, kth, infinite; /* as in the state */
    uint32_t coding, param, dense;
} tg__topk_report;

/* Write the index code of a frame whose values have been written. */
cudaError_t tg__index_put(const tg__sparse_frame *f, cudaStream_t stream);
/* Copy the frame, if it is coded, from its values on, to dst, and the report.
 * dst  memory that the device reaches
 * most an upper bound of the frame's length */
cudaError_t tg__frame_out(const tg__sparse_frame *f, const uint64_t *bad, uint8_t *dst, size_t most,
                          tg__topk_report *report, cudaStream_t stream);

/* Bytes that the index code of k of n can take, in any coding that fits it. */
size_t tg__index_most(int index, size_t n, size_t k);
/* Read the indices of a frame that has been checked, on the host. If the bytes have changed since,
 * all are below n nevertheless.
 * idx  (k) */
void tg__index_take(int coding, unsigned param, size_t n, size_t k, const uint8_t *src, size_t len,
                    uint32_t *idx);

#ifdef __cplusplus
}
#endif
#endif

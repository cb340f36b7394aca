/* Kernels of the codec 2bit. */
#ifndef TG_CUDA_TWOBIT_H
#define TG_CUDA_TWOBIT_H

#include "lines.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a pass reports of a line. */
typedef struct tg__twobit_count {
    uint32_t sent, late; /* late: in the sample of blocks of threshold_auto.c */
    uint32_t nonzero;    /* 1: some element is not 0 */
} tg__twobit_count;

/* The planes of all lines. If bad is not UINT64_MAX, nothing is changed. */
typedef struct tg__twobit_pass {
    const uint64_t *bad;
    float *r; /* NULL: the codes of g; else those of r + g, and r keeps the remainder */
    const float *g;
    bool added;              /* r has g already */
    float ahead;             /* codes of r + ahead * g, with r after the addition; r NULL: 0 */
    const float *threshold;  /* (lines) */
    uint8_t *planes;         /* each line's at its member `at` */
    tg__twobit_count *count; /* (lines) the numbers are added to these */
    uint32_t *spoilt;        /* [out] 1 if some element is not finite; else unchanged */
} tg__twobit_pass;
cudaError_t tg__twobit_encode(const tg__lines *lines, const tg__twobit_pass *p,
                              cudaStream_t stream);

/* Runs of a frame: each ends where the next one begins, the last one at `end`. */
enum { TG__TWOBIT_RUNS = 128 };
typedef struct tg__twobit_run {
    uint32_t begin, at; /* at: offset of its planes */
    float threshold;
} tg__twobit_run;
typedef struct tg__twobit_runs {
    uint32_t count, end;
    tg__twobit_run run[TG__TWOBIT_RUNS];
} tg__twobit_runs;
/* As tg__coder_ops.decode, for the elements of these runs. planes is aligned to 2 bytes. */
cudaError_t tg__twobit_decode(const tg__twobit_runs *runs, const uint8_t *planes, float *x,
                              bool first, bool last, float share, uint64_t *spoilt,
                              cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif

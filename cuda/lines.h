/* Lines: consecutive elements of a vector whose sums are formed together, such as a tensor or a row
 * of its matrix. Sums are those of src/kernel: chunks of 65,536 elements from the line's first one,
 * 16 lanes of f64 in each, lanes and chunks in order. */
#ifndef TG_CUDA_LINES_H
#define TG_CUDA_LINES_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { TG__LINE_CHUNK = 65536, TG__LINE_PIECE = 8192 };

typedef struct tg__line {
    uint32_t begin, n; /* elements [begin, begin + n) */
    uint32_t at;       /* its bits, or planes, begin at this byte */
    uint32_t chunk;    /* its first one */
    uint32_t value;    /* its first value is this one */
} tg__line;

/* A chunk or a piece: elements from lo on of a line. */
typedef struct tg__span {
    uint32_t line, lo;
} tg__span;

/* Device memory, all in one block. A piece is the work of a block of an elementwise kernel. */
typedef struct tg__lines {
    uint32_t count, chunks, pieces;
    const tg__line *line;
    const tg__span *chunk, *piece;
    double *sums;    /* (chunks) pairs */
    uint32_t *below; /* (chunks) */
    void *memory;    /* starts the block */
} tg__lines;

/* What is summed: x^2; |x|; the elements below t, and the others. */
typedef enum tg__line_sum { TG__LINE_SQUARES, TG__LINE_ABS, TG__LINE_SPLIT } tg__line_sum;

/* If bad is not UINT64_MAX, nothing is changed. */
typedef struct tg__line_pass {
    const uint64_t *bad;
    float *x;
    const float *g;   /* NULL: x is only read; else x += g first */
    const float *t;   /* (lines) NULL: all 0 */
    uint8_t *bits;    /* [out] x < t, a bit for each element; NULL: not wanted */
    uint32_t *spoilt; /* [out] 1 if some x is not finite; else unchanged */
} tg__line_pass;
cudaError_t tg__line_sums(tg__line_sum what, const tg__lines *lines, const tg__line_pass *p,
                          cudaStream_t stream);

/* What becomes of the sums of a line:
 *     threshold  of 2bit, where it is 0: the root of mean x^2 / target, bounded and rounded
 *     scale      the mean |x|
 *     mean       of all elements
 *     pair       the means of the elements below 0 and of the others
 *     spread     the pair t + d, t - d, d the mean of |x - t|
 *     factor     of clip: target / norm, if all x are finite and the norm exceeds target; else 1 */
typedef enum tg__line_result {
    TG__LINE_THRESHOLD,
    TG__LINE_SCALE,
    TG__LINE_MEAN,
    TG__LINE_PAIR,
    TG__LINE_SPREAD,
    TG__LINE_FACTOR
} tg__line_result;
typedef struct tg__line_finish {
    const uint64_t *bad;
    tg__line_result result;
    double target;  /* threshold, factor */
    const float *t; /* (lines) spread */
    float *value;   /* threshold, mean and factor: (lines); else at each line's `value` */
} tg__line_finish;
cudaError_t tg__line_results(const tg__lines *lines, const tg__line_finish *f, cudaStream_t stream);

/* x -= x < t ? minus : plus, with the values of its line: plus, minus; or (single) plus alone, and
 * minus = 0 - plus. Before that the bits of x < t, if wanted. */
typedef struct tg__line_settling {
    const uint64_t *bad;
    float *x;
    const float *t;      /* (lines) NULL: all 0 */
    const float *value;  /* at each line's `value` */
    uint8_t *bits;       /* NULL: not wanted */
    bool single, settle; /* settle: else x is only read */
} tg__line_settling;
cudaError_t tg__line_settle(const tg__lines *lines, const tg__line_settling *s,
                            cudaStream_t stream);

/* out = x * factor (lines). A factor of 1 leaves the bits of NaNs, too. */
cudaError_t tg__line_scale(const tg__lines *lines, const float *x, const float *factor, float *out,
                           cudaStream_t stream);

/* x += g, the elements of each line from its `value` on; then, if there is g, x = 0. */
typedef struct tg__line_taking {
    const uint64_t *bad;
    float *x;
    const float *g; /* NULL: x is only read */
    float *value;
    uint32_t *spoilt; /* [out] 1 if some x is not finite; else unchanged */
} tg__line_taking;
cudaError_t tg__line_take(const tg__lines *lines, const tg__line_taking *t, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif

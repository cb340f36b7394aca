/* The loops over elements: one table of functions per instruction set, chosen once.
 *
 * Bits        The functions of level "ref" are the specification. Every other level gives the same
 *             bits for every input, including infinities, subnormals, -0, and NaN (except
 *             payloads). No function uses fused multiply-add.
 * Reductions  run over chunks of 65,536 elements with 16 virtual lanes; element i of a chunk
 *             belongs to lane i % 16. Lanes are combined in order 0..15, and chunks in order.
 * Arrays      have n elements, which may be 0, at any alignment (4 bytes for float). Arrays of a
 *             call must not overlap, unless the comment allows it. Nothing outside of them is
 *             accessed.
 * Threads     any; all are pure functions of their arguments */
#ifndef TG_KERNEL_H
#define TG_KERNEL_H

#include "telegrad/base.h"

#define TG__CHUNK 65536u /* elements per chunk of a reduction */
#define TG__LANES 16u

typedef struct tg__stats {
    double sum_sq;  /* sum of squares, accumulated in f64 lanes; NaN unless finite */
    double sum_abs; /* sum of |x|, likewise */
    bool finite;    /* no NaN, no infinity */
} tg__stats;

typedef struct tg__moments {
    double sum, sum_sq;
} tg__moments;

typedef struct tg__bins {
    double sum;   /* of the bins' maxima, in order */
    size_t count; /* bins that are not all 0 */
} tg__bins;
/* 16-bit random numbers for the elements of a vector. Element i has position e = i % 128 in group i
 * / 128. Its number is half-word e / 16 (the low half of a word first) of block 16 * (i / 128) + e
 * % 16 of a Philox stream (base/philox.h). */
typedef struct tg__draws {
    uint32_t key[2];
    unsigned rounds; /* Philox rounds: 7 or 10 */
    uint64_t first;  /* i of the first element of the call */
} tg__draws;
#define TG__COLUMN_BLOCK 8u /* rows that a column's sum combines at once */

typedef struct tg__split {
    double below, above; /* sums of the elements below the threshold and of the others */
    uint64_t nbelow;
} tg__split;

/* The parameters of one step of Adam, each as the f32 that enters the arithmetic. */
typedef struct tg__adam {
    float keep;           /* factor of w before the update: 1 - eta * decoupled weight decay */
    float wd;             /* coupled weight decay */
    float b1, c1, b2, c2; /* betas, and 1 - beta of each */
    float eta;            /* rate over the first moment's bias correction */
    float root;           /* 1 / square root of the second moment's bias correction */
    float eps;
} tg__adam;

/* The parameters of a delay-compensated step. */
typedef struct tg__dcasgd {
    float eta, wd, lambda;
    float share; /* factor of the gradient */
} tg__dcasgd;

/* A piece of a (rows, cols) matrix and of two skinny factors with `rank` columns each. Factors are
 * finite and stored column by column: column k of the left factor has row i at [k * left_stride +
 * i], and column k of the right factor has the matrix's column i at [k * right_stride + i]. */
typedef struct tg__skinny {
    size_t rows, cols, rank;          /* rank >= 1 */
    size_t stride;                    /* of the matrix: elements from row to row */
    size_t left_stride, right_stride; /* >= rows, >= cols of the whole */
    bool past_caches; /* skinny_expand: out is too large to stay in the caches until it is read */
} tg__skinny;
#define TG__SKINNY_STRIP 16384u /* columns that a row's sum combines at once */
#define TG__SKINNY_ROWS 8u      /* rows that a column's sum combines at once */

typedef struct tg__kernels {
    const char *level; /* of tg__kernel_levels */

    /* dst += src */
    void (*add)(float *dst, const float *src, size_t n);
    /* dst += a * x (product rounded, then sum rounded) */
    void (*axpy)(float *dst, float a, const float *x, size_t n);
    /* dst *= a */
    void (*scale)(float *dst, float a, size_t n);
    /* dst -= src */
    void (*sub)(float *dst, const float *src, size_t n);

    /* max |x|, 0 for n = 0; NaN elements are ignored */
    float (*abs_max)(const float *x, size_t n);
    /* True if no element is NaN or infinite. */
    bool (*all_finite)(const float *x, size_t n);
    /* Copy src to dst (NULL: do not copy) and compute its statistics, in one pass. */
    void (*copy_stats)(float *dst, const float *src, size_t n, tg__stats *stats);
    /* Sums of x - from and of its squares, in f64 lanes; both NaN unless all of x is finite. */
    void (*moments)(const float *x, size_t n, float from, tg__moments *sums);

    /* Threshold and compact: indices (ascending) and values of the elements with |x| >= threshold
     * and x != 0. NaN is never selected. Stores the first `cap` of them; returns their total
     * number.
     * n          < 2^32
     * threshold  >= 0
     * idx, val   room for cap + TG__SELECT_SLACK entries, because whole vectors are stored */
    size_t (*select)(const float *x, size_t n, float threshold, uint32_t *idx, float *val,
                     size_t cap);
    /* The same for the scores x + ahead * g, which are also the values. */
    size_t (*ahead_select)(const float *x, const float *g, size_t n, float ahead, float threshold,
                           uint32_t *idx, float *val, size_t cap);
    /* r += g, then select on the scores r + ahead * g, in one pass. ahead = 0: on r, if g is
     * finite */
    size_t (*add_select)(float *r, const float *g, size_t n, float ahead, float threshold,
                         uint32_t *idx, float *val, size_t cap);
    /* DGC's momentum correction and selection in one pass (Lin et al. 2018, alg. 4):
     * u = m*u + g; v = v + u; Nesterov: u = m*(u + g); v = (v + u) + g. Then select on the scores
     * v + ahead * u; ahead = 0: on v. */
    size_t (*dgc_select)(float *u, float *v, const float *g, size_t n, float m, bool nesterov,
                         float ahead, float threshold, uint32_t *idx, float *val, size_t cap);
    /* The same correction, and the sum of the new |v| in f64 lanes and chunks (NaN unless finite),
     * in one pass. CSC chooses chunks by it. */
    double (*dgc_sum_abs)(float *u, float *v, const float *g, size_t n, float m, bool nesterov);
    /* AdaComp's selection: indices (ascending) and values x of the elements with x != 0 and
     * |x + g| >= max |x| of their bin. Bins have `bin` elements (> 0); the last may be shorter. g
     * may be x. idx, val, cap and the result are as for select. */
    size_t (*adacomp_select)(const float *x, const float *g, size_t n, size_t bin, uint32_t *idx,
                             float *val, size_t cap, tg__bins *bins);
    /* hist[b] += number of x with (bits of |x|) >> 20 == b; hist has 2048 entries. NaN is counted
     * by its bits as well. */
    void (*histogram)(const float *x, size_t n, uint32_t *hist);
    /* dst[idx[i]] += val[i] for i < k, in order. Indices must be distinct and in range. */
    void (*scatter_add)(float *dst, const uint32_t *idx, const float *val, size_t k);

    /* 2-bit codes of p as bit planes. Block b of 64 elements is two little-endian 64-bit masks, of
     * p >= tau and then of p <= -tau; bit i is element 64b + i. A last block of m < 64 elements has
     * masks of ceil(m/8) bytes each, with unused bits 0. (MXNet's kvstore 2-bit compression, laid
     * out differently.)
     * tau    > 0
     * bytes  [out] (tg__twobit_bytes(n)) */
    void (*twobit_encode)(const float *p, size_t n, float tau, uint8_t *bytes);
    /* The codes of the scores p + ahead * g. */
    void (*twobit_ahead_encode)(const float *p, const float *g, size_t n, float ahead, float tau,
                                uint8_t *bytes);
    /* r += g, codes of the scores r + ahead * g, r -= tau * code, in one pass. ahead = 0: codes of
     * r, without a product, which could be NaN. */
    void (*twobit_add_encode)(float *r, const float *g, size_t n, float ahead, float tau,
                              uint8_t *bytes);
    /* dst += tau * code. Bits set in both planes count as 0 (the frame check rejects them). */
    void (*twobit_decode_add)(float *dst, const uint8_t *bytes, size_t n, float tau);
    /* dst = tau * code */
    void (*twobit_decode)(float *dst, const uint8_t *bytes, size_t n, float tau);
    /* True if no bit is set in both planes, and none beyond n. */
    bool (*twobit_valid)(const uint8_t *bytes, size_t n);
    /* The number of bits set. */
    size_t (*count_bits)(const uint8_t *bytes, size_t len);

    /* Signs, one bit per element: bit i is x[i] < t, at bit i % 8 of byte i / 8, in ceil(n / 8)
     * bytes whose bits beyond n are 0. In the functions below `first` < 8 is the bit of element 0.
     * Thresholds and values are not NaN. */
    void (*sign_pack)(const float *x, size_t n, float t, uint8_t *bits);
    /* dst = (add: +=) bit ? minus : plus */
    void (*sign_decode)(float *dst, const uint8_t *bits, size_t first, size_t n, float plus,
                        float minus);
    void (*sign_decode_add)(float *dst, const uint8_t *bits, size_t first, size_t n, float plus,
                            float minus);
    /* x -= x < t ? minus : plus */
    void (*sign_settle)(float *x, size_t n, float t, float plus, float minus);
    /* Majority vote: dst = -1, 0 (a tie, or no voters) or 1. A bit of 1 votes for -1.
     * bits    (voters) each voter's bits begin at byte `at`
     * voters  < 2^31 */
    void (*vote)(float *dst, const uint8_t *const *bits, size_t voters, size_t at, size_t n);
    /* x = its sign: -1, 0 or 1; 0 for NaN */
    void (*sign_of)(float *x, size_t n);
    /* x += g, then the sum of |x| in f64 lanes and chunks; NaN unless finite. If g is NULL, x is
     * only read. */
    double (*sum_abs)(float *x, const float *g, size_t n);
    /* Sums of the elements below t and of all others, and their number, in lanes and chunks. */
    void (*split_sums)(const float *x, size_t n, float t, tg__split *s);
    /* x += g, then the same for each column of a matrix, in blocks of TG__COLUMN_BLOCK rows; each
     * block is summed in f64 from 0 in the order of its rows. If g is NULL, x is only read.
     * stride                elements from row to row
     * t                     (cols)
     * below, above, nbelow  (cols) the sums and numbers are added to these */
    void (*column_sums)(float *x, const float *g, size_t stride, size_t rows, size_t cols,
                        const float *t, double *below, double *above, uint32_t *nbelow);
    /* Adds to sums, for each column; in f64, in the same blocks.
     * weights  (rows) finite, not negative
     * sums     (4)(cols) of weight * x of the elements below 0, of the others, of weight^2 below 0,
     *          of the others */
    void (*column_weigh_signs)(const float *x, size_t stride, size_t rows, size_t cols,
                               const float *weights, double *const sums[4]);
    /* Bits of x < t, by rows. If subtract: x -= x < t ? minus : plus; else x is only read.
     * t, plus, minus  (cols)
     * weights         (rows) the three are multiplied by these, in f32; NULL: they are not
     * bits            [out] ceil(cols / 8) bytes for each row, row_bytes apart */
    void (*column_settle)(float *x, size_t stride, size_t rows, size_t cols, const float *t,
                          const float *plus, const float *minus, const float *weights,
                          uint8_t *bits, size_t row_bytes, bool subtract);
    /* dst[i] = (add: +=) weight * (bit ? minus[i] : plus[i]). plus and minus are little-endian f32
     * at any alignment. */
    void (*column_decode)(float *dst, const uint8_t *bits, size_t first, size_t n, float weight,
                          const uint8_t *plus, const uint8_t *minus);
    void (*column_decode_add)(float *dst, const uint8_t *bits, size_t first, size_t n, float weight,
                              const uint8_t *plus, const uint8_t *minus);

    /* Words of 2 bytes, little-endian, at any alignment. IEEE binary16, rounded to nearest even.
     * Finite values beyond +-65504 (after rounding) become +-65504; infinities stay; NaN becomes
     * the quiet NaN 0x7e00 with its sign. */
    void (*f16_encode)(void *dst, const float *src, size_t n);
    void (*f16_decode)(float *dst, const void *src, size_t n);
    void (*f16_decode_add)(float *dst, const void *src, size_t n);
    /* bfloat16, rounded to nearest even. A finite value that would round to infinity becomes the
     * largest finite one; NaN becomes 0x7fc0 with its sign. */
    void (*bf16_encode)(void *dst, const float *src, size_t n);
    void (*bf16_decode)(float *dst, const void *src, size_t n);
    void (*bf16_decode_add)(float *dst, const void *src, size_t n);

    /* Codes of one byte: x * inverse, clamped to +-levels (NaN counts as +levels) and rounded to
     * nearest even. levels <= 127 */
    void (*quant_nearest)(int8_t *codes, const float *x, size_t n, float inverse, int levels);
    /* The same with stochastic rounding: t = x * (65536 inverse) rounded to nearest even, then
     * code = floor((t + draw) / 65536), clamped to +-levels. t is INT32_MIN if the product is NaN
     * or does not fit into an int32; sums that do not fit wrap around. */
    void (*quant_random)(int8_t *codes, const float *x, size_t n, float inverse, int levels,
                         const tg__draws *draws);
    /* dst = code * unit */
    void (*quant_decode)(float *dst, const int8_t *codes, size_t n, float unit);
    void (*quant_decode_add)(float *dst, const int8_t *codes, size_t n, float unit);
    /* Pack the low `width` bits (1..8) of each code in the layout of pack.h; and unpack them,
     * extending the sign bit of widths below 8.
     * bytes  (tg__packed_bytes(n, width)) */
    void (*pack)(uint8_t *bytes, const int8_t *codes, size_t n, unsigned width);
    void (*unpack)(int8_t *codes, const uint8_t *bytes, size_t n, unsigned width);
    /* dst = src clamped to +-limit; NaN becomes limit. dst may be src. */
    void (*clamp)(float *dst, const float *src, size_t n, float limit);

    /* w = w - eta * (g + wd * w) */
    void (*sgd)(float *w, const float *g, size_t n, float eta, float wd);
    /* d = g + wd*w; u = m*u + d; w = w - eta * (nesterov ? d + m*u : u) */
    void (*sgd_momentum)(float *w, float *u, const float *g, size_t n, float eta, float m, float wd,
                         bool nesterov);
    /* dst = w - eta * (g + wd * w)   (dst may be w) */
    void (*sgd_to)(float *dst, const float *w, const float *g, size_t n, float eta, float wd);
    /* dst = the result of sgd_momentum for w; u is only read   (dst may be w): CD-SGD's
     *                                                          local=preview */
    void (*sgd_preview_to)(float *dst, const float *w, const float *u, const float *g, size_t n,
                           float eta, float m, float wd, bool nesterov);

    /* d = g + wd*w; m = b1*m + c1*d; v = b2*v + c2*(d*d);
     * w = keep*w - (eta*m) / (root*sqrt(v) + eps)   (root and quotient are exactly rounded) */
    void (*adam)(float *w, float *m, float *v, const float *g, size_t n, const tg__adam *a);
    /* dst = the result of adam for w; m and v are only read   (dst may be w) */
    void (*adam_preview_to)(float *dst, const float *w, const float *m, const float *v,
                            const float *g, size_t n, const tg__adam *a);
    /* LARS's momentum, with the rate inside: u = m*u + eta * (g + wd*w); w = w - u */
    void (*lars)(float *w, float *u, const float *g, size_t n, float eta, float m, float wd);
    /* dst = the result of lars for w; u is only read   (dst may be w) */
    void (*lars_preview_to)(float *dst, const float *w, const float *u, const float *g, size_t n,
                            float eta, float m, float wd);

    /* dst = a - b   (dst may be a or b) */
    void (*sub_to)(float *dst, const float *a, const float *b, size_t n);
    /* p = p - u; u = 0; w = a - p: DGA's own update u is no longer pending */
    void (*settle)(float *w, const float *a, float *p, float *u, size_t n);
    /* d = from - w; p = p + d; u = u + d: DGA's own update becomes pending, and is stored */
    void (*go_on)(float *p, float *u, const float *from, const float *w, size_t n);
    /* w = keep*w + rest*a */
    void (*mix)(float *w, const float *a, size_t n, float keep, float rest);
    /* v = m*v + mean; a = a - lr * (mean + m*v): DiLoCo's outer step */
    void (*nesterov)(float *a, float *v, const float *mean, size_t n, float lr, float m);
    /* own = share*g;  w = global - eta * ((own + wd*global) + lambda*own*own * (global - w)) */
    void (*dcasgd)(float *w, const float *global, const float *g, size_t n, const tg__dcasgd *d);
    /* w = w*keep - eta * (x > 0 ? 1 : x < 0 ? -1 : 0) */
    void (*sign_step)(float *w, const float *x, size_t n, float keep, float eta);

    /* PowerSGD's passes (Vogels et al. 2019). A product of factors, written left right^T, is
     * left[0] right[0] + left[1] right[1] + ..., added in this order.
     *
     * m = (m - left right^T) + g;  p = m q, in one pass: subtract what the last step sent, add the
     * gradient, and project the result. Rows are summed in 16 lanes over strips of TG__SKINNY_STRIP
     * columns; lanes are folded in halves (l + 8, then 4, 2, 1), and strips are added in order. g
     * has the layout of m; left, p (rows) and right, q (cols) have the strides of s. */
    void (*skinny_fold)(const tg__skinny *s, float *m, const float *g, const float *left,
                        const float *right, const float *q, float *p);
    /* q = m^T p: blocks of TG__SKINNY_ROWS rows, each summed in the order of its rows, added in
     * order. */
    void (*skinny_project)(const tg__skinny *s, const float *m, const float *p, float *q);
    /* out = p q^T */
    void (*skinny_expand)(const tg__skinny *s, float *out, const float *p, const float *q);
    /* The sum of x * y, in f64 lanes and chunks. */
    double (*dot)(const float *x, const float *y, size_t n);

    /* CRC-32C (Castagnoli, reflected, initial and final complement): start with crc = 0 and chain.
     */
    uint32_t (*crc32c)(uint32_t crc, const void *bytes, size_t len);
} tg__kernels;

#define TG__SELECT_SLACK 64u

/* Bytes of the 2-bit code of n elements. */
static inline size_t tg__twobit_bytes(size_t n)
{
    return n / 64 * 16 + (n % 64 + 7) / 8 * 2;
}

/* The table in use. The first call chooses it: the CPU's best level, or TG_CPU=LEVEL. May be called
 * from several threads at once. Never NULL. */
const tg__kernels *tg__kernel(void);

/* Check TG_CPU. Objects that compute call this when created.
 * Errors  TG_E_UNSUPPORTED if TG_CPU requests a level that is unknown or that this CPU lacks (then
 *         tg__kernel() is the CPU's best level) */
TG_NODISCARD tg_status tg__kernel_check(void);

/* The names of all levels, including those of other CPUs; NULL ends the list. */
extern const char *const tg__kernel_levels[];

/* The table of one level for tests and benchmarks: NULL if this CPU or build lacks it. */
const tg__kernels *tg__kernel_level(const char *level);

#endif

/* The loops of gemm16.c over packed operands, one variant for CPUs with avx512_bf16 and one in
 * plain C, which differ in the order of sums alone.
 *
 * A line is a row of a left operand or a column of a right one. A panel is `width` lines: for each
 * pair of steps along the sum GEMM16_LANES(width) x 2 bf16; 0 where there is no step, anything
 * where there is no line. */
#ifndef TG_NN_GEMM16_KERNELS_H
#define TG_NN_GEMM16_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GEMM16_ROWS 14    /* lines of a left panel */
#define GEMM16_COLUMNS 32 /* and of a right one */
#define GEMM16_LANES(width) (((width) + 15) / 16 * 16)

/* Of the result: one left panel with one right panel. */
typedef struct gemm16_tile {
    size_t rows, columns; /* that there are */
    float *c;             /* rows ldc apart */
    size_t ldc;
    bool add;         /* to what is in c, else it is overwritten */
    const float *row; /* (columns) without add: what each row starts from; NULL: 0 */
} gemm16_tile;

typedef struct gemm16_kernels {
    /* `steps` elements of each of `lines` lines as panels of (steps + 1) / 2 pairs, one after
     * another. Element s of line l is x[l * ld + s] if along, x[s * ld + l] if not. */
    void (*pack)(size_t width, size_t lines, size_t steps, const float *x, size_t ld, bool along,
                 uint16_t *panels);

    void (*tile)(size_t pairs, const uint16_t *left, const uint16_t *right, const gemm16_tile *t);
} gemm16_kernels;

extern const gemm16_kernels gemm16_kernels_ref;
#if defined(__x86_64__)
extern const gemm16_kernels gemm16_kernels_avx512bf16;
#endif

#endif

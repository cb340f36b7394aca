/* The loops of conv16.c, one variant for CPUs with avx512_bf16 and one in plain C with the same
 * bits (but for denormal numbers).
 *
 * Planes are those of 16 channels, (height, width). Their rows are laid down `pitch` = width + 1
 * places apart: the column of zeros between two rows pads both. */
#ifndef TG_NN_CONV16_KERNELS_H
#define TG_NN_CONV16_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A plane as it comes: pixels begin `pixel` floats apart. */
typedef struct conv16_plane {
    const float *x;
    size_t height, width, pixel;
} conv16_plane;

/* Of some channels of the input with 16 or 32 channels of the output, and one row of the kernel. */
typedef struct conv16_sum {
    size_t samples;
    size_t pairs; /* of places of an output plane */
    const uint16_t
        *left; /* lines of the input's channels, `line` apart, from the kernel's row on */
    size_t line, left_next;   /* left_next: to the next sample */
    const uint16_t *right[2]; /* pairs of the output's channels; [1] NULL: 16 of them */
    size_t right_next;
    float *sums; /* (channels, 3, columns): the kernel's columns; added to */
    size_t columns;
} conv16_sum;

/* Of some places that follow one another in a row of the output, with 16 or 32 of its channels. */
typedef struct conv16_row {
    size_t blocks;          /* of 16 channels of the input */
    const uint16_t *padded; /* of the first one, where the first place's window begins */
    size_t pitch, next;     /* elements to the next row, and to the next block */
    const uint16_t
        *weights[2]; /* of 16 channels of the output, as `weights` makes them; [1] NULL */
    size_t places;   /* that are written: 1 to CONV16_MANY, with 32 channels CONV16_FEW */
    float *dst[2];
    size_t pixel; /* floats to the next place */
} conv16_row;

#define CONV16_MANY 16
#define CONV16_FEW 8

/* Channels of the input: with 16 of the output, with 32. */
#define CONV16_MOST 8
#define CONV16_FEWER 4

typedef struct conv16_kernels {
    /* Rounded to lines (16, line): place (y, x) of a channel is element (y + 1) pitch + x + 1 of
     * its line. The rest is not written. */
    void (*lines)(const conv16_plane *p, size_t line, uint16_t *lines);
    /* Rounded to pairs of places y pitch + x, each (16, 2). */
    void (*pairs)(const conv16_plane *p, uint16_t *pairs);
    /* Rounded to (height, pitch, 16): place (y, x) is at y pitch + x. */
    void (*places)(const conv16_plane *p, uint16_t *places);
    /* Kernels of 16 channels of the output and 16 of the input: w[o * out_next + i * in_next + k],
     * k the place 0 to 8, backwards if turned. Rounded to (9, 8, 16, 2): k, i / 2, o, i % 2. */
    void (*weights)(const float *w, size_t out_next, size_t in_next, bool turned,
                    uint16_t *weights);
    /* dst[o] = sum over i and k: weights padded */
    void (*row)(const conv16_row *r);
    /* sums[c][k][o] += sum over samples and places q: left[c][q + k] right[q][o] */
    void (*sum)(const conv16_sum *s);
} conv16_kernels;

extern const conv16_kernels conv16_kernels_ref;
#if defined(__x86_64__)
extern const conv16_kernels conv16_kernels_avx512bf16;
#endif

#endif

/* The kernels of norm_kernels.h in vectors of 16 floats, which the compiler splits into the
 * registers of the including file's instruction set. Define NORM_TABLE before including. */
#define LANES 16
#include "trainer/nn/norm_kernels.h"
#include "trainer/nn/vector.h"

/* v where test > 0, else 0. */
INLINE void pass_positive(vec *v, const vec *test)
{
    *v = (vec)((bits)*v & (*test > 0));
}

INLINE void fold(const vec part[4], vec *sum)
{
    *sum = (part[0] + part[1]) + (part[2] + part[3]);
}

/* ---- strips of n <= 16 channels, with row stride `width` ------------------------------------- */

INLINE void moments_strip(size_t rows, size_t width, size_t n, const float *x, float *mean_p,
                          float *m2_p)
{
    vec part[4] = {{0}}, v, mean, m2;
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        for (size_t k = 0; k < 4; k++) {
            load(&v, x + (r + k) * width, n);
            part[k] += v;
        }
    }
    for (; r < rows; r++) {
        load(&v, x + r * width, n);
        part[0] += v;
    }
    fold(part, &mean);
    mean /= (float)rows;
    memset(part, 0, sizeof part);
    for (r = 0; r + 4 <= rows; r += 4) {
        for (size_t k = 0; k < 4; k++) {
            load(&v, x + (r + k) * width, n);
            v -= mean;
            part[k] += v * v;
        }
    }
    for (; r < rows; r++) {
        load(&v, x + r * width, n);
        v -= mean;
        part[0] += v * v;
    }
    fold(part, &m2);
    store(mean_p, &mean, n);
    store(m2_p, &m2, n);
}

/* A strip's constants in registers. */
typedef struct strip {
    vec mean, scale, shift;
} strip;

INLINE void strip_load(strip *s, const norm_channels *c, size_t at, size_t n)
{
    load(&s->mean, c->mean + at, n);
    load(&s->scale, c->scale + at, n);
    load(&s->shift, c->shift + at, n);
}

INLINE void apply_strip(size_t rows, size_t width, size_t at, size_t n, const norm_channels *c,
                        bool relu, const float *x, const float *shortcut, float *y)
{
    strip s;
    strip_load(&s, c, at, n);
    for (size_t r = 0; r < rows; r++) {
        vec v, other;
        load(&v, x + r * width + at, n);
        v = (v - s.mean) * s.scale + s.shift;
        if (shortcut) {
            load(&other, shortcut + r * width + at, n);
            v += other;
        }
        if (relu)
            pass_positive(&v, &v);
        store(y + r * width + at, &v, n);
    }
}

/* One row: g as in norm_kernels.h, d = x - mean. */
INLINE void gradient(const strip *s, size_t n, bool relu, const float *x, const float *y,
                     const float *dy, const float *dy2, vec *g, vec *d)
{
    vec test;
    load(d, x, n);
    load(g, dy, n);
    *d -= s->mean;
    if (dy2) {
        load(&test, dy2, n);
        *g += test;
    }
    if (relu && y)
        load(&test, y, n);
    else if (relu)
        test = *d * s->scale + s->shift;
    if (relu)
        pass_positive(g, &test);
}

INLINE void reduce_row(const strip *s, size_t n, bool relu, const float *x, const float *y,
                       const float *dy, const float *dy2, float *dz, vec *sum, vec *slope)
{
    vec g, d;
    gradient(s, n, relu, x, y, dy, dy2, &g, &d);
    *sum += g;
    *slope += g * d;
    if (dz)
        store(dz, &g, n);
}

#define ROW(p, r) ((p) ? (p) + (r)*width + at : NULL)

INLINE void reduce_strip(size_t rows, size_t width, size_t at, size_t n, const norm_channels *c,
                         bool relu, const float *x, const float *y, const float *dy,
                         const float *dy2, float *dz, float *sum_p, float *slope_p)
{
    strip s;
    strip_load(&s, c, at, n);
    vec sums[4] = {{0}}, slopes[4] = {{0}}, sum, slope;
    size_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        for (size_t k = 0; k < 4; k++)
            reduce_row(&s, n, relu, ROW(x, r + k), ROW(y, r + k), ROW(dy, r + k), ROW(dy2, r + k),
                       ROW(dz, r + k), &sums[k], &slopes[k]);
    }
    for (; r < rows; r++)
        reduce_row(&s, n, relu, ROW(x, r), ROW(y, r), ROW(dy, r), ROW(dy2, r), ROW(dz, r), &sums[0],
                   &slopes[0]);
    fold(sums, &sum);
    fold(slopes, &slope);
    store(sum_p + at, &sum, n);
    store(slope_p + at, &slope, n);
}

INLINE void spread_strip(size_t rows, size_t width, size_t at, size_t n, const norm_channels *c,
                         bool relu, const float *x, const float *dy, float *dx)
{
    strip s;
    vec dmean, dslope;
    strip_load(&s, c, at, n);
    load(&dmean, c->dmean + at, n);
    load(&dslope, c->dslope + at, n);
    for (size_t r = 0; r < rows; r++) {
        vec g, d;
        gradient(&s, n, relu, ROW(x, r), NULL, ROW(dy, r), NULL, &g, &d);
        g = s.scale * (g - dmean - d * dslope);
        store(dx + r * width + at, &g, n);
    }
}

/* ---- the kernels: all strips of a row -------------------------------------------------------- */

/* STRIP(at, n) for every strip; n is a constant except for the last one. */
#define EACH_STRIP(STRIP)                        \
    do {                                         \
        size_t at = 0;                           \
        for (; at + LANES <= width; at += LANES) \
            STRIP(at, LANES);                    \
        if (at < width)                          \
            STRIP(at, width - at);               \
    } while (0)

static void moments(size_t rows, size_t width, const float *x, float *mean, float *m2)
{
#define STRIP(at, n) moments_strip(rows, width, n, x + (at), mean + (at), m2 + (at))
    EACH_STRIP(STRIP);
#undef STRIP
}

static void apply(size_t rows, size_t width, const norm_channels *c, bool relu, const float *x,
                  const float *shortcut, float *y)
{
#define SHORTCUT(at, n) apply_strip(rows, width, at, n, c, true, x, shortcut, y)
#define RELU(at, n) apply_strip(rows, width, at, n, c, true, x, NULL, y)
#define PLAIN(at, n) apply_strip(rows, width, at, n, c, false, x, NULL, y)
    if (shortcut)
        EACH_STRIP(SHORTCUT);
    else if (relu)
        EACH_STRIP(RELU);
    else
        EACH_STRIP(PLAIN);
#undef SHORTCUT
#undef RELU
#undef PLAIN
}

static void reduce(size_t rows, size_t width, const norm_channels *c, bool relu, const float *x,
                   const float *y, const float *dy, const float *dy2, float *dz, float *sum,
                   float *slope)
{
#define SHORTCUT2(at, n) reduce_strip(rows, width, at, n, c, true, x, y, dy, dy2, dz, sum, slope)
#define SHORTCUT(at, n) reduce_strip(rows, width, at, n, c, true, x, y, dy, NULL, dz, sum, slope)
#define RELU(at, n) reduce_strip(rows, width, at, n, c, true, x, NULL, dy, NULL, NULL, sum, slope)
#define ANY(at, n) reduce_strip(rows, width, at, n, c, relu, x, y, dy, dy2, dz, sum, slope)
    if (relu && y && dz && dy2)
        EACH_STRIP(SHORTCUT2);
    else if (relu && y && dz)
        EACH_STRIP(SHORTCUT);
    else if (relu && !y && !dz && !dy2)
        EACH_STRIP(RELU);
    else
        EACH_STRIP(ANY);
#undef SHORTCUT2
#undef SHORTCUT
#undef RELU
#undef ANY
}

static void spread(size_t rows, size_t width, const norm_channels *c, bool relu, const float *x,
                   const float *dy, float *dx)
{
#define RELU(at, n) spread_strip(rows, width, at, n, c, true, x, dy, dx)
#define PLAIN(at, n) spread_strip(rows, width, at, n, c, false, x, dy, dx)
    if (relu)
        EACH_STRIP(RELU);
    else
        EACH_STRIP(PLAIN);
#undef RELU
#undef PLAIN
}

const norm_kernels NORM_TABLE = {
    .moments = moments, .apply = apply, .reduce = reduce, .spread = spread};

/* The kernels of row_kernels.h. Before including, define ROW_TABLE, and LANES, the number of floats
 * in a register of the instruction set. */
#include "trainer/nn/elementary.h"
#include "trainer/nn/row_kernels.h"
#include <math.h>

#define SUMS 16 /* number of partial sums */
#define PARTS (SUMS / LANES)

/* Set the lanes from n on to 0. */
INLINE void keep(vec *v, size_t n)
{
    if (n < LANES) {
        float few[LANES] = {0}, all[LANES];
        memcpy(all, v, sizeof *v);
        copy_few(few, all, n);
        memcpy(v, few, sizeof *v);
    }
}

INLINE float total(const vec v[PARTS])
{
    typedef float vec4 __attribute__((vector_size(16)));
    vec4 q[4];
    memcpy(q, v, sizeof q);
    const vec4 sum = (q[0] + q[2]) + (q[1] + q[3]);
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* For loops with sums: i runs over the places of vectors, k over the numbers of partial sums. */
#define EACH_PART(i, k, n)                        \
    for (size_t i##_ = 0; i##_ < n; i##_ += SUMS) \
        for (size_t k = 0, i = i##_; k < PARTS && i < n; k++, i += LANES)

INLINE float largest(size_t n, const float *x)
{
    float most = x[0];
    size_t i = 0;
    if (n >= LANES) {
        vec best, v;
        load(&best, x, LANES);
        for (i = LANES; i + LANES <= n; i += LANES) {
            load(&v, x + i, LANES);
            const bits more = v > best;
            choose(&best, &more, &v, &best);
        }
        for (size_t j = 0; j < LANES; j++)
            most = best[j] > most ? best[j] : most;
    }
    for (; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

static float max(size_t n, const float *x)
{
    return largest(n, x);
}

/* Sum of exp(scale (x - most)) over a short row, for which single precision is enough. */
INLINE float exp_short(size_t n, const float *x, float scale, float most, float *dst)
{
    vec v, sum[PARTS] = {{0}};
    EACH_PART(i, k, n)
    {
        load(&v, x + i, n - i);
        v = (v - most) * scale;
        vec_exp(&v);
        if (dst)
            store(dst + i, &v, n - i);
        keep(&v, n - i);
        sum[k] += v;
    }
    return total(sum);
}

static double exp_sum(size_t n, const float *x, float most, float *dst)
{
    enum { SHORT = 1024 };
    double sum = 0;
    for (size_t i = 0; i < n; i += SHORT) {
        const size_t left = n - i < SHORT ? n - i : SHORT;
        sum += (double)(dst ? exp_short(left, x + i, 1, most, dst + i)
                            : exp_short(left, x + i, 1, most, NULL));
    }
    return sum;
}

static void scale(size_t n, float factor, float *x)
{
    vec v;
    for (size_t i = 0; i < n; i += LANES) {
        load(&v, x + i, n - i);
        v *= factor;
        store(x + i, &v, n - i);
    }
}

static void add(size_t n, const float *x, float *sum)
{
    vec v, s;
    for (size_t i = 0; i < n; i += LANES) {
        load(&v, x + i, n - i);
        load(&s, sum + i, n - i);
        s += v;
        store(sum + i, &s, n - i);
    }
}

/* ---- softmax --------------------------------------------------------------------------------- */

static void softmax(size_t n, float factor, float *x)
{
    const float sum = exp_short(n, x, factor, largest(n, x), x);
    scale(n, 1 / sum, x);
}

/* d x_j = scale p_j (d_j - sum_i p_i d_i) */
static void softmax_backward(size_t n, float factor, const float *p, float *d)
{
    vec a, b, sum[PARTS] = {{0}};
    EACH_PART(i, k, n)
    {
        load(&a, p + i, n - i);
        load(&b, d + i, n - i);
        sum[k] += a * b;
    }
    const float mean = total(sum);
    for (size_t i = 0; i < n; i += LANES) {
        load(&a, p + i, n - i);
        load(&b, d + i, n - i);
        b = a * (b - mean) * factor;
        store(d + i, &b, n - i);
    }
}

/* ---- x logistic(2u), u = sqrt(2 / pi) (x + 0.044715 x^3), which is x (1 + tanh u) / 2 -------- */

#define GELU_LINEAR 0x1.9884533d43651p0f /* 2 sqrt(2 / pi) */
#define GELU_CUBE 0.044715f

static void gelu(size_t n, const float *x, float *y)
{
    vec v, s;
    for (size_t i = 0; i < n; i += LANES) {
        load(&v, x + i, n - i);
        s = v * (v * v * GELU_CUBE + 1.0f) * GELU_LINEAR;
        vec_logistic(&s);
        s *= v;
        store(y + i, &s, n - i);
    }
}

/* d y / d x = s + x s (1 - s) d(2u) / d x */
static void gelu_backward(size_t n, const float *x, const float *dy, float *dx)
{
    vec v, s, d;
    for (size_t i = 0; i < n; i += LANES) {
        load(&v, x + i, n - i);
        load(&d, dy + i, n - i);
        const vec square = v * v;
        s = v * (square * GELU_CUBE + 1.0f) * GELU_LINEAR;
        vec_logistic(&s);
        d *= s + v * s * (1.0f - s) * ((square * (3 * GELU_CUBE) + 1.0f) * GELU_LINEAR);
        store(dx + i, &d, n - i);
    }
}

/* ---- LSTM ------------------------------------------------------------------------------------ */

static void lstm(size_t n, const row_lstm *r)
{
    vec gate[4], bias, c;
    for (size_t j = 0; j < n; j += LANES) {
        const size_t left = n - j;
        for (size_t k = 0; k < 4; k++) {
            load(&gate[k], r->gates + k * n + j, left);
            load(&bias, r->bias + k * n + j, left);
            gate[k] += bias;
        }
        vec_logistic(&gate[0]);
        vec_logistic(&gate[1]);
        vec_tanh(&gate[2]);
        vec_logistic(&gate[3]);
        for (size_t k = 0; k < 4; k++)
            store(r->gates + k * n + j, &gate[k], left);
        load(&c, r->c0 + j, left);
        c = gate[1] * c + gate[0] * gate[2];
        store(r->c + j, &c, left);
        vec_tanh(&c);
        c *= gate[3];
        store(r->h + j, &c, left);
    }
}

static void lstm_backward(size_t n, const row_lstm_backward *r)
{
    vec in, forget, cell, out, c, c0, dc, dh, d;
    for (size_t j = 0; j < n; j += LANES) {
        const size_t left = n - j;
        load(&in, r->gates + j, left);
        load(&forget, r->gates + n + j, left);
        load(&cell, r->gates + 2 * n + j, left);
        load(&out, r->gates + 3 * n + j, left);
        load(&c, r->c + j, left);
        load(&c0, r->c0 + j, left);
        load(&dc, r->dc + j, left);
        load(&dh, r->dh + j, left);
        load(&d, r->dy + j, left);
        dh += d;
        vec_tanh(&c);
        dc += dh * out * (1.0f - c * c);
        d = dc * cell * in * (1.0f - in);
        store(r->gates + j, &d, left);
        d = dc * c0 * forget * (1.0f - forget);
        store(r->gates + n + j, &d, left);
        d = dc * in * (1.0f - cell * cell);
        store(r->gates + 2 * n + j, &d, left);
        d = dh * c * out * (1.0f - out);
        store(r->gates + 3 * n + j, &d, left);
        dc *= forget;
        store(r->dc + j, &dc, left);
    }
}

/* ---- layer normalisation --------------------------------------------------------------------- */

static void layernorm(size_t rows, size_t n, float epsilon, const float *x, const float *gamma,
                      const float *beta, float *y, float *mean, float *inverse)
{
    for (size_t row = 0; row < rows; row++, x += n, y += n) {
        vec v, g, b, sum[PARTS] = {{0}}, squares[PARTS] = {{0}};
        EACH_PART(i, k, n)
        {
            load(&v, x + i, n - i);
            sum[k] += v;
        }
        const float m = total(sum) / (float)n;
        EACH_PART(i, k, n)
        {
            load(&v, x + i, n - i);
            v -= m;
            keep(&v, n - i);
            squares[k] += v * v;
        }
        const float s = 1 / sqrtf(total(squares) / (float)n + epsilon);
        for (size_t i = 0; i < n; i += LANES) {
            load(&v, x + i, n - i);
            load(&g, gamma + i, n - i);
            load(&b, beta + i, n - i);
            v = (v - m) * s * g + b;
            store(y + i, &v, n - i);
        }
        mean[row] = m;
        inverse[row] = s;
    }
}

static void layernorm_weights(size_t rows, size_t n, const float *x, const float *mean,
                              const float *inverse, const float *dy, float *dgamma, float *dbeta)
{
    for (size_t row = 0; row < rows; row++, x += n, dy += n) {
        vec v, d, sum;
        for (size_t i = 0; i < n; i += LANES) {
            load(&v, x + i, n - i);
            load(&d, dy + i, n - i);
            load(&sum, dgamma + i, n - i);
            sum += (v - mean[row]) * inverse[row] * d;
            store(dgamma + i, &sum, n - i);
            load(&sum, dbeta + i, n - i);
            sum += d;
            store(dbeta + i, &sum, n - i);
        }
    }
}

/* With h = (x - mean) inverse and g = dy gamma: dx = inverse (g - mean(g) - h mean(g h)). */
static void layernorm_data(size_t rows, size_t n, const float *x, const float *gamma,
                           const float *mean, const float *inverse, const float *dy, float *dx)
{
    for (size_t row = 0; row < rows; row++, x += n, dy += n, dx += n) {
        const float m = mean[row], s = inverse[row];
        vec v, g, d, sum[PARTS] = {{0}}, product[PARTS] = {{0}};
        EACH_PART(i, k, n)
        {
            load(&v, x + i, n - i);
            load(&g, gamma + i, n - i);
            load(&d, dy + i, n - i);
            g *= d; /* 0 in the lanes past the end */
            sum[k] += g;
            product[k] += g * ((v - m) * s);
        }
        const float average = total(sum) / (float)n, slope = total(product) / (float)n;
        for (size_t i = 0; i < n; i += LANES) {
            load(&v, x + i, n - i);
            load(&g, gamma + i, n - i);
            load(&d, dy + i, n - i);
            d = (g * d - average - (v - m) * s * slope) * s;
            store(dx + i, &d, n - i);
        }
    }
}

const row_kernels ROW_TABLE = {.max = max,
                               .exp_sum = exp_sum,
                               .scale = scale,
                               .add = add,
                               .softmax = softmax,
                               .softmax_backward = softmax_backward,
                               .gelu = gelu,
                               .gelu_backward = gelu_backward,
                               .lstm = lstm,
                               .lstm_backward = lstm_backward,
                               .layernorm = layernorm,
                               .layernorm_weights = layernorm_weights,
                               .layernorm_data = layernorm_data};

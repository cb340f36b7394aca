/* PowerSGD's passes over a matrix with skinny factors, the specification. */
#include "kernel/element.h"
#include "kernel/variants.h"

/* Element (i, j) of left right^T. */
static float product(const tg__skinny *s, const float *left, const float *right, size_t i, size_t j)
{
    float sum = left[i] * right[j];
    for (size_t k = 1; k < s->rank; k++)
        sum += left[k * s->left_stride + i] * right[k * s->right_stride + j];
    return sum;
}

/* The sum of x * y over at most a strip. */
static float lanes_dot(const float *x, const float *y, size_t n)
{
    float lane[TG__LANES] = {0};
    for (size_t j = 0; j < n; j++)
        lane[j % TG__LANES] += x[j] * y[j];
    for (size_t half = TG__LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

static void fold(const tg__skinny *s, float *m, const float *g, const float *left,
                 const float *right, const float *q, float *p)
{
    for (size_t i = 0; i < s->rows; i++) {
        float *row = m + i * s->stride;
        for (size_t j = 0; j < s->cols; j++)
            row[j] = (row[j] - product(s, left, right, i, j)) + g[i * s->stride + j];
        for (size_t k = 0; k < s->rank; k++)
            for (size_t j = 0; j < s->cols; j += TG__SKINNY_STRIP) {
                size_t n = TG__MIN(s->cols - j, (size_t)TG__SKINNY_STRIP);
                float sum = lanes_dot(row + j, q + k * s->right_stride + j, n);
                float *to = &p[k * s->left_stride + i];
                *to = j == 0 ? sum : *to + sum;
            }
    }
}

static void project(const tg__skinny *s, const float *m, const float *p, float *q)
{
    for (size_t k = 0; k < s->rank; k++)
        for (size_t j = 0; j < s->cols; j++) {
            float *to = &q[k * s->right_stride + j];
            for (size_t i = 0; i < s->rows; i += TG__SKINNY_ROWS) {
                const float *pk = p + k * s->left_stride;
                float sum = pk[i] * m[i * s->stride + j];
                for (size_t r = i + 1; r < TG__MIN(s->rows, i + TG__SKINNY_ROWS); r++)
                    sum += pk[r] * m[r * s->stride + j];
                *to = i == 0 ? sum : *to + sum;
            }
        }
}

static void expand(const tg__skinny *s, float *out, const float *p, const float *q)
{
    for (size_t i = 0; i < s->rows; i++)
        for (size_t j = 0; j < s->cols; j++)
            out[i * s->stride + j] = product(s, p, q, i, j);
}

void tg__skinny_ref(tg__kernels *table)
{
    table->skinny_fold = fold;
    table->skinny_project = project;
    table->skinny_expand = expand;
}

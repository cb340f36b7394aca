/* loss = -log softmax(z)[label] = log sum_j exp(z_j - max z) - (z_label - max z)
 * d loss / d z_j = softmax(z)_j - [j = label] */
#include "train/nn/nn.h"
#include <math.h>

void nn_softmax_loss(size_t rows, size_t count, size_t classes, const float *logits,
                     const int32_t *labels, size_t total, float *dlogits, double *loss_sum_p,
                     size_t *correct_p)
{
    double loss = 0;
    size_t correct = 0;
    for (size_t i = 0; i < count; i++) {
        const float *z = logits + i * classes;
        if (labels[i] < 0) {
            for (size_t j = 0; dlogits && j < classes; j++)
                dlogits[i * classes + j] = 0;
            continue;
        }
        size_t best = 0;
        for (size_t j = 1; j < classes; j++)
            best = z[j] > z[best] ? j : best;
        const float zmax = z[best], zlabel = z[labels[i]];
        double sum = 0;
        for (size_t j = 0; j < classes; j++)
            sum += exp((double)(z[j] - zmax));
        loss += log(sum) - (double)(zlabel - zmax);
        correct += best == (size_t)labels[i];
        if (dlogits) {
            float *d = dlogits + i * classes;
            for (size_t j = 0; j < classes; j++)
                d[j] = (float)(exp((double)(z[j] - zmax)) / sum / (double)total);
            d[labels[i]] -= (float)(1.0 / (double)total);
        }
    }
    if (dlogits) {
        for (size_t i = count * classes; i < rows * classes; i++)
            dlogits[i] = 0;
    }
    *loss_sum_p = loss;
    *correct_p = correct;
}

void nn_add(size_t n, const float *a, const float *b, float *dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = a[i] + b[i];
}

/* loss = -log softmax(z)[label] = log sum_j exp(z_j - max z) - (z_label - max z)
 * d loss / d z_j = softmax(z)_j - [j = label] */
#include "trainer/nn/nn.h"
#include "trainer/nn/row_kernels.h"
#include <math.h>
#include <string.h>

/* Whether no class before the label has a logit as large as the label's. */
static bool is_first(const float *z, int32_t label, float most)
{
    if (z[label] != most)
        return false;
    for (int32_t j = 0; j < label; j++) {
        if (z[j] == most)
            return false;
    }
    return true;
}

void nn_softmax_loss(size_t rows, size_t count, size_t classes, const float *logits,
                     const int32_t *labels, size_t total, float *dlogits, double *loss_sum_p,
                     size_t *correct_p)
{
    const row_kernels *kernels = row_kernels_of(tg_cpu_level());
    double loss = 0;
    size_t correct = 0;
    for (size_t i = 0; i < count; i++) {
        const float *z = logits + i * classes;
        float *d = dlogits ? dlogits + i * classes : NULL;
        if (labels[i] < 0) {
            if (d)
                memset(d, 0, classes * sizeof *d);
            continue;
        }
        const float most = kernels->max(classes, z), zlabel = z[labels[i]];
        correct += is_first(z, labels[i], most);
        const double sum = kernels->exp_sum(classes, z, most, d);
        loss += log(sum) - (double)(zlabel - most);
        if (d) {
            kernels->scale(classes, (float)(1 / (sum * (double)total)), d);
            d[labels[i]] -= (float)(1.0 / (double)total);
        }
    }
    if (dlogits && rows > count)
        memset(dlogits + count * classes, 0, (rows - count) * classes * sizeof *dlogits);
    *loss_sum_p = loss;
    *correct_p = correct;
}

void nn_add(size_t n, const float *a, const float *b, float *dst)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = a[i] + b[i];
}

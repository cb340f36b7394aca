/* AdaComp's selection, the specification (Chen et al. 2018, arXiv:1712.02679, alg. 2): of every bin
 * the elements that g, added once more, would lift to the bin's maximum. */
#include "kernel/element.h"
#include "kernel/variants.h"
#include <math.h>

static size_t adacomp_select(const float *x, const float *g, size_t n, size_t bin, uint32_t *idx,
                             float *val, size_t cap, tg__bins *bins)
{
    tg__picked to = {idx, val, cap, 0};
    *bins = (tg__bins){0, 0};
    for (size_t begin = 0; begin < n; begin += bin) {
        size_t end = TG__MIN(n, begin + bin);
        float max = 0;
        for (size_t i = begin; i < end; i++)
            max = fabsf(x[i]) > max ? fabsf(x[i]) : max;
        tg__bins_add(bins, max);
        for (size_t i = begin; max > 0 && i < end; i++)
            if (x[i] != 0 && fabsf(x[i] + g[i]) >= max)
                tg__pick_one(&to, i, x[i]);
    }
    return to.count;
}

void tg__adacomp_ref(tg__kernels *table)
{
    table->adacomp_select = adacomp_select;
}

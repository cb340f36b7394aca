/* Threshold and compact, the specification. */
#include "kernel/simd_ref.h"
#include "kernel/variants.h"

typedef tg__range wide_range;
typedef bool lanes;

#define widen tg__select_range
#define selected tg__selected
#define any_lane(any) (any)

static inline void pick(tg__picked *to, bool chosen, size_t i, float x)
{
    if (chosen)
        tg__pick(to, i, x);
}

#include "kernel/select_simd.h"

/* Used by every level. Memory latency dominates, so elements are prefetched; scatter instructions
 * gain nothing. */
static void scatter_add(float *dst, const uint32_t *idx, const float *val, size_t k)
{
    enum { AHEAD = 32 };
    size_t i = 0;
    for (; i + AHEAD < k; i++) {
        __builtin_prefetch(&dst[idx[i + AHEAD]], 1);
        dst[idx[i]] += val[i];
    }
    for (; i < k; i++)
        dst[idx[i]] += val[i];
}

void tg__select_ref(tg__kernels *table)
{
    fill(table);
    table->scatter_add = scatter_add;
}

/* Kernels that are templates, with vectors of one float: the specification. */
#include "kernel/simd_ref.h"
#include "kernel/variants.h"

#include "kernel/templates.h"

void tg__templates_ref(tg__kernels *table)
{
    fill(table);
}

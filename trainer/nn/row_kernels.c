#include "trainer/nn/row_kernels.h"
#include <string.h>

const row_kernels *row_kernels_of(const char *level)
{
#if defined(__x86_64__)
    if (strcmp(level, "avx512") == 0)
        return &row_kernels_avx512;
    if (strcmp(level, "avx2") == 0)
        return &row_kernels_avx2;
#endif
    (void)level;
    return &row_kernels_ref;
}

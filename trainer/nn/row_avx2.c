#define ROW_TABLE row_kernels_avx2
#define LANES 8
#include "trainer/nn/row_template.h"

#define ROW_TABLE row_kernels_avx512
#define LANES 16
#include "trainer/nn/row_template.h"

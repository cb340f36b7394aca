#define ROW_TABLE row_kernels_ref
#define LANES 4
#include "trainer/nn/row_template.h"

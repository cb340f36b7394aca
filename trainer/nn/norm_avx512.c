#define NORM_TABLE norm_kernels_avx512
#include "trainer/nn/norm_template.h"

#define NORM_TABLE norm_kernels_avx2
#include "trainer/nn/norm_template.h"

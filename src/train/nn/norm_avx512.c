#define NORM_TABLE norm_kernels_avx512
#include "train/nn/norm_template.h"

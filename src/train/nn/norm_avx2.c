#define NORM_TABLE norm_kernels_avx2
#include "train/nn/norm_template.h"

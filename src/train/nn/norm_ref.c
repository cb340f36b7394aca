#define NORM_TABLE norm_kernels_ref
#include "train/nn/norm_template.h"

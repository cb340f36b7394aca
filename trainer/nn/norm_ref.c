#define NORM_TABLE norm_kernels_ref
#include "trainer/nn/norm_template.h"

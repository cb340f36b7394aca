/* The one-round program of shared supports: all ranks draw the same elements, whose values are
 * summed by a dense exchange of k elements. Keys: density, warmup, values, exchange. */
#ifndef TG_SHARED_SUPPORT_PROGRAM_H
#define TG_SHARED_SUPPORT_PROGRAM_H

#include "method/method.h"

extern const tg__program_ops tg__shared_support_program;

#endif

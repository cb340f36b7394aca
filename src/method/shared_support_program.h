/* Shared supports: all ranks send values of the same elements, summed by a dense exchange of k
 * elements. Keys: density, warmup, values, exchange. */
#ifndef TG_SHARED_SUPPORT_PROGRAM_H
#define TG_SHARED_SUPPORT_PROGRAM_H

#include "method/method.h"

/* One round: all ranks draw the same elements. */
extern const tg__program_ops tg__shared_support_program;
/* Two rounds: a different rank chooses in each step. Needs feedback residual. */
extern const tg__program_ops tg__leader_support_program;

#endif

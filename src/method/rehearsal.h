/* A step of a method that is alone in the world, to see what its exchanges would carry. */
#ifndef TG_REHEARSAL_H
#define TG_REHEARSAL_H

#include "method/method.h"

#define TG__LATE (UINT64_MAX / 2) /* a step after every warm-up */

enum { TG__REHEARSAL_ROUNDS = 8 };

typedef struct tg__rehearsal {
    size_t bytes;  /* frames of the vector, of all rounds */
    size_t rounds; /* exchanges that were run */
    struct {
        const tg__exchange_ops *x;
        size_t n;
        double frame; /* bytes */
    } round[TG__REHEARSAL_ROUNDS];
} tg__rehearsal;

/* Play step `step` of m, whose setup has size 1 and lanes 1. g (n), eta: the task's. Errors those
 * of the method; TG_E_UNSUPPORTED (more rounds than there is room for) */
TG_NODISCARD tg_status tg__rehearse(tg__method *m, const float *g, uint64_t step, double eta,
                                    tg__rehearsal *r);

/* *g_p (n): normal, of deviation 1; free it. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__rehearsal_gradient(uint64_t seed, size_t n, float **g_p);

#endif

/* The outer step along a mean of changes, for DiLoCo and related strategies, and its keys. */
#ifndef TG_STRATEGY_NESTEROV_H
#define TG_STRATEGY_NESTEROV_H

#include "base/keys.h"
#include "kernel/kernel.h"

#define TG__OUTER_EVERY \
    TG__KEY(INT, "every", "100", 1, 1e9, "local steps per round (500 in the paper)")
#define TG__OUTER_NESTEROV                                    \
    TG__KEY(REAL, "lr", "0.7", 0, 1e30, "of the outer step"), \
        TG__KEY(REAL, "momentum", "0.9", 0, 1, "of the outer step; 0 with lr=1: local SGD")

/* v = m * v + mean; a = a - lr * (mean + m * v). v may be NULL if m is 0. All (n), disjoint. */
static inline void tg__nesterov(float *a, float *v, const float *mean, size_t n, double rate,
                                double momentum)
{
    const float lr = (float)rate, m = (float)momentum;
    if (m == 0) {
        tg__kernel()->axpy(a, -lr, mean, n);
        return;
    }
    tg__kernel()->nesterov(a, v, mean, n, lr, m);
}

#endif

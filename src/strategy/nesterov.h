/* The outer step along a mean of changes, for DiLoCo and related strategies, and its keys. */
#ifndef TG_STRATEGY_NESTEROV_H
#define TG_STRATEGY_NESTEROV_H

#include "kernel/kernel.h"
#include "telegrad/spec.h"

#define TG__OUTER_EVERY                                                          \
    {                                                                            \
        .name = "every", .type = TG_KEY_INT, .def = "100", .min = 1, .max = 1e9, \
        .help = "local steps per round (500 in the paper)"                       \
    }
#define TG__OUTER_NESTEROV                                                                       \
    {.name = "lr", .type = TG_KEY_REAL, .def = "0.7", .max = 1e30, .help = "of the outer step"}, \
    {                                                                                            \
        .name = "momentum", .type = TG_KEY_REAL, .def = "0.9", .max = 1,                         \
        .help = "of the outer step; 0 with lr=1: local SGD"                                      \
    }

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

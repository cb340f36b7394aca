/* The outer step along a mean of changes, for DiLoCo and related strategies, and its keys. In round
 * k = 1, 2, ..., if the momentum is above 0:
 *
 *     q = min(k / warmup, 1)                 (no warm-up: 1)
 *     m = q * momentum,  rate = q * lr + (1 - q)
 *     v = m * keep * v + mean                (keep: see below; without rescale 1)
 *     A = A - rate * (mean + m * v)
 *
 * Nesterov's momentum has a long memory: ten rounds at 0.9. The warm-up lets a run begin with
 * nearly plain averaging, which is rate 1 and momentum 0. `keep` is min(1, eta / eta'), where eta
 * is the learning rate of the round's last own step and eta' that of the round before: as the
 * learning rate falls, v shrinks with it. Otherwise v would go on moving A as far as rounds at a
 * higher rate did, when the ranks' own steps have become small. */
#ifndef TG_STRATEGY_NESTEROV_H
#define TG_STRATEGY_NESTEROV_H

#include "base/keys.h"
#include "kernel/kernel.h"

#define TG__OUTER_EVERY \
    TG__KEY(INT, "every", "100", 1, 1e9, "local steps per round (500 in the paper)")
#define TG__OUTER_NESTEROV                                    \
    TG__KEY(REAL, "lr", "0.7", 0, 1e30, "of the outer step"), \
        TG__KEY(REAL, "momentum", "0.9", 0, 1, "of the outer step; 0 with lr=1: local SGD")
#define TG__OUTER_GROWS                                                                          \
    TG__KEY(                                                                                     \
        INT, "warmup", "20", 0, 1e9,                                                             \
        "rounds in which the outer momentum grows from 0, and lr from 1, if there is momentum; " \
        "0: none, as in the paper"),                                                             \
        TG__FLAG("rescale", "yes",                                                               \
                 "shrink the outer momentum as the learning rate falls; no: as in the paper")

typedef struct tg__nesterov {
    double lr, momentum;
    uint64_t warmup; /* rounds */
} tg__nesterov;

/* The outer step of round k >= 1. v may be NULL if the momentum is 0. All (n), disjoint. */
static inline void tg__nesterov_step(const tg__nesterov *o, uint64_t k, float keep, float *a,
                                     float *v, const float *mean, size_t n)
{
    if (o->momentum == 0) {
        tg__kernel()->axpy(a, -(float)o->lr, mean, n);
        return;
    }
    const double q = k < o->warmup ? (double)k / (double)o->warmup : 1;
    if (keep != 1)
        tg__kernel()->scale(v, keep, n);
    tg__kernel()->nesterov(a, v, mean, n, (float)(q * o->lr + (1 - q)), (float)(q * o->momentum));
}

#endif

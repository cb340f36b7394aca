/* The outer step along a mean of changes, for DiLoCo and related strategies, and its keys. In round
 * k = 1, 2, ...
 *
 *     q = min(k / warmup, 1)                 (no warm-up: 1)
 *     m = q * momentum,  rate = q * lr + (1 - q) * first_lr
 *     v = m * v + mean / eta                 (eta: the learning rate of the round's last own step,
 *     A = A - rate * (mean + m * eta * v)     as a multiple of the optimizer's; without rescale: 1)
 *
 * Nesterov's momentum has a long memory: ten rounds at 0.9. The warm-up lets a run begin with plain
 * averaging (rate 1, no momentum). In units of eta, v shrinks as the learning rate falls; otherwise
 * it would still move A as far as rounds at a higher rate did, when the ranks' own steps have
 * become small. */
#ifndef TG_STRATEGY_NESTEROV_H
#define TG_STRATEGY_NESTEROV_H

#include "base/keys.h"
#include "kernel/kernel.h"

#define TG__OUTER_EVERY \
    TG__KEY(INT, "every", "100", 1, 1e9, "local steps per round (500 in the paper)")
#define TG__OUTER_NESTEROV(and_lr)                                                               \
    TG__KEY(REAL, "lr", "0.7", 0, 1e30, "of the outer step"),                                    \
        TG__KEY(REAL, "momentum", "0.9", 0, 1, "of the outer step; 0 with lr=1: local SGD"),     \
        TG__KEY(INT, "warmup", "20", 0, 1e9,                                                     \
                "rounds in which the outer momentum grows from 0" and_lr                         \
                "; 0: none, as in the paper"),                                                   \
        TG__FLAG("rescale", "yes",                                                               \
                 "scale the outer momentum by the learning rate, so that it falls with it; no: " \
                 "as in the paper")

typedef struct tg__nesterov {
    double lr, momentum;
    double first_lr; /* what lr grows from */
    uint64_t warmup; /* rounds */
    double unit;     /* the optimizer's learning rate; 0: no rescale */
} tg__nesterov;

/* The outer step of round k >= 1, which ended at the learning rate eta. v may be NULL if the
 * momentum is 0. All (n), disjoint. */
static inline void tg__nesterov_step(const tg__nesterov *o, uint64_t k, double eta, float *a,
                                     float *v, const float *mean, size_t n)
{
    if (o->momentum == 0) {
        tg__kernel()->axpy(a, -(float)o->lr, mean, n);
        return;
    }
    const double q = k < o->warmup ? (double)k / (double)o->warmup : 1;
    const double m = q * o->momentum, rate = q * o->lr + (1 - q) * o->first_lr;
    const double times = o->unit > 0 ? eta / o->unit : 1;
    const double in = times > 1e-30 ? 1 / times : 0; /* at a rate of 0 nothing has changed */
    tg__kernel()->nesterov(a, v, mean, n, (float)rate, (float)m, (float)in, (float)(m * times));
}

#endif

/* Watches the exchanges of one method during a run for two things that nobody looks for: a residual
 * that grows without bound, and a coded form that is no smaller than the dense one. Pure arithmetic
 * on the figures of each step.
 *
 * A residual may well grow for long: under top-k it does until every element has had its turn, and
 * under noise it walks like sqrt(t). So time is counted in turnovers: the sum over the steps of
 * kept / n, which is how often an element has been sent on average. With R the residual's norm, G
 * the norm of what was handed in, a window of at least 50 steps and 4 turnovers is bad if both
 *
 *     R^2 - R_before^2 >= 4 * sum of (gain G)^2           it grows faster than a random walk
 *     R >= 8 * gain * (largest mean G so far) / (kept/n)  it holds more than 8 turnovers' gradients
 *
 * and three bad windows in a row are a finding. A codec that removes a share of what it is given,
 * as top-k does at least k/n of its square, stays below the second bound; one that sends at most
 * +-threshold for an element, while the gradient is larger, passes both.
 *
 * gain is 1 / (1 - momentum) where the feedback accumulates velocities. */
#ifndef TG_WATCH_H
#define TG_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tg__watch {
    double gain;
    bool based;                       /* the residual was looked at once */
    uint64_t steps;                   /* of the window under way, and over them: */
    double turnovers, norms, squares; /* ... sums of kept/n, G, G^2 */
    double before;                    /* R at its begin */
    double peak;                      /* largest mean G of a window */
    unsigned bad;                     /* windows in a row */
    uint64_t coded, dense;            /* steps; those of them that fell back */
    bool growth_found, dense_found;   /* each is told once */
} tg__watch;

void tg__watch_init(tg__watch *w, double gain);

/* A coded step in which `kept` of n elements were sent of a vector whose norm was `norm`;
 * fell_back: most of it went dense. Returns whether tg__watch_residual wants to be called now. */
bool tg__watch_step(tg__watch *w, size_t n, size_t kept, double norm, bool fell_back);

/* The residual's norm after that step. True once: it grows without bound. */
bool tg__watch_residual(tg__watch *w, double norm);

/* True once: more than half of at least 20 coded steps fell back. */
bool tg__watch_dense(tg__watch *w);

#endif

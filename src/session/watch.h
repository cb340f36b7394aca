/* Watches the exchanges of one method during a run for two problems that usually go unnoticed: a
 * residual that grows without bound, and a coded form that is no smaller than the dense one. Pure
 * arithmetic on the figures of each step.
 *
 * A residual may grow for a long time: under top-k until every element has been sent once, and
 * under noise like sqrt(t), as a random walk. So time is counted in turnovers: the sum over the
 * steps of kept / n, which is how often an element has been sent on average. With R the residual's
 * norm and G the norm of what was handed in, a window of at least 50 steps and 4 turnovers is bad
 * if both
 *
 *     R^2 - R_before^2 >= 4 * sum of (gain G)^2           it grows faster than a random walk
 *     R >= 8 * gain * (largest mean G so far) / (kept/n)  it holds more than 8 turnovers' gradients
 *
 * and three bad windows in a row are reported. A codec that removes a fixed share of its input, as
 * top-k removes at least k/n of the squared norm, stays below the second bound. A codec that sends
 * at most +-threshold per element exceeds both if the gradient is larger.
 *
 * gain is 1 / (1 - momentum) if the feedback accumulates velocities. */
#ifndef TG_WATCH_H
#define TG_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tg__watch {
    double gain;
    bool based;                       /* the residual was measured at least once */
    uint64_t steps;                   /* in the current window, as are the three sums: */
    double turnovers, norms, squares; /* of kept/n, G, G^2 */
    double before;                    /* R at the window's start */
    double peak;                      /* largest mean G of a window */
    unsigned bad;                     /* consecutive bad windows */
    uint64_t coded, dense;            /* steps; `dense` of them fell back */
    bool growth_found, dense_found;   /* each is reported once */
} tg__watch;

void tg__watch_init(tg__watch *w, double gain);

/* Count a coded step that sent `kept` of n elements of a vector with norm `norm`. fell_back: most
 * of it was sent dense. Returns whether tg__watch_residual must be called now. */
bool tg__watch_step(tg__watch *w, size_t n, size_t kept, double norm, bool fell_back);

/* Pass the residual's norm after that step. Returns true once: if the residual grows without
 * bound. */
bool tg__watch_residual(tg__watch *w, double norm);

/* Returns true once: if more than half of at least 20 coded steps fell back to dense. */
bool tg__watch_dense(tg__watch *w);

#endif

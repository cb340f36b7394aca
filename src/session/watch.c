#include "session/watch.h"
#include <math.h>

enum { STEPS_MIN = 50, TURNOVERS_MIN = 4, BAD_MAX = 3, CODED_MIN = 20 };
static const double WALK = 4, LOAD = 8;

void tg__watch_init(tg__watch *w, double gain)
{
    *w = (tg__watch){.gain = gain};
}

bool tg__watch_step(tg__watch *w, size_t n, size_t kept, double norm, bool fell_back)
{
    if (n == 0 || !isfinite(norm))
        return false;
    w->coded++;
    w->dense += fell_back;
    if (!w->based)
        return true;
    w->steps++;
    w->turnovers += (double)kept / (double)n;
    w->norms += norm;
    w->squares += norm * norm;
    return w->steps >= STEPS_MIN && w->turnovers >= TURNOVERS_MIN;
}

static bool bad_window(const tg__watch *w, double norm)
{
    double share = w->turnovers / (double)w->steps;
    return norm > w->before &&
           norm * norm - w->before * w->before >= WALK * w->gain * w->gain * w->squares &&
           norm >= LOAD * w->gain * w->peak / share;
}

bool tg__watch_residual(tg__watch *w, double norm)
{
    if (!isfinite(norm))
        return false;
    if (w->based) {
        w->peak = fmax(w->peak, w->norms / (double)w->steps);
        w->bad = bad_window(w, norm) ? w->bad + 1 : 0;
    }
    w->based = true;
    w->before = norm;
    w->steps = 0;
    w->turnovers = w->norms = w->squares = 0;
    if (w->bad < BAD_MAX || w->growth_found)
        return false;
    w->growth_found = true;
    return true;
}

bool tg__watch_dense(tg__watch *w)
{
    if (w->dense_found || w->coded < CODED_MIN || 2 * w->dense <= w->coded)
        return false;
    w->dense_found = true;
    return true;
}

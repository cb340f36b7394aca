#include "trainer/loop/advice.h"
#include <math.h>

double advice_ssgd(const advice_times *t)
{
    return t->tau + t->phi;
}

double advice_od(const advice_times *t)
{
    return fmax(t->tau, t->phi);
}

double advice_bit(const advice_times *t)
{
    return t->tau + t->delta + t->psi;
}

double advice_cd(const advice_times *t, unsigned k)
{
    const double coded =
        t->spare ? fmax(t->tau, t->delta + t->psi) : fmax(t->tau, t->psi) + t->delta;
    return k == 0 ? coded : ((k - 1) * coded + fmax(t->tau, t->phi)) / k;
}

#include "command/advise/advise_fit.h"
#include <math.h>

void advise_fit(const double *bytes, const double *seconds, size_t count, double *alpha_p,
                double *beta_p)
{
    double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
    for (size_t i = 0; i < count; i++) {
        const double x = bytes[i], y = seconds[i], k = 1 / (y * y);
        w += k;
        wx += k * x;
        wy += k * y;
        wxx += k * x * x;
        wxy += k * x * y;
    }
    const double beta = fmax((w * wxy - wx * wy) / (w * wxx - wx * wx), 0);
    *alpha_p = fmax((wy - beta * wx) / w, 0);
    *beta_p = beta;
}

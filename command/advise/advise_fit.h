/* Fits a delay and a rate to exchanges of several sizes. */
#ifndef TG_CLI_ADVISE_FIT_H
#define TG_CLI_ADVISE_FIT_H

#include <stddef.h>

/* Fit seconds[i] = alpha + beta bytes[i] by least squares of the relative errors; neither result is
 * negative.
 * bytes, seconds (count): at least two different sizes; seconds above 0 */
void advise_fit(const double *bytes, const double *seconds, size_t count, double *alpha_p,
                double *beta_p);

#endif

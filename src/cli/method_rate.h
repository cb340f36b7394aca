/* Methods that learn with another learning rate than dense gradients do, or without momentum. */
#ifndef TG_CLI_METHOD_RATE_H
#define TG_CLI_METHOD_RATE_H

#include <stdbool.h>

/* Of plain SGD, in multiples of the rate that the command has where none is given. */
typedef struct method_rate {
    const char *method;
    double factor;    /* what to take */
    double low, high; /* beyond these it is known to learn worse: of lr / (1 - momentum) */
    bool plain;       /* the optimizer's momentum harms it at any rate */
} method_rate;

/* method: a name or a spec string. NULL: it learns with what dense gradients do. */
const method_rate *method_rate_of(const char *method);

#endif

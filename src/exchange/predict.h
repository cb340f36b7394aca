/* Predict how long exchanges take over a network, and choose one: arithmetic on the results of
 * cost(). */
#ifndef TG_PREDICT_H
#define TG_PREDICT_H

#include "exchange/exchange.h"

typedef struct tg__network {
    double delay; /* seconds until an almost empty message arrives: the links' one-way delay, plus
                   * the cost of sending */
    double byte;  /* seconds that a byte occupies a link */
} tg__network;

/* Duration of an exchange in seconds, without codecs and sums.
 * frame  bytes of a coded vector of n elements */
double tg__exchange_seconds(const tg__exchange_ops *x, int size, size_t n, double frame,
                            const tg__network *net);

/* Choose among candidates by their durations: the fastest if it is more than a tenth faster than
 * the default one, otherwise the default one. So noise in measurements changes nothing. Among
 * equals the first wins.
 * seconds  (count) durations; count >= 1
 * usual    index of the default one */
size_t tg__exchange_pick(const double *seconds, size_t count, size_t usual);

#endif

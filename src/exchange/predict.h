/* How long exchanges take over a network whose figures are known, and which to take: plain
 * arithmetic on what cost() says. */
#ifndef TG_PREDICT_H
#define TG_PREDICT_H

#include "exchange/exchange.h"

typedef struct tg__network {
    double delay; /* seconds until an all but empty message is there: the links' one-way delay, and
                     what sending costs */
    double byte;  /* seconds that a byte keeps a link busy */
} tg__network;

/* Seconds, without the time that codecs and sums take. frame: bytes of a coded vector of n elements
 */
double tg__exchange_seconds(const tg__exchange_ops *x, int size, size_t n, double frame,
                            const tg__network *net);

/* Which of the candidates that take so many seconds (count >= 1) to go by: the fastest if it needs
 * more than a tenth less than the usual one, else that, so that noise in what was measured moves
 * nothing. Among equals the first. */
size_t tg__exchange_pick(const double *seconds, size_t count, size_t usual);

#endif

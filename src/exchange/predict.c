#include "exchange/predict.h"

double tg__exchange_seconds(const tg__exchange_ops *x, int size, size_t n, double frame,
                            const tg__network *net)
{
    tg__cost cost;
    x->cost(size, n, frame, &cost);
    return cost.delays * net->delay + cost.serial * net->byte;
}

size_t tg__exchange_pick(const double *seconds, size_t count, size_t usual)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (seconds[i] < seconds[best])
            best = i;
    return seconds[best] < 0.9 * seconds[usual] ? best : usual;
}

#include "command/train/window.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void window_clear(struct window *w)
{
    w->count = 0;
}

void window_add(struct window *w, const train_step_info *info)
{
    size_t i = w->count++ % WINDOW_STEPS;
    w->ms[WINDOW_COMPUTE][i] = info->compute_ms;
    w->ms[WINDOW_ENCODE][i] = (double)info->tg.encode_ns / 1e6;
    w->ms[WINDOW_EXCHANGE][i] = (double)info->tg.exchange_ns / 1e6;
    w->ms[WINDOW_DECODE][i] = (double)info->tg.decode_ns / 1e6;
    w->ms[WINDOW_APPLY][i] = (double)info->tg.apply_ns / 1e6;
    w->ms[WINDOW_WAIT][i] = (double)info->tg.wait_ns / 1e6;
    w->ms[WINDOW_STEP][i] = info->step_ms;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double window_median(const struct window *w, enum window_column column)
{
    double sorted[WINDOW_STEPS];
    size_t n = w->count < WINDOW_STEPS ? w->count : WINDOW_STEPS;
    if (n == 0)
        return NAN;
    memcpy(sorted, w->ms[column], n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

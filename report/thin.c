#include "report/thin.h"
#include <math.h>

static size_t next_finite(const double *v, size_t stride, size_t i, size_t n)
{
    while (i < n && !isfinite(v[i * stride]))
        i++;
    return i;
}

/* The indices of the smallest and the largest value in [begin, end), in order. */
static size_t extremes(const double *v, size_t stride, size_t begin, size_t end, size_t *kept)
{
    size_t least = next_finite(v, stride, begin, end), most = least;
    for (size_t i = least; i < end; i++) {
        if (v[i * stride] < v[least * stride])
            least = i;
        if (v[i * stride] > v[most * stride])
            most = i;
    }
    if (least >= end)
        return 0;
    kept[0] = least < most ? least : most;
    if (least == most)
        return 1;
    kept[1] = least < most ? most : least;
    return 2;
}

size_t thin(const double *v, size_t stride, size_t n, size_t most, size_t *kept)
{
    size_t finite = 0, last = 0, count = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(v[i * stride]))
            continue;
        if (finite++ < most)
            kept[count++] = i;
        last = i;
    }
    if (finite <= most)
        return count;
    const size_t first = kept[0], stretches = (most - 2) / 2, between = last - first - 1;
    count = 1;
    for (size_t s = 0; s < stretches; s++) {
        const size_t begin = first + 1 + between * s / stretches;
        const size_t end = first + 1 + between * (s + 1) / stretches;
        count += extremes(v, stride, begin, end, kept + count);
    }
    kept[count++] = last;
    return count;
}

size_t finite_count(const double *v, size_t stride, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += isfinite(v[i * stride]) ? 1 : 0;
    return count;
}

size_t thin_evenly(const double *v, size_t stride, size_t n, size_t most, size_t *kept)
{
    const size_t finite = finite_count(v, stride, n), count = finite < most ? finite : most;
    size_t i = 0, seen = 0;
    for (size_t k = 0; k < count; k++, seen++, i++) {
        const size_t wanted = count < 2 ? 0 : k * (finite - 1) / (count - 1);
        i = next_finite(v, stride, i, n);
        for (; seen < wanted; seen++)
            i = next_finite(v, stride, i + 1, n);
        kept[k] = i;
    }
    return count;
}

/* Every i is summed anew: a sliding sum would keep the rounding error of one huge value. */
double mean_around(const double *v, size_t stride, size_t n, size_t i, size_t half)
{
    double sum = v[i * stride];
    size_t count = 1;
    for (size_t k = i, left = half; k-- > 0 && left > 0;)
        if (isfinite(v[k * stride])) {
            sum += v[k * stride];
            count++;
            left--;
        }
    for (size_t k = i + 1, left = half; k < n && left > 0; k++)
        if (isfinite(v[k * stride])) {
            sum += v[k * stride];
            count++;
            left--;
        }
    return sum / (double)count;
}

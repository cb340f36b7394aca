#include "command/tune/tune.h"
#include <math.h>

int tune_reached(const struct tune_run *run)
{
    int reached = 0;
    while (reached < TUNE_RUNGS && run->result[reached].known)
        reached++;
    return reached;
}

bool tune_diverged(const struct tune_run *run)
{
    const int reached = tune_reached(run);
    return reached > 0 && run->result[reached - 1].diverged;
}

/* -1: a is better, 1: b is. Images by accuracy, then by loss; texts by loss. */
static int compare(const struct tune *t, const struct tune_result *a, const struct tune_result *b)
{
    if (a->diverged != b->diverged)
        return a->diverged ? 1 : -1;
    if (a->diverged)
        return 0;
    if (t->images && a->accuracy != b->accuracy)
        return a->accuracy > b->accuracy ? -1 : 1;
    return (a->loss > b->loss) - (a->loss < b->loss);
}

static int compare_runs(const struct tune *t, size_t i, size_t k)
{
    const struct tune_run *a = &t->run[i], *b = &t->run[k];
    const int reached = tune_reached(a);
    if (tune_diverged(a) != tune_diverged(b))
        return tune_diverged(a) ? 1 : -1;
    if (reached != tune_reached(b))
        return reached > tune_reached(b) ? -1 : 1;
    return reached ? compare(t, &a->result[reached - 1], &b->result[reached - 1]) : 0;
}

bool tune_tie(const struct tune *t, size_t a, size_t b)
{
    return compare_runs(t, a, b) == 0;
}

/* By insertion, which keeps the order of equals. */
void tune_sort(const struct tune *t)
{
    for (size_t i = 0; i < t->runs; i++) {
        size_t at = i;
        for (; at > 0 && compare_runs(t, t->order[at - 1], i) > 0; at--)
            t->order[at] = t->order[at - 1];
        t->order[at] = i;
    }
}

/* The place of a run among the first results. */
static size_t place(const struct tune *t, size_t run)
{
    size_t better = 0;
    for (size_t i = 0; i < t->runs; i++) {
        const int c = compare(t, &t->run[i].result[0], &t->run[run].result[0]);
        better += c < 0 || (c == 0 && i < run);
    }
    return better;
}

size_t tune_halve(struct tune *t)
{
    size_t going = 0;
    for (size_t i = 0; i < t->runs; i++) {
        t->run[i].goes_on = !t->run[i].result[0].diverged && place(t, i) < (t->runs + 1) / 2;
        going += t->run[i].goes_on;
    }
    return going;
}

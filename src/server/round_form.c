/* What the gradients of a round become: their mean, or what a rule makes of them. */
#include "base/mem.h"
#include "kernel/kernel.h"
#include "server/round.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The mean, or what else the frames stand for, in rank order: the bits of a gathering of all. */
static bool sum(const tg_server *s, const tg__round *round, float *acc)
{
    const tg__gathering *first = NULL;
    bool finite = true;
    int count = 0;
    memset(acc, 0, round->n * sizeof *acc);
    for (int rank = 0; rank < s->ranks; rank++) {
        const tg__gathering *g = round->of[rank];
        if (g == NULL)
            continue;
        const tg__robust_frame f = tg__gathering_frame(g, rank);
        g->star.combine->add(acc, g->n, f.frame, f.len, NULL);
        finite &= (g->flags & TG__FLAG_NONFINITE) == 0;
        first = first == NULL ? g : first;
        count++;
    }
    if (first->star.combine->finish != NULL)
        first->star.combine->finish(acc, round->n, count);
    return finite && tg__kernel()->all_finite(acc, round->n);
}

static int count_rates_up_to(const tg_server *s, const tg__round *round, double rate)
{
    int count = 0;
    for (int rank = 0; rank < s->ranks; rank++)
        count += round->of[rank] != NULL && round->of[rank]->star.rate <= rate;
    return count;
}

/* The median of the learning rates; of an even number the lower one. */
static double median_rate(const tg_server *s, const tg__round *round)
{
    const int half = (tg__round_count(s, round) + 1) / 2;
    double median = INFINITY;
    for (int rank = 0; rank < s->ranks; rank++)
        if (round->of[rank] != NULL && round->of[rank]->star.rate < median &&
            count_rates_up_to(s, round, round->of[rank]->star.rate) >= half)
            median = round->of[rank]->star.rate;
    return median;
}

double tg__round_rate(const tg_server *s, const tg__round *round)
{
    return s->mode.rule.kind == TG__ROBUST_NONE ? tg__round_first(s, round)->star.rate
                                                : median_rate(s, round);
}

static tg_status combine(tg_server *s, const tg__round *round, float *acc, bool *formed_p)
{
    TG__FREED tg__robust_frame *in = NULL;
    const tg__gathering *first = NULL;
    int count = 0;
    float *last;
    TG_TRY(tg_alloc((size_t)s->ranks, sizeof *in, &in));
    for (int rank = 0; rank < s->ranks; rank++) {
        const tg__gathering *g = round->of[rank];
        if (g == NULL)
            continue;
        in[count++] = tg__gathering_frame(g, rank);
        first = first == NULL ? g : first;
    }
    *formed_p = false;
    if (count < tg__robust_least(&s->mode.rule))
        return TG_OK;
    TG_TRY(tg__robust_last_of(&s->robust, &first->id, round->begin, round->n, &last));
    return tg__robust_combine(&s->robust, in, count, round->n, last, acc, formed_p);
}

tg_status tg__round_form(tg_server *s, const tg__round *round, float *acc, bool *formed_p)
{
    if (s->mode.rule.kind != TG__ROBUST_NONE &&
        tg__round_first(s, round)->star.combine == &tg__combine_mean)
        return combine(s, round, acc, formed_p);
    *formed_p = sum(s, round, acc);
    return TG_OK;
}

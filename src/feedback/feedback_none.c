/* p = g; there is no memory. For lossless codecs, or codecs whose error has mean 0. */
#include "feedback/feedback.h"

static bool pass(tg__feedback *f, const float *g, size_t n, float *scratch, const float **p_p)
{
    (void)f;
    (void)n;
    (void)scratch;
    *p_p = g;
    return true;
}

const tg__feedback_ops tg__feedback_none = {
    .entry = {"none", "nothing is remembered: what was not sent is lost", "", NULL},
    .compensate = pass,
    .bypass = pass,
};

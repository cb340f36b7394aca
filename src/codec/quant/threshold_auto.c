/* Thresholds, fixed or adaptive. */
#include "codec/quant/threshold_auto.h"
#include "base/mem.h"
#include "kernel/kernel.h"
#include "telegrad/spec.h"
#include <math.h>
#include <string.h>

/* GAIN for the first FAST_STEPS vectors finds the threshold; then the gain falls to GAIN / SLOWER,
 * which averages over batches: their gradients can differ in size by more than a factor of ten. */
#define GAIN 0.2
#define FAST_STEPS 30.0
#define SLOWER 10.0
#define FACTOR 8.0 /* largest increase in one step */
#define LATE 0.25
#define LATE_WEIGHT 64.0
#define SEEN_MOST 65536.0f
enum { BLOCK = 64, SAMPLES = 256 }; /* elements of a block; most blocks that are sampled */

/* A segment's memory. */
enum { THRESHOLD, SEEN, FLOATS };

tg_status tg__thresholds_init(tg_codec *c)
{
    tg__thresholds *t = c->impl;
    double wish = tg_spec_real(c->spec, "threshold"), usual = 0;
    t->adapt = strcmp(tg_spec_word(c->spec, "threshold"), "auto") == 0;
    t->fixed = (float)wish;
    t->ahead = (float)tg_spec_real(c->spec, "lookahead");
    t->start = tg_spec_real(c->spec, "start");
    t->target = tg_spec_real(c->spec, "target");
    if (!t->adapt && (!(t->fixed > 0) || !isfinite(t->fixed)))
        return tg_fail(TG_E_SPEC, "codec \"%s\": threshold=%g: must be a positive f32",
                       tg_spec_name(c->spec), wish);
    const bool given = !tg_real_parse(TG__TARGET, &usual) || t->start != 0 || t->target != usual;
    if (!t->adapt && given)
        return tg_fail(TG_E_SPEC,
                       "codec \"%s\": threshold=%g with start=%g, target=%g: allowed only with "
                       "threshold=auto",
                       tg_spec_name(c->spec), wish, t->start, t->target);
    return TG_OK;
}

size_t tg__thresholds_memory(const tg_codec *c)
{
    return ((const tg__thresholds *)c->impl)->adapt ? FLOATS : 0;
}

const tg_encode_context *tg__thresholds_runs(const tg__thresholds *t, const tg_encode_context *ctx)
{
    static const tg_encode_context whole = {.struct_size = sizeof(whole)};
    return t->adapt ? ctx : &whole;
}

static size_t segments_of(const tg_encode_context *ctx)
{
    return ctx->segments ? ctx->nsegments : 1;
}

static tg_segment segment(const tg_encode_context *ctx, size_t i, size_t n)
{
    return ctx->segments ? ctx->segments[i] : (tg_segment){.n = n, .rows = n, .cols = 1};
}

/* Round to 8 significant bits, so that sums of what is sent stay exact on data with few bits. The
 * memory keeps all bits, because small changes would otherwise be lost. */
static float rounded(float t)
{
    uint32_t bits;
    memcpy(&bits, &t, sizeof(bits));
    bits &= 0xffff0000;
    memcpy(&t, &bits, sizeof(t));
    return t;
}

static float bounded(double t)
{
    if (!(t > (double)TG__THRESHOLD_LEAST))
        return TG__THRESHOLD_LEAST;
    return t < (double)TG__THRESHOLD_MOST ? (float)t : TG__THRESHOLD_MOST;
}

bool tg__thresholds_estimates(const tg__thresholds *t, const tg_encode_context *ctx)
{
    if (!t->adapt || t->start > 0)
        return false;
    if (!ctx->memory)
        return true;
    for (size_t i = 0; i < segments_of(ctx); i++)
        if (ctx->memory[FLOATS * i + THRESHOLD] == 0)
            return true;
    return false;
}

static float first(const tg__thresholds *t, const float *x, size_t n)
{
    tg__stats stats;
    if (t->start > 0)
        return bounded(t->start);
    tg__kernel()->copy_stats(NULL, x, n, &stats);
    return bounded(sqrt(stats.sum_sq / ((double)n * t->target)));
}

tg_status tg__thresholds_reserve(tg_codec *c, const tg_encode_context *ctx)
{
    tg__thresholds *t = c->impl;
    size_t count = segments_of(ctx);
    TG_TRY(tg__scratch(c, &t->now, count, sizeof(*t->now)));
    return tg__scratch(c, &t->sent, count, sizeof(*t->sent));
}

void tg__thresholds_begin(tg__thresholds *t, const tg_encode_context *ctx, const float *x, size_t n)
{
    size_t count = segments_of(ctx);
    memset(t->sent, 0, count * sizeof(*t->sent));
    for (size_t i = 0; i < count; i++) {
        tg_segment s = segment(ctx, i, n);
        float known = ctx->memory ? ctx->memory[FLOATS * i + THRESHOLD] : 0;
        if (!t->adapt)
            t->now[i] = t->fixed;
        else if (known != 0)
            t->now[i] = rounded(bounded((double)known));
        else
            t->now[i] = rounded(first(t, x + s.begin, s.n));
    }
}

void tg__thresholds_encode(const float *x, const float *g, size_t n, float ahead, float threshold,
                           uint8_t *planes)
{
    if (g != NULL)
        tg__kernel()->twobit_ahead_encode(x, g, n, ahead, threshold, planes);
    else
        tg__kernel()->twobit_encode(x, n, threshold, planes);
}

/* rest = what is left of x (m) after it was sent. */
static void subtract_sent(const tg__thresholds *t, const float *x, const float *g, size_t m,
                          float tau, float *rest)
{
    uint8_t planes[BLOCK / 4];
    tg__thresholds_encode(x, g, m, t->ahead, tau, planes);
    memcpy(rest, x, m * sizeof(*rest));
    tg__kernel()->twobit_decode_add(rest, planes, m, -tau);
}

/* The fraction of the remainder of x (n) with a score of tau or more, in a sample of blocks. */
static double late_fraction(const tg__thresholds *t, const float *x, const float *g, size_t n,
                            float tau, bool left)
{
    uint8_t planes[BLOCK / 4];
    size_t blocks = n / BLOCK, stride = blocks / SAMPLES + 1, count = 0, seen = 0;
    for (size_t begin = 0; begin < n; begin += stride * BLOCK) {
        float block[BLOCK];
        const float *rest = left ? x + begin : block;
        size_t m = TG__MIN(n - begin, (size_t)BLOCK);
        if (!left)
            subtract_sent(t, x + begin, g ? g + begin : NULL, m, tau, block);
        tg__thresholds_encode(rest, g ? g + begin : NULL, m, t->ahead, tau, planes);
        count += tg__kernel()->count_bits(planes, tg__twobit_bytes(m));
        seen += m;
    }
    return (double)count / (double)TG__MAX(seen, (size_t)1);
}

void tg__thresholds_end(const tg__thresholds *t, const tg_encode_context *ctx, const float *x,
                        const float *g, size_t n, bool left)
{
    if (!t->adapt || !ctx->memory)
        return;
    for (size_t i = 0; i < segments_of(ctx); i++) {
        tg_segment s = segment(ctx, i, n);
        if (t->sent[i] == 0 && tg__kernel()->abs_max(x + s.begin, s.n) == 0)
            continue;
        float *memory = ctx->memory + FLOATS * i;
        double density = (double)t->sent[i] / (double)s.n, excess = density / t->target - 1;
        if (t->sent[i] > 0) {
            double late =
                late_fraction(t, x + s.begin, g ? g + s.begin : NULL, s.n, t->now[i], left);
            late /= density;
            excess = TG__MAX(excess, LATE_WEIGHT * (late - LATE));
        }
        double seen = (double)memory[SEEN], gain = GAIN;
        if (seen >= FAST_STEPS)
            gain *= TG__MAX(FAST_STEPS / seen, 1 / SLOWER);
        double factor = 1 + gain * excess;
        float last = memory[THRESHOLD] != 0 ? bounded((double)memory[THRESHOLD]) : t->now[i];
        memory[THRESHOLD] = bounded((double)last * TG__MIN(factor, FACTOR));
        memory[SEEN] += memory[SEEN] < SEEN_MOST;
    }
}

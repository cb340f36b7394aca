/* The thresholds of the ternary codecs (2bit, strom), one per segment: a fixed one, or one that
 * adapts until the target fraction of the elements is sent.
 *
 * Adapting (threshold=auto) keeps two floats per segment in the context's memory: the threshold t
 * (0 before it is known), and the number of vectors seen:
 *
 *     first     start, or rms(x) / sqrt(target): a sum of steps of that rms first leaves
 *               (-t, t) after about (t / rms)^2 = 1 / target steps
 *     then      t *= 1 + gain * max(sent / (n * target) - 1, weight * (late - 1/4)), at most 8
 *
 * late is the number of elements that would be sent again if the remainder were coded at once, with
 * the same g, divided by the number sent. An element sends at most t in a step. If much is late,
 * the residual grows and what is sent is outdated, so t rises whatever the density
 * (a tensor whose gradient has fewer nonzero elements than the target never reaches it). The gain
 * is large for the first vectors, to find t from a wrong start, then small, because batches differ.
 *
 * The threshold sent is rounded down to 8 significant bits. A segment of zeros carries no
 * information and leaves its threshold unchanged; thresholds stay within [TG__THRESHOLD_LEAST,
 * TG__THRESHOLD_MOST].
 *
 * Source: Strom 2015, Interspeech (fixed thresholds) */
#ifndef TG_CODEC_THRESHOLD_AUTO_H
#define TG_CODEC_THRESHOLD_AUTO_H

#include "codec/codec_impl.h"

#define TG__THRESHOLD_LEAST 1e-30f
#define TG__THRESHOLD_MOST 1e30f

typedef struct tg__thresholds {
    bool adapt;
    float fixed;
    float ahead;          /* scores x + ahead * g are compared; g: the last addition to x */
    double start, target; /* start 0: estimated */
    /* For the current call: */
    float *now;   /* (nsegments; 1 without segments) */
    size_t *sent; /* likewise: elements sent, counted by the codec */
} tg__thresholds;

/* The first three are for codecs whose impl begins with tg__thresholds. */

/* Read the keys threshold (a number or auto), start and target, which apply to auto only, and
 * lookahead.
 * Errors  TG_E_SPEC */
TG_NODISCARD tg_status tg__thresholds_init(tg_codec *c);
size_t tg__thresholds_memory(const tg_codec *c); /* floats per segment */
/* Allocate now and sent.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__thresholds_reserve(tg_codec *c, const tg_encode_context *ctx);

/* The context whose segments have thresholds of their own: a fixed threshold needs none, so the
 * vector is one run. */
const tg_encode_context *tg__thresholds_runs(const tg__thresholds *t, const tg_encode_context *ctx);
/* True if tg__thresholds_begin needs x. */
bool tg__thresholds_estimates(const tg__thresholds *t, const tg_encode_context *ctx);
/* Set now, clear sent. x (n) is read only for estimates. Call it after tg__thresholds_reserve */
void tg__thresholds_begin(tg__thresholds *t, const tg_encode_context *ctx, const float *x,
                          size_t n);
/* All segments have been counted: adapt the context's memory. x (n): the encoded vector, or (left)
 * the remainder after subtracting the decoded values; the outcome is the same.
 * g  (n) what the scores look ahead by; NULL: x itself was compared */
void tg__thresholds_end(const tg__thresholds *t, const tg_encode_context *ctx, const float *x,
                        const float *g, size_t n, bool left);

/* The planes of x (n), where the scores x + ahead * g are compared; g NULL: x itself. */
void tg__thresholds_encode(const float *x, const float *g, size_t n, float ahead, float threshold,
                           uint8_t *planes);

/* The keys, shared by codecs and methods. */
#define TG__KEY_THRESHOLD(text)                                                              \
    TG__KEY(REAL, "threshold", text, 0, 1e30,                                                \
            "the value sent, in units of the gradient (mean over the batch); auto: adapted " \
            "to target, per tensor",                                                         \
            .min_open = true, .choices = "auto")
#define TG__KEY_START \
    TG__KEY(REAL, "start", "0", 0, 1e30, "first threshold of auto; 0: derived from the gradient")
#define TG__TARGET "0.1"
#define TG__KEY_TARGET                          \
    TG__KEY(REAL, "target", TG__TARGET, 0, 0.5, \
            "fraction of the elements that auto aims to send, on average", .min_open = true)
#endif

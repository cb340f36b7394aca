/* Feedback: a rank's memory of what it did not send. It does not depend on a codec: it receives
 * what was sent as decoded values. A feedback (none, residual, velocity, momentum) is one file and
 * one line in feedbacks.def. */
#ifndef TG_FEEDBACK_H
#define TG_FEEDBACK_H

#include "base/pool.h"
#include "base/keys.h"

enum { TG__FEEDBACK_VECTORS = 2 };

/* Settings. They belong to velocity feedback (DGC) unless stated otherwise. */
typedef struct tg__feedback_params {
    double momentum;
    bool nesterov, masking;
    double clip; /* scale each tensor to norm <= clip / sqrt(world) first; 0: off */
    int world;
    /* Momentum feedback (Signum): weight of the old average. Residual feedback: fraction of the
     * unsent part that enters the residual; 0: all. */
    double beta;
    double decay; /* residual feedback: factor of the old residual; 0: no decay */
} tg__feedback_params;

/* How a feedback forms the vector of what is not yet sent, for passes that form it and encode it at
 * once (method/fused.c). */
typedef enum tg__forms {
    TG__FORMS_OTHERWISE, /* no such pass knows it */
    TG__FORMS_SUM,       /* pending += g */
    TG__FORMS_VELOCITY   /* vec[0] = m * vec[0] + g; pending += vec[0]; or with Nesterov momentum */
} tg__forms;

typedef struct tg__feedback tg__feedback;
typedef struct tg__feedback_ops {
    tg_entry entry;
    size_t vectors; /* number of vectors (n) that it keeps: slots to allocate */
    /* Names of the slots: "residual"; "velocity" (u), "accumulated" (v) */
    const char *names[TG__FEEDBACK_VECTORS];
    size_t pending;     /* index of the vector of what is not yet sent (r; v); >= vectors: none */
    bool owns_momentum; /* replaces the optimizer's momentum */
    tg__forms forms;    /* how `compensate` forms pending, without clip, decay and filter */

    /* Compute p, what should be sent now.
     * scratch  (n) may be used for p; g may be scratch
     * p_p      [out] scratch, one of the vectors, or g
     * Returns  true if p is finite, given that g is */
    bool (*compensate)(tg__feedback *f, const float *g, size_t n, float *scratch,
                       const float **p_p);
    /* Record what was sent, as decoded. NULL: it does not matter.
     * p         what compensate returned
     * idx, val  sparse: (k) each, idx distinct and < n. Dense: idx NULL and val (n), 0 where
     *           nothing was sent */
    void (*sent)(tg__feedback *f, const float *p, size_t n, const uint32_t *idx, const float *val,
                 size_t k);
    /* Compute what to send in a step that is exchanged dense and uncompressed. The pending vector
     * does not change. Arguments and result as for compensate. */
    bool (*bypass)(tg__feedback *f, const float *g, size_t n, float *scratch, const float **p_p);
} tg__feedback_ops;

struct tg__feedback {
    const tg__feedback_ops *ops;
    tg__feedback_params params;
    float *vec[TG__FEEDBACK_VECTORS]; /* (n) each: slots of the state */
    tg__pool *pool;                   /* cores for whole vectors; NULL: the calling one. Borrowed */
};

/* Residual feedback: true if it has a low-pass filter, so that p is not the residual itself; and
 * the filter's beta, 1 without one. */
static inline bool tg__feedback_filters(const tg__feedback *f)
{
    return f->params.beta > 0 && f->params.beta != 1;
}
static inline float tg__feedback_share(const tg__feedback *f)
{
    return tg__feedback_filters(f) ? (float)f->params.beta : 1.0f;
}

/* After compensate: what it has added to the pending vector, the velocity (of Nesterov momentum,
 * too) or g; for codecs that look ahead. */
static inline const float *tg__feedback_last(const tg__feedback *f, const float *g)
{
    return f->ops->forms == TG__FORMS_VELOCITY ? f->vec[0] : g;
}

/* tg__feedback_NAME, for each line of feedbacks.def. */
#define TG_FEEDBACK(name) extern const tg__feedback_ops tg__feedback_##name;
#include "feedback/feedbacks.def"
#undef TG_FEEDBACK
const tg__feedback_ops *const *tg__feedbacks(size_t *count_p);
const tg_entry *const *tg__feedback_entries(size_t *count_p);
const tg__feedback_ops *tg__feedback_find(const char *name); /* NULL if there is none */

/* The vector (n) of what is not yet sent, to which dropped and undone payloads are added; NULL for
 * `none`. */
float *tg__feedback_pending(const tg__feedback *f);

/* DGC's local clipping: scale each of nseg tensors so that its norm is at most clip / sqrt(world),
 * to rounding.
 * dst         [out] may be g, else they must not overlap. Elements outside the tensors are not
 *             written; a tensor with NaN or infinity is copied unchanged
 * begin, len  (nseg) elements of each tensor
 * clip        > 0
 * Threads     any; a pure function */
void tg__clip_tensors(float *dst, const float *g, const size_t *begin, const size_t *len,
                      size_t nseg, double clip, int world);
double tg__clip_limit(double clip, int world); /* the largest norm that it leaves as it is */
#endif

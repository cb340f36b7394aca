/* Feedback: what a rank remembers of what it did not send. It knows no codec: it is shown what was
 * sent as a view. One file and one line in feedbacks.def each: none, residual, velocity. */
#ifndef TG_FEEDBACK_H
#define TG_FEEDBACK_H

#include "base/pool.h"
#include "telegrad/spec.h"

enum { TG__FEEDBACK_VECTORS = 2 };

/* Settings of velocity feedback (DGC), but for those that name another. */
typedef struct tg__feedback_params {
    double momentum;
    bool nesterov, masking;
    double clip; /* 0: off; else each tensor is scaled to norm <= clip / sqrt(world) before */
    int world;
    /* momentum feedback (Signum): share of the old average; residual feedback: share of what was
     * not sent that enters the residual; 0: all */
    double beta;
    double decay; /* residual feedback: the old residual is multiplied with it; 0: not at all */
} tg__feedback_params;

typedef struct tg__feedback tg__feedback;
typedef struct tg__feedback_ops {
    tg_entry entry;
    size_t vectors; /* how many vectors of n it keeps: slots to allocate */
    /* slot names: "residual"; "velocity" (u), "accumulated" (v) */
    const char *names[TG__FEEDBACK_VECTORS];
    size_t pending;     /* which of them holds what was not sent yet (r; v); >= vectors: none */
    bool owns_momentum; /* replaces the optimizer's momentum */

    /* p = what should be sent now. *p_p is either scratch (n, which it filled), one of the vectors,
     * or g. g may be scratch. Whether p is finite: if g was, and what was remembered. */
    bool (*compensate)(tg__feedback *f, const float *g, size_t n, float *scratch,
                       const float **p_p);
    /* Told what of p was sent, as decoded. Sparse: idx, val (k), idx distinct and < n; dense: val
     * (n), idx NULL, 0 where nothing was sent. p is what compensate gave. */
    void (*sent)(tg__feedback *f, const float *p, size_t n, const uint32_t *idx, const float *val,
                 size_t k);
    /* A step that is exchanged dense and uncompressed: *p_p is what to send, pending values
     * untouched. Whether that is finite. */
    bool (*bypass)(tg__feedback *f, const float *g, size_t n, float *scratch, const float **p_p);
} tg__feedback_ops;

struct tg__feedback {
    const tg__feedback_ops *ops;
    tg__feedback_params params;
    float *vec[TG__FEEDBACK_VECTORS]; /* (n) each, slots of the state */
    tg__pool *pool;                   /* cores for whole vectors; NULL: the calling one. Borrowed */
};

/* Residual feedback: whether it filters, so that p is apart from the residual; beta, or 1. */
static inline bool tg__feedback_filters(const tg__feedback *f)
{
    return f->params.beta > 0 && f->params.beta != 1;
}
static inline float tg__feedback_share(const tg__feedback *f)
{
    return tg__feedback_filters(f) ? (float)f->params.beta : 1.0f;
}

const tg__feedback_ops *const *tg__feedbacks(size_t *count_p);
const tg_entry *const *tg__feedback_entries(size_t *count_p);
const tg__feedback_ops *tg__feedback_find(const char *name); /* NULL if there is none */

/* The pending vector (n) to which a dropped or undone payload is added; NULL for `none`. */
float *tg__feedback_pending(const tg__feedback *f);

/* DGC step 2: write to dst the gradient with each of nseg tensors (begin[i], len[i]) scaled so that
 * its norm is at most clip / sqrt(world), to rounding. dst may be g, else they do not overlap;
 * elements outside the tensors are not touched; a tensor with NaN or infinity is copied as it is.
 * clip > 0. Pure function: any thread. */
void tg__clip_tensors(float *dst, const float *g, const size_t *begin, const size_t *len,
                      size_t nseg, double clip, int world);
#endif

/* Rehearsal: run a step of a method on a single rank, to measure how many bytes its exchanges
 * carry. */
#ifndef TG_REHEARSAL_H
#define TG_REHEARSAL_H

#include "method/method.h"

#define TG__LATE (UINT64_MAX / 2) /* a step after every warm-up */

enum { TG__REHEARSAL_ROUNDS = 8 };

typedef struct tg__rehearsal {
    size_t bytes;  /* frames of the vector, in all rounds */
    size_t rounds; /* exchanges run */
    struct {
        const tg__exchange_ops *x;
        size_t n;
        double frame;  /* bytes */
        bool cuts;     /* tg__star_cuts */
        bool answered; /* servers answer with such frames, too */
    } round[TG__REHEARSAL_ROUNDS];
} tg__rehearsal;

/* Run a task of m, whose setup has size 1 and lanes 1. A dense one requires setup.may_bypass.
 * Errors  those of the method; TG_E_UNSUPPORTED (more than TG__REHEARSAL_ROUNDS rounds) */
TG_NODISCARD tg_status tg__rehearse(tg__method *m, tg__task task, tg__rehearsal *r);

/* For tg__program_ops.foresee: add a round of n elements as dense f32. */
void tg__rehearsal_add_dense(tg__rehearsal *r, const tg__exchange_ops *x, size_t n);

/* A smaller setup to rehearse with: the first tensors of a setup, cut after `most` elements. */
typedef struct tg__sample {
    tg__method_setup setup; /* that of the whole, with fewer tensors; names are borrowed */
    size_t n;               /* elements, at least 1 */
    double scale;           /* elements of the whole / n */
    size_t *sizes;          /* len, rows, cols */
} tg__sample;

/* Create a sample. The last tensor is cut to whole rows, or to a part of one row.
 * most    >= 1
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__sample_create(const tg__method_setup *whole, size_t most, tg__sample *s);
void tg__sample_free(tg__sample *s);

/* A random gradient: *g_p (n), normal with standard deviation 1. Release it with free().
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__rehearsal_gradient(uint64_t seed, size_t n, float **g_p);

#endif

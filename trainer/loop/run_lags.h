/* LAGS-SGD: each bucket's density is chosen so that its exchange is over before the next bucket's
 * gradients are there. */
#ifndef TG_TRAIN_RUN_LAGS_H
#define TG_TRAIN_RUN_LAGS_H

#include "trainer/loop/run_fusion.h"
#include "trainer/loop/train.h"

struct run;

/* The densities of buckets chosen by fusion_merge, with the times that it used. In the order of the
 * backward pass, with `begin` when the bucket is ready and the exchanges before it are over:
 *
 *     room    = ready of the next bucket - begin - alpha; -alpha for the last one, after which
 *               nothing is computed
 *     density = room / (time of the bucket's bytes at density 1), at least `least`, at most 1
 *
 * t        (n) exchange: with density `least`; bytes grow in proportion to the density
 * buckets  (nbuckets) of n tensors in all
 * density  (nbuckets) [out]
 * Source   Shi et al. 2019 (LAGS-SGD), arXiv:1911.08727, eq. 18, for merged layers (OMGS-SGD,
 *          arXiv:1912.03696); their bound on the compression is 1 / least */
void lags_densities(const fusion_tensor *t, size_t n, const uint32_t *buckets, size_t nbuckets,
                    double alpha, double least, double *density);

/* The density of the job's method: the least that a bucket gets.
 * Errors  TG_E_SPEC (it has none that its bytes grow with) */
TG_NODISCARD tg_status lags_least(const train_job *job, double *least_p);

/* A method's spec with another density; release it with free().
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status lags_method(const char *method, double density, char **text_p);

/* Set r->rules: those of the job, and one for each tensor that none of them matches, which gives it
 * the job's method with its bucket's density (r->density).
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status lags_rules(struct run *r);
void lags_free(struct run *r);

#endif

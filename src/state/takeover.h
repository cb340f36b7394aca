/* A checkpoint of P ranks in the hands of P': who takes over what.
 *
 * The old ranks lie side by side, each 1 long, and are cut into P' stretches of equal length: new
 * rank j takes over the j-th. What is one rank's own becomes the mean over the stretch:
 *
 *     x'_j = sum over i of w_ij x_i,   w_ij = P'/P * (length of old rank i in stretch j)
 *
 * The weights of a new rank add up to 1, so x'_j is of the size of a rank's own vector (what
 * thresholds and selections go by stays), and those of an old rank to P'/P: the mean over ranks
 * stays, and the sum becomes P'/P times the old one. All of it is linear, so whatever ranks make of
 * such vectors by linear steps fits together after it. Sums are formed in f64 and rounded once:
 * exact where the result has few bits, and equal vectors stay as they are. From 4 to 8 each old
 * rank has two heirs with copies; from 4 to 3 the first takes 3/4 of rank 0 and 1/4 of rank 1.
 *
 * With two levels a method's memory is that of the leaders: the same among nodes. */
#ifndef TG_TAKEOVER_H
#define TG_TAKEOVER_H

#include "state/state.h"

/* One of `size` that take over from `old`. */
typedef struct tg__heir {
    int rank, size, old;
} tg__heir;

/* w_ij of old rank `from` as a fraction of h.old: 0 to h.old. */
int tg__heir_weight(tg__heir h, int from);
/* The first old rank with a weight. */
int tg__heir_first(tg__heir h);

/* A weighted mean under way; all zero to begin with. */
typedef struct tg__blend {
    double *sum; /* (n) */
    int weight;  /* so far */
} tg__blend;
/* Add x (n) with a weight; when all of them, which add up to `whole`, have come dst (n) is their
 * mean. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__blend_add(tg__blend *b, float *dst, const float *x, size_t n, int weight,
                                     int whole);
void tg__blend_free(tg__blend *b);

/* Slots of a state, from the files of old ranks, which come in the order of ranks. */
typedef struct tg__takeover tg__takeover;
/* ranks: this rank among all, old: those that saved. leader: its node among all nodes, and of how
 * many old ones; node (ranks.old): that an old rank leads, -1: none. Without nodes, here or there,
 * every rank counts as one. All of s is zero. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__takeover_create(tg__state *s, tg__heir ranks, tg__heir leaders,
                                           const int *node, tg__takeover **t_p);
/* Whether rank `from`'s file has anything for the slots. */
bool tg__takeover_needs(const tg__takeover *t, int from);
/* Errors TG_E_MISMATCH (a slot that is not there or has another size), TG_E_NOMEM */
TG_NODISCARD tg_status tg__takeover_add(tg__takeover *t, tg__ckpt_reader *r, int from);
/* Whether all slots are filled. Errors TG_E_CORRUPT, naming one that is not */
TG_NODISCARD tg_status tg__takeover_end(const tg__takeover *t);
void tg__takeover_free(tg__takeover *t); /* NULL is fine */

#endif

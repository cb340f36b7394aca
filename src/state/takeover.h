/* Takeover: how P' ranks resume from a checkpoint of P ranks.
 *
 * Lay the old ranks side by side, each of length 1, and cut them into P' intervals of equal length.
 * New rank j takes over interval j. State of a single rank becomes the mean over the interval:
 *
 *     x'_j = sum over i of w_ij x_i,   w_ij = P'/P * (length of old rank i in interval j)
 *
 * Weights   Those of a new rank add up to 1, so x'_j has the scale of a single rank's vector, and
 *           thresholds and selections keep their meaning. Those of an old rank add up to P'/P: the
 *           mean over ranks is preserved, and the sum becomes P'/P times the old one.
 * Linear    The map is linear, so vectors that ranks derive from each other by linear steps remain
 *           consistent.
 * Rounding  Sums are formed in f64 and rounded once: exact if the result has few bits. Equal
 *           vectors do not change.
 * Examples  From 4 to 8, each old rank has two heirs with copies. From 4 to 3, the first heir takes
 *           3/4 of rank 0 and 1/4 of rank 1.
 *
 * With two levels a method's memory belongs to the leaders, and the same applies to nodes. */
#ifndef TG_TAKEOVER_H
#define TG_TAKEOVER_H

#include "base/owned.h"
#include "state/state.h"

/* One of the `size` ranks that take over from `old` ranks. */
typedef struct tg__heir {
    int rank, size, old;
} tg__heir;

/* The weight w_ij of old rank `from`, times h.old: 0 to h.old. */
int tg__heir_weight(tg__heir h, int from);
/* The first old rank with a weight. */
int tg__heir_first(tg__heir h);

/* A weighted mean in progress. Zero it first. */
typedef struct tg__blend {
    double *sum; /* (n) */
    int weight;  /* so far */
} tg__blend;
/* Add x (n) with a weight. When the weights add up to `whole`, dst (n) is set to the mean.
 * o       owns the sum while it is needed
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__blend_add(tg__owned *o, tg__blend *b, float *dst, const float *x,
                                     size_t n, int weight, int whole);

/* Fills the slots of a state from the files of old ranks, which must be added in rank order. */
typedef struct tg__takeover tg__takeover;
/* Create a takeover. Without nodes, now or in the checkpoint, every rank counts as a node.
 * o        owns the takeover and its memory
 * s        all slots are zero
 * ranks    this rank among all ranks; old is the number that saved
 * leaders  the same among nodes
 * node     (ranks.old) the node that each old rank leads; -1: none
 * Errors   TG_E_NOMEM */
TG_NODISCARD tg_status tg__takeover_create(tg__owned *o, tg__state *s, tg__heir ranks,
                                           tg__heir leaders, const int *node, tg__takeover **t_p);
/* True if the file of old rank `from` has something for the slots. */
bool tg__takeover_needs(const tg__takeover *t, int from);
/* Add the file of old rank `from`.
 * Errors  TG_E_MISMATCH (a slot is missing or has another size), TG_E_NOMEM */
TG_NODISCARD tg_status tg__takeover_add(tg__takeover *t, tg__ckpt_reader *r, int from);
/* Check that all slots are filled.
 * Errors  TG_E_CORRUPT (names one that is not) */
TG_NODISCARD tg_status tg__takeover_end(const tg__takeover *t);

#endif

/* Which rank has which training image, or which part of a text. All ranks compute the whole
 * assignment, from exactly rounded operations only, so machines with other C libraries agree.
 *
 *     iid                 no assignment: all ranks go through one shuffled order together
 *     dirichlet:alpha=A   each class is divided between the ranks in shares drawn from
 *                         Dirichlet(A, ..., A): the smaller A, the fewer ranks have most of a class
 *     label:classes=C     the images, sorted by class, are cut into C pieces a rank of equal size,
 *                         and each rank draws C of them: it has about C classes
 *     contiguous          pieces of the data in its order, as equal as can be, one a rank
 *
 * Sources  Yurochkin et al. 2019, arXiv:1905.12022, sec. 4 (dirichlet); McMahan et al. 2017,
 *          arXiv:1602.05629, sec. 3 (label) */
#ifndef TG_TRAIN_SHARD_H
#define TG_TRAIN_SHARD_H

#include "telegrad/base.h"
#include "telegrad/spec.h"

/* Errors TG_E_SPEC */
TG_NODISCARD tg_status shard_parse(const char *text, tg_spec **spec_p);
bool shard_is_iid(const tg_spec *spec);

/* Of the text `name`, which has no classes. Errors TG_E_ARG (neither iid nor contiguous) */
TG_NODISCARD tg_status shard_text(const tg_spec *spec, const char *name, bool *contiguous_p);
/* contiguous: where the piece of a rank begins; of rank `world`: samples. */
size_t shard_begin(size_t samples, int world, int rank);

/* owner (samples) = the rank that has each sample; every rank has one at least (of a Dirichlet
 * draw: SHARD_LEAST if there are so many a rank, else it is drawn again).
 * labels  (samples), below classes
 * Errors  TG_E_ARG (more ranks or pieces than samples; no draw gives every rank enough), TG_E_NOMEM
 */
#define SHARD_LEAST 10
TG_NODISCARD tg_status shard_assign(const tg_spec *spec, const uint8_t *labels, size_t samples,
                                    size_t classes, uint64_t seed, int world, uint32_t *owner);

#endif

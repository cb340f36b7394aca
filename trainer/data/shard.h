/* Shards: which rank has which training images, or which part of a text. Every rank computes the
 * whole assignment, from exactly rounded operations only, so machines with different C libraries
 * agree.
 *
 *     iid                 no assignment: all ranks share one shuffled order
 *     dirichlet:alpha=A   each class is divided among the ranks in shares drawn from
 *                         Dirichlet(A, ..., A): the smaller A, the fewer ranks have most of a class
 *     label:classes=C     the images, sorted by class, are cut into pieces of equal size, C per
 *                         rank; each rank draws C of them, so it has about C classes
 *     contiguous          the data, in order, are cut into one piece per rank, as equal as possible
 *
 * Sources  Yurochkin et al. 2019, arXiv:1905.12022, sec. 4 (dirichlet); McMahan et al. 2017,
 *          arXiv:1602.05629, sec. 3 (label) */
#ifndef TG_TRAIN_SHARD_H
#define TG_TRAIN_SHARD_H

#include "telegrad/base.h"
#include "telegrad/spec.h"

/* All kinds of shards. */
const tg_entry *const *shard_entries(size_t *count_p);
/* Errors  TG_E_SPEC */
TG_NODISCARD tg_status shard_parse(const char *text, tg_spec **spec_p);
bool shard_is_iid(const tg_spec *spec);

/* Check that the spec can shard the text `name`, which has no classes.
 * Errors  TG_E_ARG (neither iid nor contiguous) */
TG_NODISCARD tg_status shard_text(const tg_spec *spec, const char *name, bool *contiguous_p);
/* Check that there are as many classes as the spec deals to a rank. Errors TG_E_ARG */
TG_NODISCARD tg_status shard_classes(const tg_spec *spec, size_t classes);
/* contiguous: the first sample of a rank's piece; for rank `world`: samples. */
size_t shard_begin(size_t samples, int world, int rank);

/* Assign the samples to ranks. Every rank gets at least one. With dirichlet every rank gets at
 * least SHARD_LEAST, if there are that many per rank; otherwise the draw is repeated.
 * labels  (samples) below classes
 * owner   [out] (samples) the rank of each sample
 * Errors  TG_E_ARG (more ranks or pieces than samples, those of shard_classes; no draw gives every
 *         rank enough), TG_E_NOMEM */
#define SHARD_LEAST 10
TG_NODISCARD tg_status shard_assign(const tg_spec *spec, const uint8_t *labels, size_t samples,
                                    size_t classes, uint64_t seed, int world, uint32_t *owner);

#endif

/* Small blocking exchanges between all ranks, for setup. All ranks call them at the same point.
 *
 * what  If a rank told other ranks different things, they would go different ways. So after an
 *       exchange with a name (what) the ranks exchange hashes of what they received, 8 bytes for
 *       each rank. Either all ranks continue with the same bytes, or this rank leaves the transport
 *       with TG_E_CORRUPT. The error names the rank that differs, and `what` ("the handshake").
 *       NULL: what was received is not compared
 * A rank that runs out of memory here leaves the transport as well. */
#ifndef TG_COLLECT_H
#define TG_COLLECT_H

#include "engine/engine.h"

/* What this rank says. */
typedef struct tg__speech {
    const void *own;        /* (len) */
    size_t len, cap;        /* cap: most bytes of any rank */
    int full;               /* ranks below this one send exactly cap bytes */
    const tg__group *group; /* all ranks, with its patience; NULL: one timeout */
} tg__speech;

/* Gather what every rank says on all ranks: (*op_p)->x (exchange/gather.h) holds it until
 * tg__op_release. */
TG_NODISCARD tg_status tg__collect(tg__engine *e, const char *what, const tg__speech *s,
                                   tg__op **op_p);

/* Gather `len` bytes (at most 32768) of every rank on all ranks.
 * all  [out] (size * len) in rank order */
TG_NODISCARD tg_status tg__gather_all(tg__engine *e, const char *what, const void *own, size_t len,
                                      void *all);
/* Send `len` bytes of rank 0 to all ranks, in place. */
TG_NODISCARD tg_status tg__share(tg__engine *e, const char *what, void *data, size_t len);

/* Agree on success: all ranks continue, or all fail with the error of the first rank that failed.
 * own  this rank's result */
TG_NODISCARD tg_status tg__agree(tg__engine *e, tg_status own);

#endif

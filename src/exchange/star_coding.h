/* How a server codes its answers: what follows the frames of the exchange `twoway`, alike from
 * all ranks.
 *
 *    0  8  density of a sparsifier in this step, f64; 0: the codec's own
 *    8  8  factor for the server's residual before the step, f64; 0: the answer is zeros, and the
 *          residual stays
 * in the first message of an exchange also
 *   16  8  seed          24  4  stream        28  4  tensor (of tg_rng_key)
 *   32  4  bytes of the codec's spec          36  4  number of tensors
 *   40     the spec; for each tensor in the part: elements (4), rows (4), columns (4)
 * docs/wire-format.md is the specification. */
#ifndef TG_EXCHANGE_STAR_CODING_H
#define TG_EXCHANGE_STAR_CODING_H

#include "exchange/exchange.h"

#define TG__CODING_STEP 16u
#define TG__CODING_FIRST 40u
#define TG__CODING_SEGMENT 12u
#define TG__CODING_SPEC_MOST 500u
#define TG__CODING_MOST (1u << 20) /* bytes of all of it: more tensors in a part are refused */

typedef struct tg__coding {
    double density, factor;
    tg_rng_key rng; /* without the step */
    char spec[TG__CODING_SPEC_MOST + 1];
    const uint8_t *segments; /* (nsegments) as they came: tg__coding_segments */
    size_t nsegments;
} tg__coding;

/* Write the coding of a part, in codec and context those of x, which are those of sums.
 * first   all of it
 * stream  of random numbers
 * at      [out] TG__CODING_MOST bytes
 * Errors  TG_E_UNSUPPORTED (too many tensors) */
TG_NODISCARD tg_status tg__coding_write(const tg__exchange *x, const tg__part *part, bool first,
                                        uint32_t stream, uint8_t *at, uint32_t *len_p);
/* Read and check a coding for a part of n elements. Without `first`, only density and factor.
 * Errors  TG_E_CORRUPT */
TG_NODISCARD tg_status tg__coding_read(const uint8_t *at, size_t len, bool first, size_t n,
                                       tg__coding *c);
/* The tensors (c->nsegments) of a coding that has been read. */
void tg__coding_segments(const tg__coding *c, tg_segment *segments);

#endif

/* The codec of a server's answers about n elements, as ranks tell it (exchange/star_coding.h). */
#ifndef TG_SERVER_CODER_H
#define TG_SERVER_CODER_H

#include "exchange/message.h"
#include "exchange/star_coding.h"
#include "server/kept.h"

typedef struct tg__coder {
    size_t n;
    tg_codec *codec;      /* NULL: none was told */
    tg_segment *segments; /* (nsegments) */
    size_t nsegments;
    float *memory; /* (tg__coder_memory) the codec's; NULL: it has none */
    tg_rng_key rng;
} tg__coder;

/* Begin anew with a coding that is complete. c: all zero, or with an older one.
 * codec   the id of the ranks' frames; -1: not known
 * Errors  TG_E_CORRUPT (frames of another codec), TG_E_SPEC, TG_E_NOMEM; c is then released */
TG_NODISCARD tg_status tg__coder_begin(tg__coder *c, size_t n, int codec, const tg__coding *coding);
void tg__coder_release(tg__coder *c);
/* The codec's memory is as at the beginning. */
void tg__coder_clear(tg__coder *c);
/* Elements of the codec's memory. */
size_t tg__coder_memory(const tg__coder *c);
/* The largest frame, in bytes. */
size_t tg__coder_room(const tg__coder *c);
/* Code p (n).
 * gradient  (n) what was added to p last; NULL: unknown
 * part      where the frame goes
 * view      [out] what it decodes to; NULL: not wanted
 * Errors    TG_E_NOMEM, TG_E_NONFINITE */
TG_NODISCARD tg_status tg__coder_encode(tg__coder *c, uint64_t step, double density, const float *p,
                                        const float *gradient, tg__part *part, tg__view *view);
/* Put the codec's memory into a checkpoint. Its elements begin with `begin` in the vector of `key`.
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__coder_keep(const tg__coder *c, tg__kept_key key, uint64_t begin,
                                      tg__kept_writer *w);
/* Take it over: for each tensor that of its first element. */
void tg__coder_restore(tg__coder *c, const tg__kept *kept, tg__kept_key key, uint64_t begin);

#endif

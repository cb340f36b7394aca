/* What workers have of a region: all the same, if a step takes the gradients of all; else each
 * something of its own. If answers are coded (exchange=twoway), the server updates w, and sends
 * C(w - v); here and there, v += D(C(w - v)), by the same operation. So workers have the bits of v,
 * and w - v is what was not sent yet. A worker that lacks an earlier answer gets v as a whole; one
 * that has something of its own gets w, which then is its v. */
#ifndef TG_SERVER_SENT_H
#define TG_SERVER_SENT_H

#include "exchange/star.h"
#include "server/coder.h"

typedef struct tg__sent {
    size_t n;
    float *v;        /* (n) */
    uint64_t number; /* of codings: v has changed so often, steps that were dropped included */
    tg__coder coder; /* without codec: no coding was told yet */
    uint8_t *coding; /* (coding_len) by which the coder began */
    size_t coding_len;
} tg__sent;

/* Create with v = w (n).
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__sent_create(const float *w, size_t n, tg__sent **s_p);
/* NULL is fine. */
void tg__sent_destroy(tg__sent *s);
/* Check what a rank says about the coding of n elements; s NULL: nobody has said anything yet.
 * codec   the id of the rank's frame
 * star    of the message; coding (star->coding) is behind its frame
 * Errors  TG_E_CORRUPT, TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status tg__sent_check(const tg__sent *s, size_t n, uint8_t codec,
                                      const tg__star *star, const uint8_t *coding);
/* Check that two ranks, of which one is first, say the same, as far as their messages tell.
 * Errors  TG_E_MISMATCH */
TG_NODISCARD tg_status tg__sent_compare(const tg__star *a, const uint8_t *coding_a,
                                        const tg__star *b, const uint8_t *coding_b);
/* Go on with a complete coding, unless it is that of now: then the codec's memory stays.
 * codec   the id of the ranks' frames; -1: not known
 * Errors  TG_E_CORRUPT, TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status tg__sent_adopt(tg__sent *s, int codec, const uint8_t *coding, size_t len);
/* Send w (n): code w - v, and add it to v. Without a coder for this codec, or if a value is not
 * finite, v = w.
 * codec   the id of the ranks' frames
 * coding  of one of them
 * keeps   the step is dropped: zeros are sent, and v stays
 * p       (n) scratch
 * frame   (room of s->coder) where the frame goes; NULL: nothing can be coded
 * len_p   [out] its bytes; 0: v was not coded, but became w: it must be sent as a whole
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__sent_code(tg__sent *s, const float *w, uint8_t codec, uint64_t step,
                                     const uint8_t *coding, bool keeps, float *p, uint8_t *frame,
                                     size_t *len_p);
/* v = w for elements [at, at + n): all get them as a whole. s NULL: nothing */
void tg__sent_copy(tg__sent *s, const float *w, size_t at, size_t n);

#endif

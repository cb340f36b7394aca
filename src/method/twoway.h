/* Two-way quantisation: the owner of a block of exchange `direct` adds its residual to the mean,
 * encodes it and keeps what that lost. One task at a time. */
#ifndef TG_TWOWAY_H
#define TG_TWOWAY_H

#include "method/method.h"

typedef struct tg__twoway tg__twoway;

/* Make the owner's slot for this rank's block of x. segments (count): the bucket's tensors;
 * borrowed codec. Errors TG_E_NOMEM, TG_E_UNSUPPORTED (more than one coded lane) */
TG_NODISCARD tg_status tg__twoway_create(const tg__method_setup *setup, const tg_segment *segments,
                                         tg_codec *codec, const tg__exchange *x, tg__twoway **t_p);
/* From now on x, which has the same blocks, goes both ways. */
void tg__twoway_hook(tg__twoway *t, tg__exchange *x);
void tg__twoway_destroy(tg__twoway *t); /* NULL is fine; not the slot */

/* Whether the coming step changes no parameters: then the owner sends zeros and keeps what it has.
 * NULL is fine */
void tg__twoway_rest(tg__twoway *t, bool rests);
/* The owner's residual (*n_p elements); NULL: there is none. t NULL is fine */
float *tg__twoway_memory(tg__twoway *t, size_t *n_p);
/* The step was dropped: the owner's residual is what it was before the step. NULL is fine */
void tg__twoway_undo(tg__twoway *t);
/* Multiply the owner's residual. NULL is fine */
void tg__twoway_scale(tg__twoway *t, float factor);

#endif

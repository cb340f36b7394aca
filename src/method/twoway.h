/* Two-way quantisation: the owner of a block of exchange `direct` adds its residual to the mean,
 * encodes the sum, and keeps the error as the new residual. One task at a time. */
#ifndef TG_TWOWAY_H
#define TG_TWOWAY_H

#include "method/method.h"

typedef struct tg__twoway tg__twoway;

/* Create the owner's side, with its slot for this rank's block of x. The method owns it.
 * codec   borrowed
 * Errors  TG_E_NOMEM, TG_E_UNSUPPORTED (more than one coded lane) */
TG_NODISCARD tg_status tg__twoway_create(tg__method *m, tg_codec *codec, const tg__exchange *x,
                                         tg__twoway **t_p);
/* Make x, which has the same blocks, two-way from now on. */
void tg__twoway_hook(tg__twoway *t, tg__exchange *x);

/* Set whether the next step leaves the parameters unchanged: then the owner sends zeros and keeps
 * its residual. NULL is fine. */
void tg__twoway_rest(tg__twoway *t, bool rests);
/* The owner's residual, of *n_p elements; NULL if there is none. t may be NULL. */
float *tg__twoway_memory(tg__twoway *t, size_t *n_p);
/* The step was dropped: restore the owner's residual from before it. NULL is fine. */
void tg__twoway_undo(tg__twoway *t);
/* Multiply the owner's residual by factor. NULL is fine. */
void tg__twoway_scale(tg__twoway *t, float factor);

#endif

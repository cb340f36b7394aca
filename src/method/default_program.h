/* The one-round program: compensate, encode, tell the feedback, exchange. */
#ifndef TG_DEFAULT_PROGRAM_H
#define TG_DEFAULT_PROGRAM_H

#include "method/method.h"

extern const tg__program_ops tg__default_program;

/* For other programs: create the codec `name`, with the method's keys that it has as well.
 * Errors  TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status tg__make_codec(const tg__method *m, const char *name, tg_codec **codec_p);
/* For other programs: list the positions of the bucket's tensors (s->count). Release it with
 * free().
 * Errors  TG_E_NOMEM */
TG_NODISCARD tg_status tg__make_segments(const tg__method_setup *s, tg_segment **segments_p);

#endif

/* The one-round program: compensate, encode, tell the feedback, exchange. */
#ifndef TG_DEFAULT_PROGRAM_H
#define TG_DEFAULT_PROGRAM_H

#include "method/method.h"

extern const tg__program_ops tg__default_program;

/* For other programs: the codec `name` with those of the method's keys that it has as well.
 * Errors TG_E_SPEC, TG_E_NOMEM */
TG_NODISCARD tg_status tg__make_codec(const tg__method *m, const char *name, tg_codec **codec_p);
/* Likewise: where the bucket's tensors lie. (s->count), to be freed. Errors TG_E_NOMEM */
TG_NODISCARD tg_status tg__make_segments(const tg__method_setup *s, tg_segment **segments_p);

#endif

/* Checks of the caller's array descriptors. */
#ifndef TG_CODEC_ARRAY_H
#define TG_CODEC_ARRAY_H

#include "telegrad/codec.h"

/* Check that this build can use the array.
 * call    the public function whose argument x it is, for messages
 * x       not NULL
 * Errors  TG_E_ARG, TG_E_UNSUPPORTED */
TG_NODISCARD tg_status tg__array_check(const char *call, const tg_array *x);

#endif

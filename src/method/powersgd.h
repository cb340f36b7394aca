/* What PowerSGD's programs keep: for matrices on the host (powersgd_program.c) and on a device
 * (powersgd_on_device.c). */
#ifndef TG_METHOD_POWERSGD_H
#define TG_METHOD_POWERSGD_H

#include "method/lowrank.h"

typedef struct tg__powersgd {
    tg__lowrank low;
    bool warm;
    tg__exchange *first, *second; /* of nfirst and of low.nright elements; NULL: no matrices */
    size_t nfirst;
    float *mixed; /* (nfirst) p of the matrices, then the other tensors */
} tg__powersgd;

/* Read the spec and choose the matrices; then make all the rest, in p, which is zeroed at first.
 * Errors  TG_E_SPEC, TG_E_NOMEM, TG_E_STATE */
TG_NODISCARD tg_status tg__powersgd_choose(tg__method *m, tg__powersgd *p);
TG_NODISCARD tg_status tg__powersgd_make(tg__method *m, tg__powersgd *p);

#endif

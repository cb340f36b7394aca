/* The floating-point environment of the host program. It may differ from the default one, in some
 * ranks or threads only: denormals flushed to zero (linking or loading what -ffast-math made,
 * torch.set_flush_denormal), another rounding mode, exceptions unmasked. Each would change bits or
 * raise signals. So public functions that compute with floats begin with TG__OWN_FLOATS: the
 * default environment holds in them and in the threads that they start, and the host's is back when
 * they return. */
#ifndef TG_BASE_FLOATS_H
#define TG_BASE_FLOATS_H

#include <fenv.h>
#include <stdbool.h>

typedef struct tg__host_floats {
    bool differ;
    fenv_t env; /* if they do */
} tg__host_floats;

void tg__floats_enter(tg__host_floats *host);
void tg__floats_leave(tg__host_floats *host);

#define TG__OWN_FLOATS                                                       \
    __attribute__((cleanup(tg__floats_leave))) tg__host_floats host_floats_; \
    tg__floats_enter(&host_floats_)

#endif

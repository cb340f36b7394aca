/* Methods whose vectors are on a device. */
#ifndef TG_METHOD_ON_DEVICE_H
#define TG_METHOD_ON_DEVICE_H

#include "codec/on_gpu.h"
#include "method/method.h"

/* If the backend codes this method, give m the program that does so; else leave m as it is: then
 * vectors are copied to the host. m has its feedback. */
TG_NODISCARD tg_status tg__on_device_try(tg__method *m);
/* Which asks these for PowerSGD, and for random-k. */
TG_NODISCARD tg_status tg__powersgd_on_device_try(tg__method *m);
TG_NODISCARD tg_status tg__support_on_device_try(tg__method *m);
/* True if gradients and aggregates of m are in device memory. */
bool tg__on_device(const tg__method *m);
/* The first element of the last task's gradient that is not finite; SIZE_MAX: none. */
size_t tg__on_device_bad(const tg__method *m);
/* Copy the memory to its slots, which may be read and written until the next begin. */
TG_NODISCARD tg_status tg__on_device_show(tg__method *m);

#endif

/* The vectors of a method's feedback on a device. The slots, which are in host memory, are a copy,
 * made when someone asks for them and read back before the next step. */
#ifndef TG_METHOD_DEVICE_MEMORY_H
#define TG_METHOD_DEVICE_MEMORY_H

#include "codec/on_gpu.h"
#include "method/method.h"

typedef struct tg__device_memory {
    const tg_device_ops *ops;
    tg_queue *queue;
    float *vec[TG__FEEDBACK_VECTORS]; /* (n) each, on the device; NULL: there is none */
    bool shown;                       /* the slots may have changed */
} tg__device_memory;

/* Make the vectors on the queue of the method's setup.
 * Errors  TG_E_NOMEM, TG_E_STATE */
TG_NODISCARD tg_status tg__device_memory_make(tg__device_memory *d, tg__method *m);
void tg__device_memory_free(tg__device_memory *d); /* also after make has failed */

/* How many there are; and that of what is not yet sent, NULL: none. */
size_t tg__device_memory_count(const tg__method *m);
float *tg__device_memory_pending(const tg__device_memory *d, const tg__method *m);

/* Copy them to the slots, which may be read and written until the next resume; and take the slots
 * back. */
TG_NODISCARD tg_status tg__device_memory_show(tg__device_memory *d, tg__method *m);
TG_NODISCARD tg_status tg__device_memory_resume(tg__device_memory *d, tg__method *m);
/* Members of tg__program_ops. */
bool tg__device_memory_heal(tg__device_memory *d, tg__method *m, bool anyway);
double tg__device_memory_norm(tg__device_memory *d, tg__method *m);

#endif

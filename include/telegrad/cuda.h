/* telegrad/cuda.h - vectors in the memory of NVIDIA GPUs (libtelegrad-cuda).
 *
 *     tg_cuda_attach();
 *     tg_array g = {sizeof g, device_pointer, n, TG_F32, TG_CUDA, 0, stream};
 *     tg_codec_encode(codec, NULL, &g, frame, tg_codec_bound(codec, n), &len);
 *
 * Frames have the same bytes as those that the host encodes, so ranks with and without a GPU can
 * form one job. A call that works on a GPU restores the calling thread's current device, unless the
 * process does not use that device: then the array's becomes the current one. */
#ifndef TELEGRAD_CUDA_H
#define TELEGRAD_CUDA_H

#include "telegrad/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Make arrays with memory TG_CUDA known to the library. Call it once, before the first such array;
 * further calls do nothing.
 * Errors  TG_E_UNSUPPORTED (no driver, or no GPU: the message has CUDA's error)
 * Threads any */
TG_API TG_NODISCARD tg_status tg_cuda_attach(void);
/* The number of GPUs; 0 if there is no driver. */
TG_API int tg_cuda_devices(void);

#ifdef __cplusplus
}
#endif
#endif
